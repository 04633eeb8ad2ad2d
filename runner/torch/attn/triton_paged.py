"""The Triton kernels as an Attention and as Ops: shapes in, grids and block sizes out.

Block sizes are a fixed table by head width and element size. Tuning at run time would spend
minutes of GPU time, and every size here is compiled and its registers read without a GPU
(`bench/compile_kernels.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch
import triton

from schedbench.errors import UnsupportedError
from schedbench.runner.torch.attn import fused_kernels, kernels

if TYPE_CHECKING:
    from schedbench.runner.models import ModelSpec
    from schedbench.runner.torch.attn.interface import AttnInput
    from schedbench.runner.torch.model.weights import LayerWeights

WIDEST_HEAD: Final = 256
HEADS_A_PROGRAM: Final = 16
SILU_BLOCK: Final = 1024


class Blocks(NamedTuple):
    """Sizes of one kernel: tile rows, keys a step, warps, stages of its pipeline."""

    bm: int
    bn: int
    warps: int
    stages: int


# By padded head width; 2-byte elements. No size here spills registers on sm_90.
CHUNK: Final = {
    16: Blocks(64, 64, 4, 3),
    32: Blocks(64, 64, 4, 3),
    64: Blocks(128, 64, 8, 3),
    128: Blocks(128, 64, 8, 3),
    256: Blocks(64, 64, 8, 2),
}
DECODE_KEYS: Final = {16: 64, 32: 64, 64: 64, 128: 64, 256: 32}
FLOAT32: Final = Blocks(16, 16, 8, 1)  # for comparisons: without matrix instructions
FLOAT32_BYTES: Final = 4
OPTIONS: Final = {"enable_fp_fusion": True}  # said aloud, because triton's default is to change


def chunk_blocks(head_dim: int, group: int, element_size: int) -> Blocks:
    """Sizes of the chunk kernel; a tile holds at least one token with all heads of its group."""
    small = element_size == FLOAT32_BYTES
    blocks = FLOAT32 if small else CHUNK[triton.next_power_of_2(head_dim)]
    return blocks._replace(bm=max(blocks.bm, triton.next_power_of_2(group)))


def decode_blocks(head_dim: int, group: int, element_size: int) -> Blocks:
    """Sizes of the decode kernel; a matrix instruction wants 16 rows, however small the group."""
    rows = max(16, triton.next_power_of_2(group))
    if element_size == FLOAT32_BYTES:
        return FLOAT32._replace(bm=rows)
    return Blocks(rows, DECODE_KEYS[triton.next_power_of_2(head_dim)], 4, 3)


def precision_of(dtype: torch.dtype) -> str:
    """float32 is multiplied as such, for comparisons; it says nothing about 2-byte types."""
    return "ieee" if dtype == torch.float32 else "tf32"


class TritonPaged:
    """Chunks by tiles, decodes by splits; any block size of the cache.

    Raises:
        UnsupportedError: heads wider than 256, or narrower than 16.
    """

    name = "triton"

    def __init__(self, spec: ModelSpec, dtype: torch.dtype) -> None:
        if not 16 <= spec.head_dim <= WIDEST_HEAD:  # noqa: PLR2004 - least of a matrix instruction
            raise UnsupportedError(
                f"attention triton takes heads of 16 to {WIDEST_HEAD}, and {spec.name} has "
                f"{spec.head_dim}; give --attention gather_varlen"
            )
        self._chunk = chunk_blocks(spec.head_dim, spec.group_size, dtype.itemsize)
        self._decode = decode_blocks(spec.head_dim, spec.group_size, dtype.itemsize)
        self.tile_tokens = self._chunk.bm // spec.group_size

    def __call__(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, batch: AttnInput
    ) -> torch.Tensor:
        """Launch what the batch needs; see `Attention` for the shapes."""
        out = torch.empty_like(q)
        if batch.num_decodes:
            self._launch_decodes(q, keys, values, out, batch)
        if batch.num_tiles:
            self._launch_chunks(q, keys, values, out, batch)
        return out

    def _launch_chunks(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        out: torch.Tensor,
        batch: AttnInput,
    ) -> None:
        heads, width = q.shape[1:]
        page, kv_heads = keys.shape[1:3]
        blocks = self._chunk
        kernels.chunk_kernel[(batch.num_tiles, kv_heads)](
            q,
            keys,
            values,
            out,
            batch.block_table,
            batch.rows,
            batch.seq_lens,
            batch.cu_q,
            batch.tile_seq,
            batch.tile_start,
            batch.block_table.stride(0),
            width**-0.5,
            H=heads,
            HKV=kv_heads,
            D=width,
            D_PAD=triton.next_power_of_2(width),
            PAGE=page,
            TILE_TOKENS=self.tile_tokens,
            BM=blocks.bm,
            BN=blocks.bn,
            PRECISION=precision_of(q.dtype),
            num_warps=blocks.warps,
            num_stages=blocks.stages,
            **OPTIONS,
        )

    def _launch_decodes(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        out: torch.Tensor,
        batch: AttnInput,
    ) -> None:
        heads, width = q.shape[1:]
        page, kv_heads = keys.shape[1:3]
        blocks, num, splits = self._decode, batch.num_decodes, batch.splits
        parts = num * heads * splits if splits > 1 else 0
        sums = torch.empty(max(parts, 1) * (width + 2), dtype=torch.float32, device=q.device)
        part, peak, total = (
            sums[: parts * width],
            sums[parts * width :],
            sums[parts * (width + 1) :],
        )
        padded = triton.next_power_of_2(width)
        kernels.decode_kernel[(num, kv_heads, splits)](
            q,
            keys,
            values,
            out,
            part,
            peak,
            total,
            batch.block_table,
            batch.rows,
            batch.seq_lens,
            batch.block_table.stride(0),
            width**-0.5,
            H=heads,
            HKV=kv_heads,
            D=width,
            D_PAD=padded,
            PAGE=page,
            GP=blocks.bm,
            BN=blocks.bn,
            SPLITS=splits,
            PRECISION=precision_of(q.dtype),
            num_warps=blocks.warps,
            num_stages=blocks.stages,
            **OPTIONS,
        )
        if splits > 1:
            kernels.combine_kernel[(num * heads,)](
                part,
                peak,
                total,
                out,
                D=width,
                D_PAD=padded,
                SPLITS=splits,
                num_warps=2,
                **OPTIONS,
            )


class TritonOps:
    """The fused steps; the same results as TorchOps, rounded once instead of at each step."""

    name = "triton"

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec

    def qkv_to_cache(
        self,
        qkv: torch.Tensor,
        layer: LayerWeights,
        rope: torch.Tensor,
        slots: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> torch.Tensor:
        """Norm, rotate and store in one launch; see TorchOps for the shapes."""
        spec, tokens = self._spec, qkv.shape[0]
        q = torch.empty((tokens, spec.num_heads, spec.head_dim), dtype=qkv.dtype, device=qkv.device)
        blocks = triton.cdiv(spec.num_heads + 2 * spec.num_kv_heads, HEADS_A_PROGRAM)
        norm = layer.q_norm is not None
        fused_kernels.qkv_to_cache_kernel[(tokens, blocks)](
            qkv,
            rope,
            slots,
            layer.q_norm if norm else qkv,
            layer.k_norm if norm else qkv,
            q,
            keys,
            values,
            spec.rms_norm_eps,
            H=spec.num_heads,
            HKV=spec.num_kv_heads,
            D=spec.head_dim,
            HALF_PAD=triton.next_power_of_2(spec.head_dim // 2),
            HEADS=HEADS_A_PROGRAM,
            NORM=norm,
            num_warps=4,
            **OPTIONS,
        )
        return q

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """`[.., 2 I]` -> `[.., I]`."""
        width = gate_up.shape[-1] // 2
        out = torch.empty((*gate_up.shape[:-1], width), dtype=gate_up.dtype, device=gate_up.device)
        rows = out.numel() // width
        grid = (rows, triton.cdiv(width, SILU_BLOCK))
        if rows:
            fused_kernels.silu_mul_kernel[grid](gate_up, out, width, BLOCK=SILU_BLOCK, **OPTIONS)
        return out
