"""Date and time texts to nanoseconds since 1970; a file states zones on all rows or on none."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.errors import UsageError
from schedbench.workloads.exact import first_row_where, is_text
from schedbench.workloads.place import Place, shown

_NAIVE, _UTC = pa.timestamp("ns"), pa.timestamp("ns", "UTC")


@dataclass(slots=True)
class ZonedDates:
    """`tz` names the zone of dates that state none; without it they are UTC."""

    tz: str | None = None
    states_zone: bool | None = None
    """None until the first batch is read."""

    def zone(self) -> str:
        return "stated" if self.states_zone else self.tz or "UTC"

    def told(self) -> str:
        if self.states_zone:
            return "dates with their zone"
        assumed = "" if self.tz else " (assumed; see --tz)"
        return f"dates without a zone, in {self.zone()}{assumed}"

    def read(self, values: pa.ChunkedArray, column: str, place: Place) -> npt.NDArray[np.int64]:
        """Every row must read as the first did, `YYYY-MM-DD HH:MM:SS[.f][zone]`."""
        if self.states_zone is None:
            self.states_zone = _states_zone(values.slice(0, 1))
            self._refuse_two_zones()
        wanted = _UTC if self.states_zone else _NAIVE
        try:
            dates = _as_dates(values, wanted)
        except pa.ArrowInvalid as error:
            row = first_row_where(values, lambda part: not _reads(part, wanted))
            raise self._not_a_date(values.slice(row, 1), row, column, place) from error
        return self._since_1970(dates, values, column, place)

    def _refuse_two_zones(self) -> None:
        if self.states_zone and self.tz is not None:
            raise UsageError(f"--tz {self.tz}: the file's dates state their own zone; drop --tz")

    def _not_a_date(self, value: pa.ChunkedArray, row: int, column: str, place: Place) -> Exception:
        text = shown(value[0].as_py())
        if _reads(value, _NAIVE) or _reads(value, _UTC):
            has, others = ("no zone", "one") if self.states_zone else ("a zone", "none")
            found = f"{text} states {has}, rows before it {others}"
            return place.refuse(row, column, found, "Use one clock for the whole file")
        remedy = "Write YYYY-MM-DD HH:MM:SS, up to nine decimals, then Z or an offset, or neither"
        return place.refuse(row, column, f"{text} is no date and time", remedy)

    def _since_1970(
        self, dates: pa.ChunkedArray, values: pa.ChunkedArray, column: str, place: Place
    ) -> npt.NDArray[np.int64]:
        if not self.states_zone and self.tz is not None:
            try:
                dates = pc.assume_timezone(dates, self.tz)
            except pa.ArrowInvalid as error:
                if "timezone database" in str(error):
                    raise UsageError(f"--tz {self.tz}: no such zone; try Europe/Berlin") from error
                row = first_row_where(dates, lambda part: not _exists(part, self.tz or ""))
                found = f"{shown(values[row].as_py())} names no single moment in {self.tz}"
                remedy = "The clock was set forward or back then: export the times in UTC"
                raise place.refuse(row, column, found, remedy) from error
        numbers: npt.NDArray[np.int64] = dates.cast(pa.int64()).to_numpy()
        return numbers


def _as_dates(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("ns", values.type.tz))
    if not is_text(values.type):
        raise pa.ArrowInvalid(f"{values.type} holds no dates")
    return values.cast(wanted)


def _states_zone(values: pa.ChunkedArray) -> bool:
    if pa.types.is_timestamp(values.type):
        return values.type.tz is not None
    return not _reads(values, _NAIVE) and _reads(values, _UTC)


def _reads(values: pa.ChunkedArray, wanted: pa.DataType) -> bool:
    try:
        _as_dates(values, wanted)
    except pa.ArrowInvalid:
        return False
    return True


def _exists(dates: pa.ChunkedArray, tz: str) -> bool:
    try:
        pc.assume_timezone(dates, tz)
    except pa.ArrowInvalid:
        return False
    return True
