"""Curves go through the exact percentiles."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from schedbench.results.report.curves import curves
from schedbench.results.stored_run import StoredRun


def test_every_point_is_the_nearest_rank_of_its_share(crowded: StoredRun) -> None:
    curve = curves(crowded.requests(), crowded.itl())["ttft_ns"]
    values = np.sort(crowded.requests()["ttft_ns"].to_numpy())
    assert curve["n"] == len(values)
    for nines, value in zip(curve["nines"], curve["values_ns"], strict=True):
        share = 1 - 10**-nines
        assert (values <= value).mean() >= share - 1e-4
    assert curve["values_ns"][-1] == values.max()


def test_gaps_count_as_often_as_they_occurred(crowded: StoredRun) -> None:
    curve = curves(crowded.requests(), crowded.itl())["itl_ns"]
    assert curve["n"] == sum(crowded.itl()["count"].to_pylist())
    assert curve["values_ns"] == sorted(curve["values_ns"])


def test_the_warm_up_is_left_out(crowded: StoredRun) -> None:
    arrivals = np.sort(crowded.requests()["arrival_ns"].to_numpy())
    curve = curves(crowded.requests(), crowded.itl(), warmup_ns=int(arrivals[50]))["e2e_ns"]
    assert curve["n"] == (arrivals >= arrivals[50]).sum()


@pytest.mark.parametrize("latency", ["ttft_ns", "tpot_ns", "e2e_ns", "itl_ns"])
def test_no_request_makes_no_curve(made_up: Callable[..., Any], latency: str) -> None:
    run = made_up(1, passes=0, requests=0).in_memory()
    found = curves(run.requests.table(), run.itl.table())[latency]
    assert found == {"n": 0, "nines": [], "values_ns": []}
