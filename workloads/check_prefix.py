"""Rules of prefix ids: how many there are, and that equal ids really mean equal prefixes.

    tokens   |---- h ----|---- h ----|-- tail --|- generated -|
    ids      [ hash_ids 0 ][ hash_ids 1 ][ 2: tail, if any ]
             [ the blocks that generated tokens complete: output_hash_ids ]

An id names a prefix if it stands at one position and after one predecessor, wherever it occurs.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schedbench.errors import TraceError
from schedbench.workloads.arrays import Integers, Offsets, ragged, required
from schedbench.workloads.place import Mask, Place

_USUAL_SIZES = (512, 16, 64, 256, 128, 32, 1024, 2048, 4096, 8)

Ids = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Links:
    """Every occurrence of an id: where in its chain it stands, what stands before it, its row."""

    ids: Ids
    position: Indices
    before: Ids
    row: Indices

    def take(self, order: Indices) -> "Links":
        return Links(self.ids[order], self.position[order], self.before[order], self.row[order])

    def joined(self, other: "Links") -> "Links":
        return Links(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.position, other.position)),
            np.concatenate((self.before, other.before)),
            np.concatenate((self.row, other.row)),
        )


@dataclass(slots=True)
class PrefixChecks:
    """Fed batch by batch; remembers each id's first occurrence."""

    hash_block_tokens: int | None
    _links: Links | None = None
    _first: Indices | None = None
    """Where in `_links` each id occurs first: kept apart, since a whole trace needs no more."""

    def feed(self, table: pa.Table, place: Place) -> None:
        if "hash_ids" not in table.column_names:
            self._refuse_stray(table, place)
            return
        block = self.hash_block_tokens
        if block is None or block < 1:
            found = "ids are given, but not how many tokens each covers"
            raise place.refuse_column("hash_ids", found, "State hash_block_tokens")
        links = _prompt_links(table, block, place)
        if "output_hash_ids" in table.column_names:
            links = links.joined(_output_links(table, block, place))
        if self._links is not None and self._first is not None:
            links = self._links.take(self._first).joined(links)
        self._links, self._first = links, _one_prefix_each(links, place)

    def _refuse_stray(self, table: pa.Table, place: Place) -> None:
        if "output_hash_ids" in table.column_names:
            found = "is given without hash_ids, which it continues"
            raise place.refuse_column("output_hash_ids", found, "Add hash_ids")


def _prompt_links(table: pa.Table, block: int, place: Place) -> Links:
    column = table.column("hash_ids")
    offsets, items = ragged(column)
    counts, prompts = np.diff(offsets), required(table, "prompt_tokens")
    full = prompts // block
    tail = -(-prompts // block)
    place.refuse_where(
        column.is_valid().to_numpy() & (counts != full) & (counts != tail),
        "hash_ids",
        lambda row: (
            f"{counts[row]} ids for a prompt of {prompts[row]} tokens, which at {block} "
            f"tokens a block has {_either(int(full[row]), int(tail[row]))}"
        ),
        _fitting_size(prompts, counts, column.is_valid().to_numpy()),
    )
    ids: Ids = items.to_numpy()
    return _chain(ids, offsets, np.zeros(len(counts), np.int64), np.zeros(0, np.uint64), place)


def _fitting_size(prompts: Integers, counts: Indices, has_ids: Mask) -> str:
    """The remedy for wrong counts: the block size at which all of them would be right."""
    prompts, counts = prompts[has_ids], counts[has_ids]
    for size in _USUAL_SIZES:
        if ((counts == prompts // size) | (counts == -(-prompts // size))).all():
            return f"All rows would fit {size} tokens a block: state --hash-block-tokens {size}"
    return "Correct the row, or state the block size that the ids were made with"


def _either(full: int, tail: int) -> str:
    return str(full) if full == tail else f"{full} or {tail}"


def _chain(ids: Ids, offsets: Offsets, start: Indices, root: Ids, place: Place) -> Links:
    """Links of a list column whose lists start at position `start` and follow id `root`."""
    counts = np.diff(offsets)
    row = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(len(ids)) - np.repeat(offsets[:-1], counts)
    before = np.concatenate((ids[:1], ids[:-1]))
    at_head = step == 0
    before[at_head] = root[row[at_head]] if root.size else 0
    return Links(ids, step + np.repeat(start, counts), before, row + place.first_row)


def _output_links(table: pa.Table, block: int, place: Place) -> Links:
    """Generated blocks go on from the last full block of the prompt."""
    offsets, items = ragged(table.column("output_hash_ids"))
    counts, prompts = np.diff(offsets), required(table, "prompt_tokens")
    most = (prompts + required(table, "output_tokens")) // block - prompts // block
    place.refuse_where(
        counts > most,
        "output_hash_ids",
        lambda row: f"{counts[row]} ids, but generated tokens complete {most[row]} blocks",
        "One id for each block that they complete",
    )
    prompt_offsets, prompt_items = ragged(table.column("hash_ids"))
    full = prompts.astype(np.int64) // block
    place.refuse_where(
        (counts > 0) & (np.diff(prompt_offsets) < full),
        "output_hash_ids",
        lambda _row: "is given for a row without hash_ids, which it continues",
        "Add the row's hash_ids",
    )
    root = np.zeros(len(counts), np.uint64)
    inside = (counts > 0) & (full > 0)
    root[inside] = prompt_items.to_numpy()[prompt_offsets[:-1][inside] + full[inside] - 1]
    return _chain(items.to_numpy(), offsets, full, root, place)


def _one_prefix_each(links: Links, place: Place) -> Indices:
    """Where every id occurs first, once all its other occurrences are seen to agree with that."""
    if not links.ids.size:
        return np.empty(0, np.int64)
    order = np.argsort(links.ids, kind="stable")
    ids, position, before = links.ids[order], links.position[order], links.before[order]
    again = ids[1:] == ids[:-1]
    differs = (position[1:] != position[:-1]) | ((before[1:] != before[:-1]) & (position[1:] > 0))
    wrong = order[1:][again & differs]
    if wrong.size:
        at = int(wrong[np.argmin(links.row[wrong])])
        first = int(np.flatnonzero(links.ids == links.ids[at])[0])
        raise _two_prefixes(links, at, first, place)
    return order[np.concatenate(([True], ~again))]


def _two_prefixes(links: Links, here: int, first: int, place: Place) -> TraceError:
    def told(at: int) -> str:
        after = f" after id {links.before[at]}" if links.position[at] else ""
        return f"at block {links.position[at]}{after} in row {links.row[at]}"

    found = f"id {links.ids[here]} stands {told(here)}, but {told(first)}"
    remedy = (
        "Equal ids mean equal prefixes: use ids of the whole prefix, unique across the file, "
        "and not of one block or one conversation"
    )
    return place.refuse(int(links.row[here]) - place.first_row, "hash_ids", found, remedy)
