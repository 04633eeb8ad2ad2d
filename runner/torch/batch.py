"""One pass as arrays, in one int32 buffer that goes to the device in one copy.

Decodes (one token) stand before chunks, so that each attention kernel sees its own rows:

    rows      | d0 | d1 | d2 |    c0     |      c1       |
    tokens    | .  | .  | .  | .  .  .  . | . . . . . .  |
    cu_q      0    1    2    3            7             13

Everything is one vectorised step over numpy arrays: no list and no tensor a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from schedbench.errors import InvariantError
from schedbench.runner.torch.rows import RowTable, tokens_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from schedbench.sched.output import SchedulerOutput

    Ints = npt.NDArray[np.int32]

ALIGN: Final = 16  # int32 elements: kernels are compiled once for aligned pointers


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each array lies in the buffer; sizes are the most a pass can need."""

    max_tokens: int
    max_seqs: int
    max_tiles: int
    max_updates: int

    def regions(self) -> dict[str, slice]:
        """Name of an array -> its place, in int32 elements."""
        sizes = {
            "tokens": self.max_tokens,
            "positions": self.max_tokens,
            "slots": self.max_tokens,
            "rows": self.max_seqs,
            "seq_lens": self.max_seqs,
            "cu_q": self.max_seqs + 1,
            "sample": self.max_seqs,
            "tile_seq": self.max_tiles,
            "tile_start": self.max_tiles,
            "update_at": self.max_updates,
            "update_block": self.max_updates,
        }
        starts = accumulate((_aligned(size) for size in sizes.values()), initial=0)
        return {
            name: slice(begin, begin + sizes[name])
            for name, (begin, _) in zip(sizes, pairwise(starts), strict=True)
        }

    @property
    def size(self) -> int:
        """Elements of the whole buffer."""
        last = list(self.regions().values())[-1]
        return _aligned(last.stop)


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


@dataclass(slots=True)
class Batch:
    """Counts of a pass whose arrays are in the buffer, and host copies that kernels' grids need."""

    request_ids: list[str]  # in the order of the rows
    num_tokens: int
    num_decodes: int
    num_tiles: int
    num_sampled: int
    num_updates: int
    q: Ints
    seq_lens: Ints
    late_updates: tuple[Ints, Ints] | None = None  # block table entries beyond the buffer

    @property
    def num_seqs(self) -> int:
        return len(self.request_ids)

    @property
    def max_seq_len(self) -> int:
        return int(self.seq_lens.max()) if len(self.seq_lens) else 0


