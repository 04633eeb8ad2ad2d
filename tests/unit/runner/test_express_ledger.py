"""What the express way works out for many steps at a time is what one at a time would give."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schedbench.runner.express_ledger import Largest, RunningSums, unmarked
from schedbench.runner.intervals import IntervalCounts
from schedbench.runner.waits import WAIT_LABELS
from schedbench.sched.express import Job


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.data())
def test_the_largest_of_a_stretch_is_that_of_its_values(
    values: list[int], data: st.DataObject
) -> None:
    places = st.integers(0, len(values) - 1)
    first = data.draw(st.lists(places, min_size=1, max_size=9))
    last = [data.draw(st.integers(-1, len(values) - 1)) for _ in first]
    found = Largest(np.array(values)).between(np.array(first), np.array(last))
    stretches = [values[a : b + 1] for a, b in zip(first, last, strict=True)]
    assert found.tolist() == [max(stretch, default=-1) for stretch in stretches]


@given(st.lists(st.lists(st.tuples(st.integers(-3, 9), st.integers(0, 2)), max_size=40)))
def test_intervals_counted_many_at_once_are_those_counted_one_by_one(
    batches: list[list[tuple[int, int]]],
) -> None:
    found, expected = IntervalCounts(), Counter[int]()
    for batch in batches:
        lengths, counts = (np.array([each[at] for each in batch], np.int64) for at in (0, 1))
        found.count(lengths, counts)
        for length, count in batch:
            expected[length] += count
    assert dict(found) == {length: count for length, count in expected.items() if count}


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 3, 4])), min_size=1, max_size=30))
def test_running_sums_give_each_step_s_time_to_its_label(steps: list[tuple[int, int]]) -> None:
    elapsed, labels = (np.array(each) for each in zip(*steps, strict=True))
    before = np.arange(len(WAIT_LABELS))
    found = RunningSums(before, elapsed, labels).at(np.arange(len(steps) + 1))
    for place in range(len(steps) + 1):
        expected = before.copy()
        for length, label in steps[:place]:
            expected[label] += length
        assert found[place].tolist() == expected.tolist()


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_of_a_queue_only_those_that_came_since_the_last_batch_are_looked_at(
    evicted: int, marked: int, arrived: int
) -> None:
    queue = deque(Job(row, 1, 1, 0) for row in range(evicted + marked + arrived))
    for job in list(queue)[evicted : evicted + marked]:
        job.mark = np.zeros(1)
    rows = [job.row for job in unmarked(queue)]
    assert sorted(rows) == [*range(evicted), *range(evicted + marked, len(queue))]
