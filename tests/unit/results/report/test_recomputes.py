"""A timeline names what the passes did, held against every grant that the scheduler made."""

import json
from collections import Counter, defaultdict
from io import BytesIO
from pathlib import Path

import pytest

from schedbench.results.report.timeline import write_timeline
from schedbench.results.stored_run import StoredRun
from schedbench.runner.record import Recorder
from schedbench.runner.run import ReplayOptions, replay
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.output import SchedulerOutput
from schedbench.workloads.samples.sample import load_sample
from schedbench.workloads.transform import slice_trace

RECOMPUTE = "prefill (recompute)"


@pytest.mark.parametrize(
    ("policy", "ahead", "budget", "threshold"),
    [
        ("fcfs", True, 8192, 0),
        ("fcfs", False, 256, 0),
        ("priority", True, 512, 0),
        ("priority", False, 150, 0),
        ("fcfs", False, 512, 64),
    ],
)
def test_a_request_is_in_the_slice_that_each_of_its_grants_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    *,
    ahead: bool,
    budget: int,
    threshold: int,
) -> None:
    granted: list[dict[int, str]] = []
    first_half = Recorder._first_half

    def spy(self: Recorder, output: SchedulerOutput, now_ns: int, freed: int) -> object:
        prefills = {grant.request.request_id for grant in output.prefills}
        tags = {
            each: self._scheduler.requests[each].tag.row for each in output.num_scheduled_tokens
        }
        granted.append({r: "prefill" if i in prefills else "decode" for i, r in tags.items()})
        return first_half(self, output, now_ns, freed)

    monkeypatch.setattr(Recorder, "_first_half", spy)
    config = SchedulerConfig(
        num_gpu_blocks=420,
        max_num_seqs=96,
        policy=policy,
        async_scheduling=ahead,
        max_num_batched_tokens=budget,
        long_prefill_token_threshold=threshold,
    )
    options = ReplayOptions(speedup="4", short_way=False)
    replay(slice_trace(load_sample(), limit=90), config, options=options, out=tmp_path / "run")
    run = StoredRun.open(tmp_path / "run")
    shown = _slices(run)
    found = Counter(
        (kind, *_at(end_ns, shown[row]))
        for end_ns, rows in zip(run.passes()["end_ns"].to_pylist(), granted, strict=True)
        for row, kind in rows.items()
    )
    certain = {each[:2] for each in found if not each[2]}
    thrown_away = {("decode", "preempted"), ("prefill", "preempted")}
    assert certain - thrown_away == {("decode", "decode"), ("prefill", "prefill")}
    assert any(about for _, _, about in found) <= (threshold > 0)
    names = Counter(name for each in shown.values() for _, _, name, _ in each)
    assert names[RECOMPUTE] == run.summary["resumed"]


def _slices(run: StoredRun) -> dict[int, list[tuple[int, int, str, bool]]]:
    """Of each row: from when, to when, under which name, and whether that is in doubt."""
    out, found = BytesIO(), defaultdict(list)
    write_timeline([run], out)
    for each in json.loads(out.getvalue())["traceEvents"]:
        if each["ph"] == "X" and each["pid"] == 2:
            from_ns, length_ns = round(each["ts"] * 1000), round(each["dur"] * 1000)
            span = (from_ns, from_ns + length_ns, each["name"], "until" in each["args"])
            found[each["args"]["row"]].append(span)
    return found


def _at(end_ns: int, slices: list[tuple[int, int, str, bool]]) -> tuple[str, bool]:
    """What it did until the end of a pass; one in flight at a preemption is thrown away."""
    ((name, about),) = ((n, about) for first, last, n, about in slices if first < end_ns <= last)
    return name.removesuffix(" (recompute)"), about
