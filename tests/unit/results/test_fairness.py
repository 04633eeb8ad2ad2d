"""Jain's index is 1 for equals and 1/n for one that has all; groups lose no request."""

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.export import as_csv
from schedbench.results.fairness import SPLITS, jain, split
from schedbench.results.split_sheet import split_view
from schedbench.results.tables import plain_text

AMOUNT = st.integers(1, 10**9)


@given(amount=AMOUNT, n=st.integers(1, 20))
def test_the_index_spans_from_one_over_n_to_one(amount: int, n: int) -> None:
    assert jain([amount] * n) == pytest.approx(1)
    assert jain([amount] + [0] * (n - 1)) == pytest.approx(1 / n)


@given(st.lists(AMOUNT, min_size=1), st.integers(1, 100))
def test_the_index_does_not_depend_on_the_unit(amounts: list[int], unit: int) -> None:
    assert jain([amount * unit for amount in amounts]) == pytest.approx(jain(amounts))


def test_the_index_of_nothing_is_not_known() -> None:
    assert jain([]) is None
    assert jain([0, 0]) == 1


@given(seed=st.integers(0, 10**6), by=st.sampled_from(SPLITS))
def test_groups_hold_each_request_once(made_up: Callable[..., Any], seed: int, by: str) -> None:
    run = made_up(seed)
    groups = split(run.in_memory().requests.table(), by)["groups"]
    expected: dict[str, int] = {}
    for row in run.requests:
        name = "(none)" if row[by] is None else str(row[by])
        expected[name] = expected.get(name, 0) + 1
    assert {name: group["requests"] for name, group in groups.items()} == expected
    assert sum(group["tokens_served_share"] for group in groups.values()) == pytest.approx(1)


def test_a_split_shows_each_group_with_its_counts_and_how_even_they_are(
    made_up: Callable[..., Any],
) -> None:
    found = split(made_up(3).in_memory().requests.table(), "group")
    view = split_view("group", ["base"], [found])
    text = plain_text(view)
    assert [line.split()[0] for line in text.splitlines()[4:7]] == ["chat", "code", "(none)"]
    assert "Jain's index" in text
    rows = list(csv.DictReader(io.StringIO(as_csv(view))))
    assert [row["group"] for row in rows] == ["chat", "code", "(none)"]
    assert sum(int(row["requests"]) for row in rows) == 50