class BatchBuilder:
    """Writes passes into a buffer of int32, `buffer[layout.size]`.

    No pass is launched but one written here, and none is written whose blocks are not checked:
    kernels do not look where they read and write.

    `num_blocks`: blocks of the cache, the null block among them.
    `tile_tokens`: query tokens that one program of the chunk kernel handles.
    """

    def __init__(
        self,
        rows: RowTable,
        layout: Layout,
        buffer: Ints,
        *,
        block_size: int,
        num_blocks: int,
        vocab_size: int,
        tile_tokens: int,
    ) -> None:
        self.rows = rows
        self.layout = layout
        self.block_size = block_size
        self.num_blocks = num_blocks
        self.vocab_size = vocab_size
        self.tile_tokens = tile_tokens
        self._at: Mapping[str, Ints] = {
            name: buffer[place] for name, place in layout.regions().items()
        }
        self._iota = np.arange(layout.max_tokens, dtype=np.int32)

    def build(self, output: SchedulerOutput) -> Batch:
        """Follow the pass's decisions and write its arrays."""
        self.rows.update(output)
        unsampled = [
            request.request_id for request, _, _ in output.prefills if request.is_prefill_chunk
        ]
        return self.write(output.num_scheduled_tokens, unsampled)

    def write(self, scheduled: Mapping[str, int], unsampled: list[str]) -> Batch:
        """Write the arrays of a pass: tokens a request, and which requests get no token from it.

        Raises:
            InvariantError: the pass is larger than the buffer, or would read or write outside the
                blocks of its requests.
        """
        row_of, requests = self.rows.row_of, self.rows.requests
        ids = list(scheduled)
        q = np.fromiter(scheduled.values(), dtype=np.int32, count=len(ids))
        places = [row_of[each] for each in ids]
        ends = [requests[row].num_computed_tokens for row in places]  # type: ignore[union-attr]
        rows, seq_lens = np.array(places, dtype=np.int32), np.array(ends, dtype=np.int32)
        chunk = q > 1
        num_chunks = int(chunk.sum())
        if num_chunks and not chunk[len(ids) - num_chunks :].all():
            order = np.argsort(chunk, kind="stable")
            q, rows, seq_lens = q[order], rows[order], seq_lens[order]
            ids = [ids[index] for index in order.tolist()]
        batch = Batch(ids, int(q.sum()), len(ids) - num_chunks, 0, 0, 0, q, seq_lens)
        self._check_blocks(batch, rows, self._write_updates(batch))
        self._at["rows"][: len(ids)] = rows
        self._at["seq_lens"][: len(ids)] = seq_lens
        self._write_tokens(batch, rows)
        self._write_samples(batch, unsampled)
        self._write_tiles(batch)
        return batch

    def _check_blocks(self, batch: Batch, rows: Ints, new_blocks: Ints) -> None:
        """The pass fits the buffer, and each request has blocks of the cache for all its tokens.

        Block tables only grow by new blocks, so that those of earlier passes are known to be good.
        """
        if batch.num_tokens > self.layout.max_tokens:
            raise InvariantError(
                f"a pass has {batch.num_tokens} tokens, and the buffer holds "
                f"{self.layout.max_tokens}"
            )
        last = self.num_blocks - 1
        if len(new_blocks) and not 1 <= int(new_blocks.min()) <= int(new_blocks.max()) <= last:
            raise InvariantError(
                f"a block table has blocks {new_blocks.min()} to {new_blocks.max()}; those of "
                f"requests are 1 to {last}"
            )
        room = self.rows.num_blocks[rows] * self.block_size
        short = np.flatnonzero(batch.seq_lens > room)
        if len(short):
            at = int(short[0])
            raise InvariantError(
                f"request {batch.request_ids[at]} has blocks for {room[at]} tokens, and a pass "
                f"writes its token {batch.seq_lens[at]}"
            )

    def pad(self, batch: Batch, size: int) -> None:
        """Fill a decode batch up to `size` rows of length 0 that write into the null block."""
        num = batch.num_seqs
        for name in ("tokens", "positions", "slots", "rows", "seq_lens"):
            self._at[name][num:size] = 0

    def slots_of(self, batch: Batch) -> Ints:
        """Where the tokens of the pass just written go in the cache, `[T]`."""
        return self._at["slots"][: batch.num_tokens]

    def sample_of(self, batch: Batch) -> Ints:
        """Indices of the tokens that are sampled from, `[S]`."""
        return self._at["sample"][: batch.num_sampled]

    def _write_tokens(self, batch: Batch, rows: Ints) -> None:
        """Positions, slots and tokens; the decodes' need no repeating."""
        at, size, total = self._at, self.block_size, batch.num_tokens
        cu_q = at["cu_q"][: batch.num_seqs + 1]
        cu_q[0] = 0
        np.cumsum(batch.q, out=cu_q[1:])
        positions = at["positions"][:total]
        if batch.num_decodes == batch.num_seqs:
            np.subtract(batch.seq_lens, 1, out=positions)
            token_rows = rows
        else:
            shift = batch.seq_lens - cu_q[1:]
            np.add(np.repeat(shift, batch.q), self._iota[:total], out=positions)
            token_rows = np.repeat(rows, batch.q)
        place = positions // size
        offsets = positions - place * size
        width = self.rows.blocks.shape[1]
        flat = token_rows.astype(np.int64) * width + place
        blocks = self.rows.blocks.reshape(-1)[flat]
        np.add(blocks * size, offsets, out=at["slots"][:total])
        seeds = self.rows.seeds.reshape(-1)[flat]
        at["tokens"][:total] = tokens_of(seeds, offsets, self.vocab_size)

    def _write_samples(self, batch: Batch, unsampled: list[str]) -> None:
        """The last token of every row that gets a token."""
        last = self._at["cu_q"][1 : batch.num_seqs + 1] - 1
        if unsampled:
            without = set(unsampled)
            kept = [index for index, each in enumerate(batch.request_ids) if each not in without]
            last = last[kept]
        self._at["sample"][: len(last)] = last
        batch.num_sampled = len(last)

    def _write_tiles(self, batch: Batch) -> None:
        """Cut the chunks into tiles of query tokens: which row, and from which of its tokens."""
        first = batch.num_decodes
        if first == batch.num_seqs:
            return
        per_row = -(-batch.q[first:] // self.tile_tokens)
        total = int(per_row.sum())
        before = np.repeat(np.cumsum(per_row) - per_row, per_row)
        rows = np.arange(first, batch.num_seqs, dtype=np.int32)
        self._at["tile_seq"][:total] = np.repeat(rows, per_row)
        self._at["tile_start"][:total] = (np.arange(total) - before) * self.tile_tokens
        batch.num_tiles = total

    def _write_updates(self, batch: Batch) -> Ints:
        """Entries of block tables since the last pass; returns their blocks."""
        at, blocks = entries = self.rows.take_changes()
        room = self.layout.max_updates
        if len(at) > room:
            batch.late_updates = (at[room:], blocks[room:])
            at, blocks = at[:room], blocks[:room]
        self._at["update_at"][: len(at)] = at
        self._at["update_block"][: len(at)] = blocks
        batch.num_updates = len(at)
        return entries[1]
