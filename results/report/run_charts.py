"""What the charts of a page draw, as JSON: for each run its passes, slices and curves."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.results.arrays import ints, is_known, known, largest
from schedbench.results.pass_log import PASS_COLUMNS
from schedbench.results.report.curves import curves
from schedbench.results.report.pass_points import NOT_SHOWN, PassPoints, pass_points
from schedbench.results.report.subject import Subject, Window, letter_of
from schedbench.results.report.thin import COARSEST
from schedbench.results.stored_run import StoredRun

MOST_BYTES: Final = 7_500_000
"""Of all runs together, so that a page stays under 10 MB with its script and its tables."""

MOST_PASSES: Final = 400_000
"""Held in a page, of all runs together: more would take a browser long to unfold."""

ROW_GROUPS: Final[Mapping[str, Sequence[str]]] = {
    "Pass": ("pass", "start_ns", "duration_ns", "requests_scheduled", "requests_emitting"),
    "Batch": (
        "token_budget",
        "tokens_scheduled",
        "prefill_tokens",
        "decode_tokens",
        "spec_tokens",
        "context_tokens",
        "budget_stranded",
    ),
    "Ended by": ("running_stop", "admission_stop", "binding_limit"),
    "Queues": ("running", "waiting", "skipped_waiting", "seats_held_by_sessions"),
    "Came and went": ("admitted", "resumed", "finished", "finished_while_waiting", "aborted"),
    "Preemption": (
        "preempted",
        "preempted_by_reset",
        "preempted_tokens",
        "admissions_cancelled",
        "admissions_cancelled_fit",
    ),
    "KV blocks": (
        "kv_blocks_used",
        "kv_blocks_free",
        "kv_blocks_cached",
        "kv_blocks_held_waiting",
        "kv_blocks_freed_preempt",
        "kv_blocks_freed_finish",
    ),
    "Prefix cache": ("prefix_query_tokens", "prefix_hit_tokens"),
}
"""The row of a pass as a page lays it out; all columns but those of NOT_SHOWN."""


def chart_data(subjects: Sequence[Subject], window: Window) -> dict[str, Any]:
    """Everything that the script of a page reads."""
    share = len(subjects)
    runs = [
        _run_data(subject, letter_of(place), window, MOST_BYTES // share, MOST_PASSES // share)
        for place, subject in enumerate(subjects)
    ]
    columns = {c.name: [c.unit, c.meaning] for c in PASS_COLUMNS if c.name not in NOT_SHOWN}
    return {"runs": runs, "columns": columns, "groups": ROW_GROUPS}


def _run_data(
    subject: Subject, letter: str, window: Window, most_bytes: int, most_passes: int
) -> dict[str, Any]:
    run = subject.run
    passes, requests = cut(run.passes(), window), run.requests()
    points = _points_within(passes, most_bytes, most_passes)
    pool = largest(ints(passes, "kv_blocks_used") + ints(passes, "kv_blocks_free"))
    return {
        "letter": letter,
        "name": run.name,
        "path": str(run.path),
        "passes": passes.num_rows,
        "points": points.points,
        "slices": points.slices,
        "labels": points.labels,
        "victims": points.victims,
        "ids": _ids(requests, points.victims),
        "marks": points.marks,
        "marks_held": points.marks_held,
        "rules": {"pool": pool, "seats": run.manifest.get("scheduler", {}).get("max_num_seqs")},
        "curves": _curves(run, requests),
    }


def _curves(run: StoredRun, requests: pa.Table) -> dict[str, Any]:
    """Beside each curve the p99 of the summary, so that the tables below have the same."""
    found = curves(requests, run.itl(), run.manifest.get("warmup_ns") or 0)
    return {key: {**curve, "p99_ns": run.summary[key]["p99"]} for key, curve in found.items()}


def cut(passes: pa.Table, window: Window) -> pa.Table:
    """The passes that start within a window."""
    start = passes.column("start_ns")
    if window.from_ns is not None:
        passes = passes.filter(pc.greater_equal(start, window.from_ns))
        start = passes.column("start_ns")
    return passes if window.to_ns is None else passes.filter(pc.less(start, window.to_ns))


def _points_within(passes: pa.Table, most_bytes: int, most_passes: int) -> PassPoints:
    """As many passes as fit into so many bytes; the coarsest choice at least."""
    while True:
        found = pass_points(passes, most_passes)
        size = len(orjson.dumps([found.points, found.slices, found.victims]))
        if size <= most_bytes or most_passes < COARSEST:
            return found
        most_passes = int(min(most_passes, found.points["rows"]) * 0.9 * most_bytes / size)


def _ids(requests: pa.Table, victims: Sequence[Sequence[int]]) -> dict[str, str]:
    """The trace's own labels of the requests that the page names, by their rows."""
    named = np.unique(np.asarray([row for rows in victims for row in rows], dtype=np.int64))
    is_named = np.isin(ints(requests, "row"), named) & is_known(requests, "request_id")
    rows = known(requests, "row", is_named).tolist()
    ids = requests.column("request_id").filter(pa.array(is_named)).to_pylist()
    return {str(row): label for row, label in zip(rows, ids, strict=True)}
