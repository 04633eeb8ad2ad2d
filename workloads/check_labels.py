"""Rules about which request is which: ids, sessions, turns, and rows that wait for others."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.arrays import Integers, integers, known
from schedbench.workloads.place import Place


@dataclass(slots=True)
class RequestIdChecks:
    """No two rows share a `request_id`."""

    _first_row: dict[str, int] = field(default_factory=dict)
    _not_yet_filed: list[tuple[int, pa.ChunkedArray]] = field(default_factory=list)

    def feed(self, table: pa.Table, place: Place) -> None:
        if "request_id" not in table.column_names:
            return
        self._file_earlier()
        ids = table.column("request_id")
        distinct = pc.count_distinct(ids, mode="only_valid").as_py()
        if self._first_row or distinct < len(ids) - ids.null_count:
            self._refuse_repeats(ids, place)
        self._not_yet_filed.append((place.first_row, ids))

    def _file_earlier(self) -> None:
        """Put off until a next batch comes: a trace read whole never needs the dictionary."""
        for first_row, ids in self._not_yet_filed:
            labels = enumerate(ids.to_pylist(), first_row)
            self._first_row.update((label, row) for row, label in labels if label is not None)
        self._not_yet_filed.clear()

    def _refuse_repeats(self, ids: pa.ChunkedArray, place: Place) -> None:
        here: dict[str, int] = {}
        for index, label in enumerate(ids.to_pylist()):
            if label is None:
                continue
            earlier = self._first_row.get(label, here.setdefault(label, place.first_row + index))
            if earlier != place.first_row + index:
                found = f"{label!r} is also the id of row {earlier}"
                remedy = "Rename one, or import with --dedupe-ids suffix"
                raise place.refuse(index, "request_id", found, remedy)


@dataclass(slots=True)
class TurnChecks:
    """Turns ascend within a session; a turn needs a session."""

    _last_turn: dict[int, int] = field(default_factory=dict)

    def feed(self, table: pa.Table, place: Place) -> None:
        turn, has_turn = integers(table, "turn"), known(table, "turn")
        if turn is None or has_turn is None:
            return
        session, has_session = integers(table, "session"), known(table, "session")
        if session is None or has_session is None:
            session, has_session = np.zeros_like(turn), np.zeros_like(has_turn)
        place.refuse_where(
            has_turn & ~has_session,
            "turn",
            lambda row: f"turn {turn[row]} belongs to no session",
            "Give the row a session, or leave its turn out",
        )
        before = self._turns_before(session, turn, np.flatnonzero(has_turn))
        place.refuse_where(
            has_turn & (turn <= before),
            "turn",
            lambda row: f"turn {turn[row]} of session {session[row]} comes after {before[row]}",
            "Turns ascend within a session: number them 0, 1, ... by arrival",
        )

    def _turns_before(
        self, session: Integers, turn: Integers, rows: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.int64]:
        """For each row, the turn that came before it in its session, else -1."""
        before = np.full(len(turn), -1, dtype=np.int64)
        order = rows[np.argsort(session[rows], kind="stable")]
        if not order.size:
            return before
        sessions, turns = session[order], turn[order]
        first = np.concatenate(([True], sessions[1:] != sessions[:-1]))
        before[order[1:]] = turns[:-1]
        before[order[first]] = [self._last_turn.get(s, -1) for s in sessions[first].tolist()]
        last = np.concatenate((first[1:], [True]))
        self._last_turn.update(zip(sessions[last].tolist(), turns[last].tolist(), strict=True))
        return before


def check_after(table: pa.Table, place: Place) -> None:
    """`after` names an earlier row; `think_ns` is the wait after that row."""
    after, think = integers(table, "after"), known(table, "think_ns")
    rows = np.arange(place.first_row, place.first_row + table.num_rows)
    if after is not None:
        place.refuse_where(
            after >= rows,
            "after",
            lambda row: f"row {after[row]} is not before row {rows[row]}",
            "A request can wait only for an earlier row",
        )
    if think is not None:
        follows = np.zeros(len(rows), dtype=bool) if after is None else after >= 0
        place.refuse_where(
            think & ~follows,
            "think_ns",
            lambda _row: "is given, but the row is after no other",
            "Name the row it follows in `after`, or leave think_ns out",
        )
