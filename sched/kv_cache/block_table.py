"""A request's blocks, as the pool sees them: which of them carry what name, and who holds them.

    | borrowed: hits on other tables | named, own | bare: not full yet |
    |<------------------------- ids --------------------------------->|

A block belongs to the table that took it out of the free queue. As long as that is held, so are its
blocks; what other tables hold of them are references beside that, and counted. So nothing is
written down for each own block when a request comes or goes: a table is let go of as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from schedbench.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE_BITS = 32
"""A name is a key and, in so many low bits, the block's place among those with that key."""


Run: TypeAlias = "tuple[BlockTable, int, int]"
"""So many own blocks of a table, from an index on: the table, the index, how many."""


class Hit:
    """Cached blocks that a request begins with, and whose they are."""

    __slots__ = ("count", "runs")

    def __init__(self) -> None:
        self.count = 0
        self.runs: list[Run] = []

    def __len__(self) -> int:
        return self.count

    @property
    def ids(self) -> list[int]:
        return [i for table, first, count in self.runs for i in table.ids[first : first + count]]

    def add(self, table: BlockTable, first: int, length: int) -> None:
        """Go on with own blocks of a table."""
        self.count += length
        if self.runs:
            last, begin, before = self.runs[-1]
            if last is table and begin + before == first:
                self.runs[-1] = (table, begin, before + length)
                return
        self.runs.append((table, first, length))

    def drop_last(self) -> None:
        """One block less."""
        self.count -= 1
        table, first, length = self.runs.pop()
        if length > 1:
            self.runs.append((table, first, length - 1))


class Holds:
    """Which own blocks of a table other tables hold, by the span that each of them holds.

        |<------ own blocks of the table ------>|
        |<-- one holder -->|
        |<-- another ----------->|
                                  uncovered ---->

    Most begin where the table's own blocks begin, for a hit is the beginning of a prompt. So spans
    are kept by their first index.
    """

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: dict[int, list[int]] = {}  # by first index

    def __bool__(self) -> bool:
        return bool(self._ends)

    def add(self, first: int, end: int) -> None:
        """Let one more table hold the blocks from one index to another."""
        ends = self._ends.get(first)
        if ends is None:
            self._ends[first] = [end]
        else:
            ends.append(end)

    def remove(self, first: int, end: int) -> None:
        """Let one of those that hold them hold them no more."""
        ends = self._ends[first]
        ends.remove(end)
        if not ends:
            del self._ends[first]

    def count(self, index: int) -> int:
        """How many tables hold a block."""
        begun = [ends for first, ends in self._ends.items() if first <= index]
        return sum([end > index for ends in begun for end in ends])

    def uncovered(self, first: int, end: int) -> list[tuple[int, int]]:
        """Spans of the blocks from one index to another that no table holds."""
        spans: list[tuple[int, int]] = []
        for low, ends in sorted(self._ends.items()):
            if first >= end:
                return spans
            if first < low:
                spans.append((first, min(low, end)))
            first = max(first, *ends)
        if first < end:
            spans.append((first, end))
        return spans


class Stretch:
    """Own blocks of a table, from index `first` on, whose names are consecutive from `name` on."""

    __slots__ = ("count", "first", "name", "num_cached", "table")

    def __init__(self, table: BlockTable, first: int, name: int) -> None:
        self.table = table
        self.first = first
        self.name = name
        self.count = 0
        self.num_cached = 0  # leading ones that carry their name; not kept up beside a Row


class BlockTable:
    """The blocks of one request, from when it gets the first until all are evicted or forgotten."""

    __slots__ = (
        "_firsts",
        "_stretches",
        "borrowed",
        "copied_from",
        "forgotten",
        "holds",
        "ids",
        "is_held",
        "num_borrowed",
        "num_named",
        "segments",
    )

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids
        self.copied_from: BlockTable | None = None  # in a dry run
        self.is_held = True
        self.borrowed: list[Run] = []
        self.num_borrowed = 0
        self.num_named = 0  # leading blocks that got a name, borrowed ones among them
        self.forgotten: set[int] = set()  # indices of own blocks that lost it while they were held
        self.holds = Holds()  # of other tables on own blocks
        self.segments: list[Segment] = []  # own blocks that stand in the free queue
        self._stretches: list[Stretch] = []
        self._firsts: list[int] = []  # of each

    def what_if(self, ids: list[int]) -> BlockTable:
        """Return a table of these ids to be spent in a dry run; this one and its own stay."""
        other = BlockTable(ids)
        other.copied_from = self
        other.borrowed, other.num_borrowed = self.borrowed, self.num_borrowed
        other.num_named, other.forgotten = self.num_named, self.forgotten
        other.holds = self.holds
        return other

    def borrow(self, hit: Hit) -> None:
        """Begin with hit blocks. Raises InvariantError where there are blocks already."""
        if self.ids:
            raise InvariantError(f"a table of {len(self.ids)} blocks cannot begin with a hit")
        for table, first, length in hit.runs:
            self.ids += table.ids[first : first + length]
        self.borrowed = hit.runs
        self.num_borrowed = self.num_named = len(hit)

    def drop_if_gone(self) -> None:
        """Know no names any more, once no own block is held or cached, so that it is let go of."""
        if not (self.is_held or self.segments or self.holds):
            self._stretches.clear()
            self._firsts.clear()

    def name(self, name: int, length: int) -> Stretch:
        """Name the next blocks, from this name on; returns the stretch that they are in."""
        stretch = self._stretches[-1] if self._stretches else None
        if stretch is None or stretch.name + stretch.count != name:
            stretch = Stretch(self, self.num_named, name)
            self._stretches.append(stretch)
            self._firsts.append(self.num_named)
        stretch.count += length
        self.num_named += length
        return stretch

    def stretches(self, first: int, end: int) -> Iterator[Stretch]:
        """Those that own named blocks from one index to another are in, the last one first."""
        at = bisect_right(self._firsts, end - 1)
        while end > first:
            at -= 1
            end = self._firsts[at]
            yield self._stretches[at]

    def num_references(self, index: int) -> int:
        """How many tables hold an own block."""
        return self.is_held + self.holds.count(index)

    def owner(self, index: int) -> tuple[BlockTable, int]:
        """Whose a block of this table is, and its index there."""
        for table, first, length in self.borrowed:
            if index < length:
                return table, first + index
            index -= length
        return self.copied_from or self, index + self.num_borrowed


class Segment:
    """Own blocks of one table that came free together: spans of indices, the last handed out first.

    A block that is hit meanwhile is taken out of its span.
    """

    __slots__ = ("spans", "table")

    def __init__(self, table: BlockTable, spans: list[tuple[int, int]]) -> None:
        self.table = table
        self.spans = spans

    def take_out(self, first: int, end: int) -> int:
        """Take out the blocks from one index to another, as far as they stand here; how many."""
        before = len(self)
        spans = []
        for low, high in self.spans:
            spans += [(low, min(high, first)), (max(low, end), high)]
        self.spans = [(low, high) for low, high in spans if low < high]
        return before - len(self)

    def __len__(self) -> int:
        return sum(high - low for low, high in self.spans)

    def ids(self) -> list[int]:
        """In the order in which they will be handed out."""
        ids = self.table.ids
        return [ids[i] for low, high in reversed(self.spans) for i in range(high - 1, low - 1, -1)]
