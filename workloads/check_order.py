"""Rules about time: sorted, starting at 0, never negative."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from schedbench.workloads.arrays import integers, required
from schedbench.workloads.place import Place


@dataclass(slots=True)
class OrderChecks:
    """Rows are sorted by `added_ns`, which is `arrival_ns` where it is not given."""

    _last_ns: int | None = None
    _least_arrival_ns: int | None = None

    def feed(self, table: pa.Table, place: Place) -> None:
        arrivals = required(table, "arrival_ns")
        if not len(arrivals):
            return
        added = integers(table, "added_ns")
        if added is not None:
            place.refuse_where(
                added < arrivals,
                "added_ns",
                lambda row: f"{added[row]} is before the arrival at {arrivals[row]}",
                "The scheduler cannot see a request before it arrives",
            )
        name, times = ("arrival_ns", arrivals) if added is None else ("added_ns", added)
        before = np.empty_like(times)
        before[0] = times[0] if self._last_ns is None else self._last_ns
        before[1:] = times[:-1]
        place.refuse_where(
            times < before,
            name,
            lambda row: f"{times[row]} comes after {before[row]}, but time never goes back",
            f"Sort the rows by {name}, keeping the order of ties",
        )
        self._last_ns = int(times[-1])
        least = int(arrivals.min())
        if self._least_arrival_ns is None or least < self._least_arrival_ns:
            self._least_arrival_ns = least

    def finish(self, place: Place) -> None:
        if self._least_arrival_ns:
            found = f"the first arrival is {self._least_arrival_ns}, but a trace begins at 0"
            raise place.refuse_column("arrival_ns", found, "Subtract it from every time")
