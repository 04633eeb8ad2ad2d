"""Which attention a run uses, and a self-check that it computes what it should."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np
import torch

from schedbench.errors import InvariantError, UsageError
from schedbench.runner.torch.attn.interface import AttnInput
from schedbench.runner.torch.attn.reference import BatchedSdpa, LoopAttention

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.runner.models import ModelSpec
    from schedbench.runner.shapes import Row
    from schedbench.runner.torch.attn.interface import Attention

AttentionName = Literal["auto", "triton", "gather_varlen", "sdpa", "loop"]
LOOP_TILE: Final = 64  # tokens of a tile where no kernel reads tiles
TOLERANCE: Final = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-2}


def choose(
    name: AttentionName, spec: ModelSpec, device: torch.device, dtype: torch.dtype
) -> Attention:
    """The attention of that name; `auto` is triton on CUDA where it is installed, sdpa on a CPU.

    Raises:
        UsageError: no such name, or one that this device cannot run.
        UnsupportedError: it cannot take this model's heads.
    """
    if name not in get_args(AttentionName):
        raise UsageError(f"--attention {name}: it is one of {', '.join(get_args(AttentionName))}")
    if name == "auto":
        name = _best(spec, device)
    if name == "triton":
        return _triton(spec, device, dtype)
    if name == "gather_varlen":
        if device.type != "cuda" or dtype == torch.float32:
            raise UsageError("--attention gather_varlen needs a CUDA GPU and bfloat16 or float16")
        from schedbench.runner.torch.attn.gather_varlen import GatherVarlen  # noqa: PLC0415

        return GatherVarlen()
    return LoopAttention() if name == "loop" else BatchedSdpa()


def _best(spec: ModelSpec, device: torch.device) -> AttentionName:
    if device.type != "cuda":
        return "sdpa"
    fits = 16 <= spec.head_dim <= 256  # noqa: PLR2004 - what the kernels are compiled for
    return "triton" if fits and has_triton() else "gather_varlen"


def has_triton() -> bool:
    """Whether Triton is installed; it comes with torch's CUDA builds."""
    return find_spec("triton") is not None


def _triton(spec: ModelSpec, device: torch.device, dtype: torch.dtype) -> Attention:
    if not has_triton():
        raise UsageError("--attention triton needs Triton, which comes with torch's CUDA builds")
    from triton import knobs  # noqa: PLC0415

    if device.type != "cuda" and not knobs.runtime.interpret:
        raise UsageError(
            "--attention triton needs a CUDA GPU; on a CPU only Triton's interpreter runs it, "
            "slowly, with TRITON_INTERPRET=1 in the environment"
        )
    from schedbench.runner.torch.attn.triton_paged import TritonPaged  # noqa: PLC0415

    return TritonPaged(spec, dtype)


def tile_tokens_of(attention: Attention) -> int:
    """Query tokens of one tile; any number will do where no kernel reads tiles."""
    return int(getattr(attention, "tile_tokens", LOOP_TILE))


SELF_CHECK: Final = ((1, 0), (1, 15), (1, 16), (1, 300), (2, 0), (37, 0), (5, 130), (70, 61))


def self_check(
    attention: Attention, spec: ModelSpec, device: torch.device, dtype: torch.dtype
) -> float:
    """One random pass of eight rows against the loop in float64; returns the relative error.

    Raises:
        InvariantError: the error is beyond what rounding explains. Nothing falls back: times of
            a wrong kernel are worth nothing.
    """
    q, keys, values, batch = random_pass(
        [*SELF_CHECK], spec, device, dtype, tile_tokens=tile_tokens_of(attention), splits=4
    )
    oracle = LoopAttention(torch.float64)
    expected = oracle(q.double(), keys.double(), values.double(), batch)
    error = relative_error(attention(q, keys, values, batch), expected)
    if not error <= TOLERANCE[dtype]:
        raise InvariantError(
            f"attention {attention.name} on {device} in {dtype}: its results differ from the "
            f"reference by {error:.1e}, more than {TOLERANCE[dtype]:.0e}; the run is not started"
        )
    return error


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of what was expected, in float64."""
    exact = expected.double()
    return float((found.double() - exact).norm() / exact.norm())


def random_pass(
    rows: Sequence[Row | tuple[int, int]],
    spec: ModelSpec,
    device: torch.device,
    dtype: torch.dtype,
    *,
    block_size: int = 16,
    tile_tokens: int = LOOP_TILE,
    splits: int = 1,
    seed: int = 0,
    padding: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, AttnInput]:
    """Queries, keys, values and batch of rows (q, ctx) in shuffled blocks; decodes come first.

    The null block and all places behind the ends of rows hold NaN. `padding` rows of length 0
    stand behind the decodes; they may then be the only rows.
    """
    rows = sorted(rows, key=lambda row: row[0] > 1)
    num_decodes = sum(row[0] == 1 for row in rows)
    rows[num_decodes:num_decodes] = [(1, -1)] * padding
    q = np.array([row[0] for row in rows], dtype=np.int32)
    lengths = q + np.array([row[1] for row in rows], dtype=np.int32)
    table, slots, num_blocks = _random_table(lengths, block_size, seed)
    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device).to(dtype)

    width = (spec.num_kv_heads, spec.head_dim)
    caches, at = [], slots.to(device)
    for _ in range(2):
        cache = torch.full(
            (num_blocks * block_size, *width), float("nan"), dtype=dtype, device=device
        )
        cache[at] = normal(len(slots), *width)
        caches.append(cache.view(num_blocks, block_size, *width))
    queries = normal(int(q.sum()), spec.num_heads, spec.head_dim)
    batch = _batch(q, lengths, num_decodes + padding, table, tile_tokens, splits, device)
    return queries, caches[0], caches[1], batch


def _random_table(
    lengths: np.ndarray, block_size: int, seed: int
) -> tuple[np.ndarray, torch.Tensor, int]:
    """A block table of shuffled ids, the slots of all tokens, and the number of blocks."""
    rng = np.random.default_rng(seed)
    counts = -(-lengths // block_size)
    num_blocks = int(counts.sum()) + 1
    ids = rng.permutation(num_blocks - 1).astype(np.int32) + 1
    table = np.zeros((len(lengths), int(counts.max()) + 2), dtype=np.int32)
    table[np.arange(table.shape[1]) < counts[:, None]] = ids
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    slots = table[row, place // block_size].astype(np.int64) * block_size + place % block_size
    return table, torch.from_numpy(slots), num_blocks


def _batch(
    q: np.ndarray,
    lengths: np.ndarray,
    num_decodes: int,
    table: np.ndarray,
    tile_tokens: int,
    splits: int,
    device: torch.device,
) -> AttnInput:
    chunks = range(num_decodes, len(q))
    tiles = [(row, start) for row in chunks for start in range(0, int(q[row]), tile_tokens)]

    def ints(values: object) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.int32)).to(device)

    return AttnInput(
        num_seqs=len(q),
        num_decodes=num_decodes,
        num_tiles=len(tiles),
        splits=splits,
        q_host=q,
        seq_lens_host=lengths,
        block_table=ints(table),
        rows=ints(np.arange(len(q))),
        seq_lens=ints(lengths),
        cu_q=ints(np.concatenate([[0], np.cumsum(q)])),
        tile_seq=ints([row for row, _ in tiles]),
        tile_start=ints([start for _, start in tiles]),
    )
