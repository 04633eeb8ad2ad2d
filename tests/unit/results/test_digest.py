"""Equal rows have equal digests, however they are stored; any other value has another one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.digest import table_digest
from schedbench.results.stored_run import StoredRun

COLUMNS = st.fixed_dictionaries(
    {
        "n": st.lists(st.none() | st.integers(0, 3), min_size=4, max_size=4),
        "s": st.lists(st.none() | st.sampled_from(["", "a", "ab"]), min_size=4, max_size=4),
        "l": st.lists(st.none() | st.lists(st.integers(0, 2), max_size=2), min_size=4, max_size=4),
    }
)
TYPES = {"n": pa.int64(), "s": pa.string(), "l": pa.list_(pa.int64())}


def table_of(columns: dict[str, Any]) -> pa.Table:
    return pa.table({name: pa.array(columns[name], kind) for name, kind in TYPES.items()})


@given(COLUMNS, COLUMNS)
def test_digests_are_equal_exactly_where_values_are(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert (table_digest(table_of(a)) == table_digest(table_of(b))) == (a == b)


@given(COLUMNS, st.integers(0, 4))
def test_chunks_and_dictionaries_make_no_difference(columns: dict[str, Any], cut: int) -> None:
    table = table_of(columns)
    pieces = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    encoded = pieces.set_column(1, "s", pieces.column("s").dictionary_encode())
    assert table_digest(table) == table_digest(pieces) == table_digest(encoded)


def test_a_stored_run_has_the_digest_of_the_one_in_memory(
    made_up: Callable[..., Any], tmp_path: Path
) -> None:
    run = made_up(5)
    stored = StoredRun.open(run.stored(tmp_path / "run", {}, {}))
    memory = run.in_memory()
    assert table_digest(stored.passes()) == table_digest(memory.passes.table())
    assert table_digest(stored.requests()) == table_digest(memory.requests.table())


@pytest.mark.parametrize("column", ["duration_ns", "victims", "admission_stop", "decisions"])
def test_one_changed_value_changes_the_digest(made_up: Callable[..., Any], column: str) -> None:
    a, b = made_up(5), made_up(5)
    changed: dict[str, Any] = {"victims": [9, 9], "admission_stop": "other"}
    b.passes[3][column] = changed.get(column, 123_456_789)
    assert table_digest(a.in_memory().passes.table()) != table_digest(b.in_memory().passes.table())
