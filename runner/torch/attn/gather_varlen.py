"""Gather the keys, then torch's own `varlen_attn`: a second opinion on a GPU, not the timed path.

It moves every key and value three times (read, written packed, read again), so its decode times
say nothing about a server. On pure prefills without context it needs no gathering to be compared.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from schedbench.errors import UnsupportedError

if TYPE_CHECKING:
    from schedbench.runner.torch.attn.interface import AttnInput


class GatherVarlen:
    """Flash attention over packed keys; CUDA only, bf16 or fp16.

    Raises:
        UnsupportedError: this torch has no `varlen_attn`.
    """

    name = "gather_varlen"

    def __init__(self) -> None:
        try:
            from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 - torch 2.10 on
        except ImportError as error:
            raise UnsupportedError(
                "attention gather_varlen needs torch.nn.attention.varlen (torch 2.10 or newer)"
            ) from error
        self._attend = varlen_attn
        known = inspect.signature(varlen_attn).parameters
        self._options: dict[str, Any] = {}
        if "enable_gqa" in known:  # torch 2.11 takes fewer KV heads without being told
            self._options["enable_gqa"] = True
        if "window_size" in known:  # causal, aligned to the end of the keys
            self._options["window_size"] = (-1, 0)
        else:
            self._options["is_causal"] = True

    def __call__(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, batch: AttnInput
    ) -> torch.Tensor:
        """Attend in one call over all rows; see `Attention` for the shapes."""
        lengths = batch.seq_lens[: batch.num_seqs]
        cu_k = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
        slots = packed_slots(batch, cu_k, keys.shape[1])
        packed_k = keys.flatten(0, 1)[slots]
        packed_v = values.flatten(0, 1)[slots]
        return self._attend(
            q,
            packed_k,
            packed_v,
            batch.cu_q[: batch.num_seqs + 1],
            cu_k,
            int(batch.q_host.max()),
            int(batch.seq_lens_host.max()),
            scale=q.shape[-1] ** -0.5,
            **self._options,
        )


def packed_slots(batch: AttnInput, cu_k: torch.Tensor, block_size: int) -> torch.Tensor:
    """Slots of all keys, row after row: `[sum of seq_lens]`, int64."""
    lengths = batch.seq_lens[: batch.num_seqs]
    total = int(batch.seq_lens_host.sum())
    row = torch.repeat_interleave(
        torch.arange(batch.num_seqs, device=lengths.device), lengths, output_size=total
    )
    place = torch.arange(total, device=lengths.device) - cu_k[row]
    table = batch.block_table[batch.rows.long()[row], place // block_size]
    return table.long() * block_size + place % block_size
