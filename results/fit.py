"""Tables that are wider than the terminal, cut into parts that are not: no number is left out.

flag  a  b  c  d            flag  a  b
64    1  2  3  4    ->      64    1  2
                            flag  c  d
                            64    3  4
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedbench.results.sheet import Mark, Sheet

_GAP = 2  # spaces between columns
_STAR = 2  # of the best value


def parts_that_fit(sheet: Sheet, width: int) -> list[Sheet]:
    """The sheet, or parts of it that each begin with its `keys` columns and fit into `width`.

    A column that does not fit even so stands alone beside the keys.
    """
    if not sheet.headings:
        return [sheet]
    widths = _widths(sheet)
    if sum(widths) <= width:
        return [sheet]
    parts = [_only(sheet, chosen) for chosen in _chunks(widths, sheet.keys, width)]
    return [*(replace(part, note="") for part in parts[:-1]), parts[-1]]


def _widths(sheet: Sheet) -> list[int]:
    """Of each column, the space behind it included."""
    found = []
    for place, heading in enumerate(sheet.headings):
        cells = [row[place] for row in sheet.rows]
        star = _STAR * any(cell.mark is Mark.BEST for cell in cells)
        longest = max((len(cell.text) for cell in cells), default=0)
        found.append(max(len(heading.title), longest + star) + _GAP)
    return found


def _chunks(widths: Sequence[int], keys: int, width: int) -> Iterator[list[int]]:
    """Places of columns: the keys, and as many others in order as fit beside them."""
    fixed = list(range(keys))
    used = start = sum(widths[:keys])
    chosen: list[int] = []
    for place in range(keys, len(widths)):
        if chosen and used + widths[place] > width:
            yield fixed + chosen
            chosen, used = [], start
        chosen.append(place)
        used += widths[place]
    yield fixed + chosen


def _only(sheet: Sheet, places: Sequence[int]) -> Sheet:
    rows = tuple(tuple(row[place] for place in places) for row in sheet.rows)
    return replace(sheet, headings=tuple(sheet.headings[place] for place in places), rows=rows)
