"""Workload -> rows in the order of arrival, a bounded part at a time.

Sessions are drawn in blocks of fixed size whatever the number of rows asked for, so a longer trace
begins with the shorter one, and a trace written in parts has the digest of one made in memory.
"""

from collections.abc import Iterator

import numpy as np

from schedbench.errors import UsageError
from schedbench.workloads.generators.prefixes import PrefixBlocks
from schedbench.workloads.generators.session_block import ROW, BlockSource, Rows
from schedbench.workloads.generators.workload import Workload


def rows_in_order(work: Workload, prefixes: PrefixBlocks) -> Iterator[Rows]:
    """All `work.requests` rows, sorted by (arrival, session, turn), `after` filled in.

    Later turns reach past the block they were drawn with; they wait in `pending` until no session
    yet to be drawn can begin before them. So memory is bounded by the sessions open at one time.
    """
    source = BlockSource(work, prefixes)
    pending = np.empty(0, dtype=ROW)
    emitted = 0
    while emitted < work.requests:
        pool = np.concatenate([pending, source.next_block()])
        if not pool.size:
            raise UsageError(
                f"the {source.sessions_begun} sessions hold {emitted} requests, "
                f"fewer than the {work.requests} asked for; raise their count or their turns"
            )
        pool = pool[np.lexsort((pool["turn"], pool["session"], pool["arrival"]))]
        ready = int(np.searchsorted(pool["arrival"], source.horizon_ns, side="right"))
        ready = min(ready, work.requests - emitted)
        _link_turns(pool, emitted)
        yield pool[:ready]
        pending, emitted = pool[ready:], emitted + ready


def _link_turns(pool: Rows, first_row: int) -> None:
    """Point each turn's `after` at the row of the turn before it.

    Rows that stay pending get another number with the next pool, and their followers are linked
    again there; a turn is never emitted before the one that it follows.
    """
    order = np.lexsort((pool["turn"], pool["session"]))
    before, then = order[:-1], order[1:]
    linked = pool["session"][before] == pool["session"][then]
    pool["after"][then[linked]] = before[linked] + first_row
