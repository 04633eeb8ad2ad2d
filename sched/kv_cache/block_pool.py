"""Blocks of the KV cache: what each caches, and which are free.

Block 0 is the null block and is never handed out, so `num_gpu_blocks - 1` are usable.
Several blocks may carry the same name (vLLM does not deduplicate); a lookup answers with the
one that got it first.

A name, vLLM's block hash, is a number here: `key << PLACE_BITS | place`. Blocks whose content
follows on each other mostly have consecutive names, and are looked up, named, evicted and given
back by the stretch.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from schedbench.errors import InvariantError
from schedbench.sched.kv_cache.block_table import PLACE_BITS, BlockTable, Hit, Stretch
from schedbench.sched.kv_cache.free_queue import FreeBlockQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from schedbench.sched.kv_cache.block_table import Run

MOST_LOOKED_AT = 64
Piece: TypeAlias = "tuple[int, int, Stretch]"
"""Blocks of a stretch that are found under names from one place to another."""
_PLACE = (1 << PLACE_BITS) - 1


class Row:
    """Blocks with names of one key, by place, where they are not those of one stretch.

    Of several with the same name it is the one that got it first. Pieces are ascending, do not
    overlap, and may leave gaps.

        |<- 0, a stretch ->|<- another ->|   gap   |<- a third ->|
    """

    __slots__ = ("_later", "pieces")

    def __init__(self, stretch: Stretch | None) -> None:
        self.pieces: list[Piece] = [] if stretch is None else [(0, stretch.num_cached, stretch)]
        self._later: dict[int, list[Stretch]] = {}  # whose blocks got a name since

    def __len__(self) -> int:
        return self.pieces[-1][1] if self.pieces else 0

    def add(self, place: int, end: int, stretch: Stretch) -> None:
        """Let the blocks of a stretch be found from one place to another."""
        pieces = self.pieces
        while place < end:
            index = self._piece_at(place)
            if index >= 0 and place < pieces[index][1]:  # found under the name already
                stop = min(end, pieces[index][1])
                for at in range(place, stop):
                    self._later.setdefault(at, []).append(stretch)
            else:
                after = index + 1
                stop = min(end, pieces[after][0]) if after < len(pieces) else end
                self._insert(after, place, stop, stretch)
            place = stop

    def forget(self, place: int, end: int, stretch: Stretch) -> None:
        """Let them be found no more."""
        if not any(place <= at < end for at in self._later):
            self._cut(place, end)
            return
        for at in range(place, end):
            self._forget_one(at, stretch)

    def at(self, place: int) -> list[Stretch]:
        """Stretches whose blocks carry a name, in the order in which they got it."""
        index = self._piece_at(place)
        if index < 0 or place >= self.pieces[index][1]:
            return []
        return [self.pieces[index][2], *self._later.get(place, ())]

    def prefix(self, place: int, length: int, hit: Hit) -> int:
        """Go on with a hit from a place on, up to the first gap; how many blocks were added."""
        index, at, end = self._piece_at(place), place, place + length
        if index < 0:
            return 0
        for begin, stop, stretch in islice(self.pieces, index, None):
            if at >= end or not begin <= at < stop:
                break
            found = min(stop, end) - at
            hit.add(stretch.table, stretch.first + at - (stretch.name & _PLACE), found)
            at += found
        return at - place

    def _piece_at(self, place: int) -> int:
        """The index of the last piece that begins at a place or before; -1 if there is none."""
        pieces = self.pieces
        if pieces and pieces[-1][0] <= place:
            return len(pieces) - 1
        return bisect_right(pieces, place, key=_begin) - 1

    def _insert(self, index: int, place: int, end: int, stretch: Stretch) -> None:
        """Put a piece before an index, or let the piece before that grow."""
        if index:
            begin, stop, before = self.pieces[index - 1]
            if before is stretch and stop == place:
                self.pieces[index - 1] = (begin, end, stretch)
                return
        self.pieces.insert(index, (place, end, stretch))

    def _cut(self, place: int, end: int) -> None:
        """Leave a gap from one place to another, all of which is found now."""
        while place < end:
            index = self._piece_at(place)
            begin, stop, stretch = self.pieces[index]
            kept = [(begin, place, stretch), (min(stop, end), stop, stretch)]
            self.pieces[index : index + 1] = [each for each in kept if each[0] < each[1]]
            place = stop

    def _forget_one(self, place: int, stretch: Stretch) -> None:
        later = self._later.get(place, [])
        index = self._piece_at(place)
        if self.pieces[index][2] is not stretch:
            later.remove(stretch)
        else:
            self._cut(place, place + 1)
            if later:
                self._insert(self._piece_at(place) + 1, place, place + 1, later.pop(0))
        if not later:
            self._later.pop(place, None)


class BlockPool:
    """Names of blocks and the free queue; knows block tables, not requests.

    A block is made bare by `forget` only while it is held, so that all free ones in the back of the
    queue carry a name, and none in its front.
    """

    def __init__(
        self, num_gpu_blocks: int, *, numbered: bool = True, uncached_last: bool = False
    ) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self._uncached_last = uncached_last  # freed blocks are handed out again after all others
        self.free_queue = FreeBlockQueue(range(1, num_gpu_blocks), numbered=numbered)
        self.num_free = num_gpu_blocks - 1
        self.num_cached = 0  # blocks that carry a name, free or held
        self.told_of_names: Callable[[range], None] | None = None  # called as blocks get them
        self._rows: dict[int, Stretch | Row] = {}  # by key

    @property
    def is_numbered(self) -> bool:
        """Whether blocks have ids; else each id is 0."""
        return self.free_queue.is_numbered

    @property
    def num_bare(self) -> int:
        """Of the free blocks, those without a name; they are handed out first."""
        return self.free_queue.num_in_front

    def cached_prefix(self, stretches: Iterable[range]) -> Hit:
        """Blocks that carry these names, up to the first name that none carries."""
        hit = Hit()
        rows = self._rows
        for names in stretches:
            name, length = names.start, len(names)
            row, place = rows.get(name >> PLACE_BITS), name & _PLACE
            if row is None:
                break
            if isinstance(row, Row):
                found = row.prefix(place, length, hit)
            else:
                found = min(row.num_cached - place, length)
                if found > 0:
                    hit.add(row.table, row.first + place, found)
            if found < length:
                break
        return hit

    def carriers(self, name: int) -> list[Run]:
        """All blocks that carry the name, in the order in which they got it."""
        row, place = self._rows.get(name >> PLACE_BITS), name & _PLACE
        if row is None:
            return []
        if isinstance(row, Row):
            return [(each.table, each.first + name - each.name, 1) for each in row.at(place)]
        return [(row.table, row.first + place, 1)] if place < row.num_cached else []

    def num_free_among(self, hit: Hit) -> int:
        """How many of these stand in the free queue: a hit on them costs a free block."""
        return sum([_num_free(run) for run in hit.runs])

    def num_before(self, hit: Hit) -> int:
        """How many free blocks, at least, will be handed out before one of these is.

        Looks at the oldest segments only: what is asked is how long a hit is safe.
        """
        owners = {owner for owner, _, _ in hit.runs}
        count = self.num_bare
        for segment in islice(self.free_queue.back, MOST_LOOKED_AT):
            if segment.table in owners:
                break
            count += len(segment)
        return count

    def borrow(self, table: BlockTable, hit: Hit) -> None:
        """Let a table begin with hit blocks, taking free ones out of the free queue."""
        for owner, first, length in hit.runs:
            if not owner.is_held:
                self.num_free -= self.free_queue.take_out(owner, first, first + length)
            owner.holds.add(first, first + length)
        table.borrow(hit)

    def get_new_blocks(self, count: int) -> list[int]:
        """Hand out free blocks; what they cached is forgotten.

        Raises:
            InvariantError: more were asked for than are free. `allocate_slots` answers None
                before it comes to that.
        """
        if count > self.num_free:
            raise InvariantError(
                f"{count} blocks asked of a pool that has {self.num_free} free: "
                "the caller has to compare first"
            )
        self.num_free -= count
        taken = self.free_queue.take_bare(count)
        while len(taken) < count:
            table, first, length = self.free_queue.take_oldest(count - len(taken))
            self._forget(table, first, first + length)
            taken += table.ids[first : first + length][::-1] or [0] * length
            table.drop_if_gone()
        return taken

    def take(self, count: int) -> None:
        """Hand out free blocks that have no numbers."""
        queue = self.free_queue
        if count > self.num_free:
            raise InvariantError(f"{count} blocks asked of a pool that has {self.num_free} free")
        self.num_free -= count
        bare = min(count, queue.num_in_front)
        queue.num_in_front -= bare
        count -= bare
        while count:
            table, first, length = queue.take_oldest(count)
            count -= length
            if table is queue.unlisted:
                self.num_cached -= length
            else:
                self._forget(table, first, first + length)
                table.drop_if_gone()

    def cache(self, table: BlockTable, stretches: Iterable[range]) -> None:
        """Let the next blocks of a table be found by the names of their content."""
        rows = self._rows
        for names in stretches:
            name, length = names.start, len(names)
            stretch = table.name(name, length)
            self.num_cached += length
            key, place = name >> PLACE_BITS, name & _PLACE
            row = rows.get(key)
            if row is stretch and stretch.num_cached + length == stretch.count:
                stretch.num_cached += length
            elif row is None and not place:
                rows[key] = stretch
                stretch.num_cached = length
            else:
                self._row(key).add(place, place + length, stretch)
            if self.told_of_names is not None:
                self.told_of_names(names)

    def _row(self, key: int) -> Row:
        """Of a key under which there is more than one stretch, or not from the first place on."""
        row = self._rows.get(key)
        if not isinstance(row, Row):
            row = self._rows[key] = Row(row)
        return row

    def forget(self, table: BlockTable, first: int) -> None:
        """Take the names of a held table's blocks away, from an index on."""
        for index in range(first, table.num_named):
            owner, at = table.owner(index)
            if at not in owner.forgotten:
                owner.forgotten.add(at)
                self._forget(owner, at, at + 1)

    def _forget(self, table: BlockTable, first: int, end: int) -> None:
        self.num_cached -= end - first
        if table is self.free_queue.unlisted:
            return
        for stretch in table.stretches(first, end):
            low, high = max(first - stretch.first, 0), end - stretch.first
            end = stretch.first
            key, place = stretch.name >> PLACE_BITS, stretch.name & _PLACE
            if self._rows[key] is stretch and high == stretch.num_cached:
                stretch.num_cached = low
                if not low:
                    del self._rows[key]
                continue
            row = self._row(key)
            row.forget(place + low, place + high, stretch)
            if not row.pieces:
                del self._rows[key]

    def free(self, table: BlockTable, num_unlisted: int = 0) -> int:
        """Let go of a table, its last block first; bare blocks are handed out before others.

        `num_unlisted` blocks after the named ones carry a name that no request will look up, so
        that they were never entered under it. Returns how many blocks became free.
        """
        before = self.num_free
        table.is_held = False
        bare = table.ids[table.num_named + num_unlisted :][::-1]
        self.num_free += len(bare) + num_unlisted
        if num_unlisted:
            self.free_queue.append_unlisted(num_unlisted)
        self._give_back(table, table.num_borrowed, table.num_named, bare)
        for owner, first, length in reversed(table.borrowed):
            owner.holds.remove(first, first + length)
            if not owner.is_held:
                self._give_back(owner, first, first + length, bare)
        table.borrowed = []
        if bare and self._uncached_last:
            self.free_queue.append_n(bare)
        elif bare:
            self.free_queue.prepend_n(bare)
        return self.num_free - before

    def give_back(self, num_bare: int, num_unlisted: int) -> None:
        """Take back blocks of no table, some of them with a name that no request will look up."""
        self.num_free += num_bare + num_unlisted
        self.free_queue.num_in_front += num_bare
        if num_unlisted:
            self.free_queue.append_unlisted(num_unlisted)

    def _give_back(self, table: BlockTable, first: int, end: int, bare: list[int]) -> None:
        """Put own blocks that no table holds any more behind the tail, or among the bare ones."""
        spans = table.holds.uncovered(first, end) if table.holds else [(first, end)]
        if table.forgotten:
            free = [index for low, high in spans for index in range(low, high)]
            bare += [table.ids[index] for index in reversed(free) if index in table.forgotten]
            self.num_free += sum([index in table.forgotten for index in free])
            spans = _spans([index for index in free if index not in table.forgotten])
        spans = [(low, high) for low, high in spans if low < high]
        self.num_free += sum([high - low for low, high in spans])
        self.free_queue.append(table, spans)
        table.drop_if_gone()

    def reset_prefix_cache(self) -> bool:
        """Forget every name. Refused (False) while any block is held."""
        if self.num_free != self.num_gpu_blocks - 1:
            return False
        self._rows.clear()
        self.num_cached = 0
        self.free_queue.names_are_gone()
        return True


def _begin(piece: Piece) -> int:
    return piece[0]


def _num_free(run: Run) -> int:
    table, first, length = run
    if table.is_held:
        return 0
    if not table.holds:
        return length
    return sum([high - low for low, high in table.holds.uncovered(first, first + length)])


def _spans(indices: list[int]) -> list[tuple[int, int]]:
    """Ascending indices as spans without gaps."""
    ends = [at for at in range(1, len(indices)) if indices[at] != indices[at - 1] + 1]
    bounds = zip([0, *ends], [*ends, len(indices)], strict=True)
    return [(indices[low], indices[high - 1] + 1) for low, high in bounds if low < high]
