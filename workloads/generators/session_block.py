"""Blocks of sessions, each of one or more turns; a single request is a session of one turn."""

import numpy as np
import numpy.typing as npt

from schedbench.errors import UsageError
from schedbench.workloads.generators.draws import Choice, Draws, Ints, Stream
from schedbench.workloads.generators.lengths import MAX_TOKENS
from schedbench.workloads.generators.prefixes import PrefixBlocks, ranges
from schedbench.workloads.generators.workload import Sessions, Workload

BLOCK_SESSIONS = 16_384  # part of what a seed means: another size gives another trace
NS_PER_MS = 1_000_000
NO_ROW = -1
FOREVER_NS = 2**63 - 1

_FIELDS = (
    *("arrival", "session", "turn", "prompt", "output", "think", "after", "leaf"),
    "own_first",  # id of the session's first hash block beyond the shared prefix
    *("priority", "client", "lora"),
)
ROW = np.dtype([(name, np.int64) for name in _FIELDS])
Rows = npt.NDArray[np.void]


class BlockSource:
    """Draws one block of sessions after the other.

    `horizon_ns`: no session of a later block begins before it.
    """

    def __init__(self, work: Workload, prefixes: PrefixBlocks) -> None:
        self._work = work
        self._prefixes = prefixes
        self._block = 0
        self._free_id = prefixes.first_free_id
        self._last_start_ns = 0
        self._count = work.sessions.count if work.sessions else None
        self.sessions_begun = 0

    @property
    def horizon_ns(self) -> int:
        return FOREVER_NS if self._left() == 0 else self._last_start_ns

    def _left(self) -> int:
        """Sessions still to be drawn, at most a block."""
        if self._count is None:
            return BLOCK_SESSIONS
        return min(BLOCK_SESSIONS, self._count - self.sessions_begun)

    def next_block(self) -> Rows:
        n = self._left()
        if n == 0:
            return np.empty(0, dtype=ROW)
        rows = self._lay_out(self._starts()[:n], self._turns()[:n])
        self._label(rows, n)
        self._fill(rows)
        self.sessions_begun += n
        self._block += 1
        return _within_context(rows, self._work.sessions)

    def _draws(self, stream: Stream) -> Draws:
        return Draws(self._work.seed, stream, self._block)

    def _starts(self) -> Ints:
        gaps = self._work.arrivals.gaps_ns(self._draws(Stream.ARRIVALS), BLOCK_SESSIONS)
        if self._block == 0:
            gaps[0] = 0  # the first request arrives at 0, whatever was drawn
        starts = np.cumsum(gaps) + self._last_start_ns
        if starts[-1] < self._last_start_ns:
            raise UsageError("arrivals: 2^63 ns, 292 years, is the latest that a trace can hold")
        self._last_start_ns = int(starts[-1])
        return starts

    def _turns(self) -> Ints:
        if self._work.sessions is None:
            return np.ones(BLOCK_SESSIONS, dtype=np.int64)
        return self._work.sessions.turns.draw(self._draws(Stream.TURNS), BLOCK_SESSIONS)

    def _lay_out(self, starts: Ints, turns: Ints) -> Rows:
        """One row a turn; `arrival` holds the session's start for now."""
        rows = np.zeros(int(turns.sum()), dtype=ROW)
        rows["session"] = np.repeat(np.arange(turns.size), turns)  # within the block for now
        rows["turn"] = ranges(np.zeros_like(turns), turns)
        rows["arrival"] = np.repeat(starts, turns)
        rows["after"] = NO_ROW
        return rows

    def _label(self, rows: Rows, n: int) -> None:
        """What all turns of a session share: its prefix and its labels."""
        of = rows["session"]
        rows["leaf"] = self._prefixes.choose(self._draws(Stream.PREFIX_CHOICE), n)[of]
        labels = (
            ("priority", Stream.PRIORITY, self._work.priority),
            ("client", Stream.CLIENT, self._work.client),
            ("lora", Stream.LORA, self._work.lora),
        )
        for name, stream, choice in labels:
            if isinstance(choice, Choice):
                rows[name] = choice.draw(self._draws(stream), n)[of]

    def _fill(self, rows: Rows) -> None:
        """Lengths, times and hash ids; sessions get their final numbers."""
        work, first = self._work, _first_turn(rows)
        added, output = self._lengths(rows)
        rows["output"] = output
        rows["prompt"] = self._prefixes.leaf_tokens[rows["leaf"]]
        rows["prompt"] += _running(added, first) + _running(output, first) - output
        if work.sessions is not None:
            self._pace(rows, first, work.sessions)
        self._number_blocks(rows)
        rows["session"] += self.sessions_begun

    def _lengths(self, rows: Rows) -> tuple[Ints, Ints]:
        """Tokens that the user adds with each turn, and tokens of the answer."""
        work, n = self._work, rows.size
        prompt, output = work.lengths.draw(
            self._draws(Stream.PROMPT), self._draws(Stream.OUTPUT), n
        )
        if work.sessions is not None and work.sessions.followup is not None:
            later = work.sessions.followup.draw(self._draws(Stream.FOLLOWUP), n)
            prompt = np.where(rows["turn"] > 0, later, prompt)
        return prompt, output

    def _pace(self, rows: Rows, first: Ints, sessions: Sessions) -> None:
        think = sessions.think_ms.draw(self._draws(Stream.THINK), rows.size) * NS_PER_MS
        rows["think"] = np.where(rows["turn"] > 0, think, 0)
        served = (sessions.ttft_ms + sessions.tpot_ms * rows["output"]) * NS_PER_MS
        rows["arrival"] += _running(rows["think"], first) + _running(served, first) - served

    def _number_blocks(self, rows: Rows) -> None:
        """Give each session a run of fresh ids, long enough for its last turn and answer."""
        blocks = (rows["prompt"] + rows["output"]) // self._work.hash_block_tokens
        own = (blocks - self._prefixes.leaf_blocks[rows["leaf"]])[_last_turn(rows)]
        begins = np.cumsum(own) - own + self._free_id
        rows["own_first"] = begins[rows["session"]]
        self._free_id = int(begins[-1] + own[-1])


def _within_context(rows: Rows, sessions: Sessions | None) -> Rows:
    """End sessions before the turn that passes the context; first turns keep their drawn length."""
    total = rows["prompt"] + rows["output"]
    if sessions is not None:
        rows = rows[(rows["turn"] == 0) | (total <= sessions.context_tokens)]
    if rows["prompt"].max() > MAX_TOKENS:
        raise UsageError(
            f"lengths: a prompt of {rows['prompt'].max()} tokens; 2^31 - 1 is the most"
        )
    return rows


def _first_turn(rows: Rows) -> Ints:
    """Of each row: the index of its session's first row."""
    first: Ints = np.flatnonzero(rows["turn"] == 0)[rows["session"]]
    return first


def _last_turn(rows: Rows) -> Ints:
    """Of each session: the index of its last row."""
    return np.append(np.flatnonzero(rows["turn"] == 0)[1:], rows.size) - 1


def _running(values: Ints, first: Ints) -> Ints:
    """Sum over the session's turns so far, this one included."""
    total = np.cumsum(values)
    return total - (total - values)[first]
