"""Weights, cache, buffers and the two ways through a pass: eager, or a captured graph.

A pass's arrays lie in one int32 buffer whose layout never changes. On a GPU it is copied in one
piece, and every kernel reads views of it that were made once, so that a graph can be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from schedbench.runner.capture import bucket_of, decode_splits
from schedbench.runner.torch.attn.interface import AttnInput
from schedbench.runner.torch.attn.select import tile_tokens_of
from schedbench.runner.torch.batch import Batch, BatchBuilder, Layout
from schedbench.runner.torch.model.decoder import Forwards, Tokens
from schedbench.runner.torch.rows import RowTable

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The most a pass can need, in tokens, requests and blocks a request."""

    max_tokens: int
    max_seqs: int
    max_model_len: int
    block_size: int
    num_blocks: int

    @property
    def max_blocks(self) -> int:
        """Entries of a block table; one more than a full sequence, for lookahead slots."""
        return -(-self.max_model_len // self.block_size) + 1


class Engine:
    """Executes batches. `sizes` are the decode batch sizes that are padded to (and captured)."""

    def __init__(
        self,
        decoder: Forwards,
        limits: EngineLimits,
        sizes: Sequence[int] = (),
        num_sms: int = 1,
    ) -> None:
        self.decoder = decoder
        self.limits = limits
        self.sizes = list(sizes)
        self.num_sms = num_sms
        self.device = decoder.cache.device
        self.rows = RowTable(limits.max_seqs, limits.max_blocks)
        tile_tokens = tile_tokens_of(decoder.attention)
        padded = max([limits.max_seqs, *self.sizes])
        layout = Layout(
            max_tokens=max(limits.max_tokens, padded),
            max_seqs=padded,
            max_tiles=limits.max_tokens // tile_tokens + limits.max_seqs + 1,
            max_updates=max(4096, 2 * padded),
        )
        pinned = self.device.type == "cuda"
        self._host = torch.zeros(layout.size, dtype=torch.int32, pin_memory=pinned)
        self._buffer = self._host if not pinned else self._host.to(self.device)
        self._view = {name: self._buffer[place] for name, place in layout.regions().items()}
        self.table = torch.zeros(
            (limits.max_seqs, limits.max_blocks), dtype=torch.int32, device=self.device
        )
        self.builder = BatchBuilder(
            self.rows,
            layout,
            self._host.numpy(),
            block_size=limits.block_size,
            num_blocks=limits.num_blocks,
            vocab_size=decoder.spec.vocab_size,
            tile_tokens=tile_tokens,
        )
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}

    def clear(self) -> None:
        """Make every row of the buffer padding: length 0, in the null block."""
        self._host.zero_()
        if self._buffer is not self._host:
            self._buffer.copy_(self._host)

    def release(self) -> None:
        """Drop the graphs, the weights and the cache."""
        self.graphs.clear()
        del self.decoder

    def bucket(self, batch: Batch) -> int | None:
        """The size a decode batch is padded to; None for mixed passes and larger batches."""
        if batch.num_decodes != batch.num_seqs:
            return None
        return bucket_of(batch.num_seqs, self.sizes)

    def upload(self, batch: Batch) -> None:
        """Bring the buffer to the device, and the block table up to date."""
        if self._buffer is not self._host:
            self._buffer.copy_(self._host, non_blocking=True)
        count = batch.num_updates
        if count:
            at = self._view["update_at"][:count].long()
            self.table.view(-1).index_copy_(0, at, self._view["update_block"][:count])
        if batch.late_updates is not None:
            places, blocks = (torch.from_numpy(each) for each in batch.late_updates)
            at = places.to(self.device).long()
            self.table.view(-1).index_copy_(0, at, blocks.to(self.device))

    @torch.inference_mode()
    def logits(self, batch: Batch) -> torch.Tensor:
        """An eager pass: logits of the sampled rows, `[S, vocab]`, in the order of the rows."""
        view = self._view
        tokens = Tokens(
            ids=view["tokens"][: batch.num_tokens],
            positions=view["positions"][: batch.num_tokens],
            slots=view["slots"][: batch.num_tokens],
            sample=view["sample"][: batch.num_sampled],
        )
        return self.decoder.forward(tokens, self._attn_input(batch))

    @torch.inference_mode()
    def padded_logits(self, size: int, seq_lens: np.ndarray | None = None) -> torch.Tensor:
        """A decode pass of `size` rows, padded ones included: what a graph captures.

        `seq_lens` are the host's lengths, for an attention that is no kernel.
        """
        view = self._view
        tokens = Tokens(view["tokens"][:size], view["positions"][:size], view["slots"][:size], None)
        lengths = np.zeros(size, dtype=np.int32)
        if seq_lens is not None:
            lengths[: len(seq_lens)] = seq_lens
        batch = Batch([], size, size, 0, size, 0, np.ones(size, dtype=np.int32), lengths)
        return self.decoder.forward(tokens, self._attn_input(batch))

    def sampled(self, batch: Batch, bucket: int | None) -> tuple[torch.Tensor, bool]:
        """Greedy tokens of the sampled rows, on the device, and whether a graph ran the pass."""
        if bucket is None:
            return self.logits(batch).argmax(dim=-1), False
        captured = self.graphs.get(bucket)
        if captured is None:
            logits = self.padded_logits(bucket, batch.seq_lens)
            return logits[: batch.num_seqs].argmax(dim=-1), False
        graph, tokens = captured
        graph.replay()
        return tokens[: batch.num_seqs], True

    def _attn_input(self, batch: Batch) -> AttnInput:
        view, num = self._view, batch.num_decodes + _chunks(batch)
        heads = self.decoder.spec.num_kv_heads
        return AttnInput(
            num_seqs=num,
            num_decodes=batch.num_decodes,
            num_tiles=batch.num_tiles,
            splits=decode_splits(batch.num_decodes, heads, self.num_sms),
            q_host=batch.q,
            seq_lens_host=batch.seq_lens,
            block_table=self.table,
            rows=view["rows"][:num],
            seq_lens=view["seq_lens"][:num],
            cu_q=view["cu_q"][: num + 1],
            tile_seq=view["tile_seq"][: batch.num_tiles],
            tile_start=view["tile_start"][: batch.num_tiles],
        )


def _chunks(batch: Batch) -> int:
    return len(batch.q) - batch.num_decodes
