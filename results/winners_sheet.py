"""Winners and losers as a sheet."""

from schedbench.results.catalog import CATALOG, Unit
from schedbench.results.sheet import Cell, Heading, Mark, Sheet
from schedbench.results.units import Scale, number, scale_for, signed
from schedbench.results.winners import Change, WinnersAndLosers


def winners_sheet(letter: str, changes: WinnersAndLosers) -> Sheet:
    """Those that won and lost most, in one table; the run with this letter against A."""
    name = CATALOG[f"{changes.metric}.p50"].title.removesuffix(" p50")
    rows = [*changes.winners, *reversed(changes.losers)]
    scale = scale_for(Unit.NS, [value for each in rows for value in (each.first_ns, each.other_ns)])
    headings = (
        Heading(f"{name} of request", is_number=False),
        *map(Heading, ("row", "A", letter, "change")),
        Heading("", is_number=False),
    )
    note = (
        f"{number(changes.faster)} faster, {number(changes.slower)} slower, "
        f"{number(changes.same)} the same; median {signed(changes.delta['p50'])}"
    )
    return Sheet("", headings, tuple(_changed(each, scale) for each in rows), note)


def _changed(change: Change, scale: Scale) -> tuple[Cell, ...]:
    delta = change.other_ns - change.first_ns
    mark = Mark.BETTER if delta < 0 else Mark.WORSE
    sign = "+" if delta > 0 else ""
    return (
        Cell(change.request_id),
        Cell(str(change.row)),
        Cell(scale.text(change.first_ns)),
        Cell(scale.text(change.other_ns)),
        Cell(f"{sign}{scale.text(delta)}", mark=mark),
        Cell(scale.unit, mark=Mark.QUIET),
    )
