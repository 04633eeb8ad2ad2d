"""Attention in plain torch: a loop that is easy to believe, and batched SDPA for the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    import numpy.typing as npt

    from schedbench.runner.torch.attn.interface import AttnInput

TILE: Final = 128  # tokens of a chunk a call, so that few keys are computed that none of them sees
ALIKE: Final = 16  # decodes a call, the shortest first: all are padded to the longest of theirs


def gather(cache: torch.Tensor, batch: AttnInput, row: int, num_keys: int) -> torch.Tensor:
    """The first `num_keys` keys or values of a row, out of its blocks: `[num_keys, Hkv, D]`."""
    size = cache.shape[1]
    num_blocks = -(-num_keys // size)
    table = batch.block_table[batch.rows[row].long(), :num_blocks].long()
    return cache[table].flatten(0, 1)[:num_keys]


class LoopAttention:
    """The oracle: row by row, softmax written out, in `dtype` (float64 to judge kernels by)."""

    name = "loop"

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self._dtype = dtype

    def __call__(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, batch: AttnInput
    ) -> torch.Tensor:
        """Attend token by token's worth of keys; see `Attention` for the shapes."""
        out = torch.zeros_like(q)
        group = q.shape[1] // keys.shape[2]
        begins = batch.cu_q.tolist()
        for row, length in enumerate(batch.seq_lens_host.tolist()):
            if not length:
                continue
            begin, end = begins[row], begins[row + 1]
            k = gather(keys, batch, row, length).to(self._dtype).repeat_interleave(group, dim=1)
            v = gather(values, batch, row, length).to(self._dtype).repeat_interleave(group, dim=1)
            scores = torch.einsum("qhd,khd->hqk", q[begin:end].to(self._dtype), k)
            scores = scores * q.shape[-1] ** -0.5
            context = length - (end - begin)
            at = torch.arange(end - begin, device=q.device)[:, None] + context
            seen = torch.arange(length, device=q.device)[None, :] <= at
            weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
            out[begin:end] = torch.einsum("hqk,khd->qhd", weights, v).to(q.dtype)
        return out


class BatchedSdpa:
    """SDPA over gathered keys: decodes of similar length in one call, a tile of a chunk in one.

    The query heads of a group stand in the query axis beside each other, so that keys and values
    are never repeated. Places behind a row's end hold whatever its blocks last held: they are
    cleared, because a masked NaN is still a NaN.
    """

    name = "sdpa"

    def __call__(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, batch: AttnInput
    ) -> torch.Tensor:
        """Attend decodes, then chunks; see `Attention` for the shapes."""
        out = torch.zeros_like(q)
        decodes = batch.num_decodes
        lengths = batch.seq_lens_host[:decodes]
        rows = np.argsort(lengths, kind="stable")[int((lengths == 0).sum()) :]  # 0: only padding
        for begin in range(0, len(rows), ALIKE):
            some = rows[begin : begin + ALIKE]
            at = torch.from_numpy(some).to(q.device)
            out[at] = _decodes(
                q[at], keys, values, batch.block_table[batch.rows[at].long()], lengths[some]
            )
        begins = batch.cu_q.tolist() if decodes < batch.num_seqs else []
        for row in range(decodes, batch.num_seqs):
            begin, end = begins[row], begins[row + 1]
            length = int(batch.seq_lens_host[row])
            k, v = gather(keys, batch, row, length), gather(values, batch, row, length)
            for first in range(begin, end, TILE):
                last = min(first + TILE, end)
                seen = length - (end - last)
                out[first:last] = _chunk(q[first:last], k[:seen], v[:seen])
        return out


def _decodes(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    table: torch.Tensor,
    lengths: npt.NDArray[np.int32],
) -> torch.Tensor:
    """Rows of one token: `q [n, H, D]` and `table [n, blocks]`; returns `[n, H, D]`."""
    num, heads, width = q.shape
    size, kv_heads = keys.shape[1:3]
    num_blocks = -(-int(lengths.max()) // size)
    is_behind = np.arange(num_blocks * size) >= lengths[:, None]  # [n, keys]
    behind = torch.from_numpy(np.flatnonzero(is_behind)).to(q.device)
    blocks = table[:, :num_blocks].flatten().long()

    def gathered(cache: torch.Tensor) -> torch.Tensor:
        found = cache.flatten(1).index_select(0, blocks).view(-1, kv_heads * width)
        found.index_fill_(0, behind, 0)
        return found.view(num, -1, kv_heads, width).transpose(1, 2)

    grouped = q.view(num, kv_heads, heads // kv_heads, width)
    mask = torch.from_numpy(~is_behind).to(q.device)[:, None, None, :]
    attended = scaled_dot_product_attention(
        grouped, gathered(keys), gathered(values), attn_mask=mask
    )
    return attended.reshape(q.shape)


def _chunk(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """One row: `q [q, H, D]`, `k` and `v` `[keys, Hkv, D]`; causal to the end of the keys."""
    num, heads, width = q.shape
    kv_heads, length = k.shape[1], k.shape[0]
    group = heads // kv_heads
    folded = q.view(num, kv_heads, group, width).permute(1, 2, 0, 3)
    folded = folded.reshape(kv_heads, group * num, width)
    at = torch.arange(length - num, length, device=q.device)
    seen = torch.arange(length, device=q.device)[None, :] <= at[:, None]
    mask = seen.repeat(group, 1)
    out = scaled_dot_product_attention(folded, k.transpose(0, 1), v.transpose(0, 1), attn_mask=mask)
    return out.view(kv_heads, group, num, width).permute(2, 0, 1, 3).reshape(q.shape)
