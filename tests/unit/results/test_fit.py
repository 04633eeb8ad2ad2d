from schedbench.results.fit import parts_that_fit
from schedbench.results.sheet import Cell, Heading, Sheet


def sheet(columns: int, keys: int = 1, note: str = "") -> Sheet:
    headings = tuple(Heading(f"column {place}") for place in range(columns))
    rows = tuple(tuple(Cell(f"{row}{place}") for place in range(columns)) for row in range(3))
    return Sheet("", headings, rows, note, keys)


def titles(part: Sheet) -> list[str]:
    return [heading.title for heading in part.headings]


def test_a_table_that_fits_stays_as_it_is() -> None:
    whole = sheet(4)
    assert parts_that_fit(whole, 40) == [whole]


def test_every_part_begins_with_the_keys_and_the_parts_hold_every_column_once() -> None:
    parts = parts_that_fit(sheet(9, keys=2), 45)
    assert [titles(part)[:2] for part in parts] == [["column 0", "column 1"]] * len(parts)
    others = [title for part in parts for title in titles(part)[2:]]
    assert others == [f"column {place}" for place in range(2, 9)]
    assert [[cell.text for cell in part.rows[1]][:2] for part in parts] == [["10", "11"]] * 4


def test_a_column_too_wide_for_any_terminal_stands_alone_beside_the_keys() -> None:
    assert [len(part.headings) for part in parts_that_fit(sheet(4), 5)] == [2, 2, 2]


def test_the_note_stands_below_the_last_part_only() -> None:
    notes = [part.note for part in parts_that_fit(sheet(9, note="* best"), 45)]
    assert notes == [""] * (len(notes) - 1) + ["* best"]


def test_facts_are_never_split() -> None:
    facts = Sheet("", (), ((Cell("name"), Cell("a sentence " * 40)),))
    assert parts_that_fit(facts, 40) == [facts]
