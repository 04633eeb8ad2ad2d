"""The laws of docs/invariants.md that only a whole run can break."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from laws import LawBrokenError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from watched import Watch

    from schedbench.runner.run import Run
    from schedbench.workloads.trace import Trace

Rows = list[dict[str, Any]]


def waits_add_up(trace: Trace, watch: Watch, run: Run) -> Iterator[str]:
    del trace
    for row in run.requests.to_pylist():
        told = {
            name.removeprefix("wait_").removesuffix("_ns"): value
            for name, value in row.items()
            if name.startswith("wait_") and value
        }
        walked = {name: ns for name, ns in watch.diary.waited[row["row"]].items() if ns}
        if told != walked:
            yield f"request {row['row']} waited {walked}, and the table says {told}"


def times_are_in_order(trace: Trace, watch: Watch, run: Run) -> Iterator[str]:
    del trace
    passes = run.passes.to_pylist()
    for before, after in itertools.pairwise(passes):
        if after["start_ns"] < before["start_ns"]:
            yield f"pass {after['pass']} starts before the one before it"
        alone = watch.config.passes_in_flight == 1
        if alone and after["start_ns"] < before["end_ns"]:
            yield f"pass {after['pass']} starts before the one before it has ended"
        if after["end_ns"] < max(before["end_ns"], after["start_ns"]) + after["duration_ns"]:
            yield f"pass {after['pass']} ends before it can"
    ends = max((row["end_ns"] for row in passes), default=0)
    first = min((row["arrival_ns"] for row in run.requests.to_pylist()), default=0)
    if passes and run.summary["makespan_ns"] != max(ends - first, 0):
        yield f"the makespan is {run.summary['makespan_ns']}, from {first} to {ends}"
    for row in run.requests.to_pylist():
        names = ("arrival_ns", "first_scheduled_ns", "first_token_ns", "finish_ns")
        known = [row[name] for name in names if row[name] is not None]
        if known != sorted(known):
            yield f"request {row['row']}: {dict(zip(names, known, strict=False))}"


def nobody_is_lost(trace: Trace, watch: Watch, run: Run) -> Iterator[str]:
    table = run.requests.to_pylist()
    facts = trace.table.to_pylist()
    came = _that_came(facts, {row["row"]: row["finish_reason"] for row in table}, run)
    if sorted(row["row"] for row in table) != came:
        yield f"rows {[row['row'] for row in table]} and not {came} of {trace.num_requests}"
    for row in table:
        if watch.ended[row["row"]] != (row["finish_reason"] is not None):
            yield f"request {row['row']} ended {watch.ended[row['row']]} times: {row}"
    for row in table:
        fact = facts[row["row"]]
        if row["finish_reason"] not in ("stop", "length") or fact.get("chunks") is not None:
            continue
        cap = fact.get("max_tokens") or fact["output_tokens"]
        room = watch.config.max_model_len - fact["prompt_tokens"]
        tokens = min(fact["output_tokens"], room)
        reason = "stop" if tokens == fact["output_tokens"] < cap else "length"
        if (row["output_tokens"], row["finish_reason"]) != (tokens, reason):
            yield f"request {row['row']} is {fact} and got {row}"


def _that_came(facts: Rows, reasons: dict[int, str | None], run: Run) -> list[int]:
    """All rows, but in a closed loop not those after one that never ends (an open session)."""
    if run.manifest["arrivals"] != "closed":
        return list(range(len(facts)))
    return [
        number
        for number, fact in enumerate(facts)
        if fact.get("after") is None or reasons.get(fact["after"]) is not None
    ]


def tables_agree(trace: Trace, watch: Watch, run: Run) -> Iterator[str]:
    passes, requests = run.passes.to_pylist(), run.requests.to_pylist()
    facts = trace.table.to_pylist()

    def total(rows: Rows, name: str) -> int:
        return sum(row[name] or 0 for row in rows)

    turns = [row for row in facts if row.get("chunks")]
    ran = sum(row["first_scheduled_ns"] is not None for row in requests)
    same: list[tuple[str, int, int]] = [
        ("preempted", total(passes, "preempted"), sum(len(row["victims"]) for row in passes)),
        ("aborted", total(passes, "aborted"), watch.aborted_before_the_last_row),
        ("aborts", watch.aborted, _count(requests, "abort")),
        ("hits", total(passes, "prefix_hit_tokens"), total(requests, "cached_tokens")),
        (
            "tokens",
            total(passes, "tokens_scheduled"),
            sum(watch.scheduled_tokens.values()),
        ),
        (
            "finished",
            total(passes, "finished") + watch.sessions_closed,
            _count(requests, "stop", "length", "error"),
        ),
    ]
    if not turns:
        same.append(("admitted", total(passes, "admitted"), ran))
        same.append(("closed sessions", _count(requests, "stop", "length"), _served(run)))
    unreported = watch.scheduler.reset_victims if watch.scheduler is not None else []
    lost = sum(victim.num_computed_tokens for victim in unreported)
    evictions = total(passes, "preempted") + len(unreported), total(requests, "preemptions")
    thrown = total(passes, "preempted_tokens") + lost, total(requests, "preempted_tokens")
    same += [("preemptions", *evictions), ("preempted tokens", *thrown)]
    in_summary = {
        "preempted": passes,
        "preempted_by_reset": passes,
        "preempted_tokens": passes,
        "prefix_hit_tokens": passes,
        "recomputed_tokens": requests,
        "resumed_cached_tokens": requests,
    }
    same += [
        (f"{name} of the summary", total(rows, name), run.summary[name])
        for name, rows in in_summary.items()
    ]
    for name, left, right in same:
        if left != right:
            yield f"{name}: {left} in the pass log, {right} in the requests table"


def _count(requests: Rows, *reasons: str) -> int:
    return sum(row["finish_reason"] in reasons for row in requests)


def _served(run: Run) -> int:
    return int(run.summary["requests_finished"])


def hold_to_a_true_stall(watch: Watch) -> None:
    """Law 17: another pass would not help, unless all passes compute and evict for ever."""
    scheduler, last = watch.scheduler, watch.last_output
    if scheduler is None or last is None or last.num_scheduled_tokens:
        return
    output = scheduler.schedule()
    if output.num_scheduled_tokens or output.victims:
        raise LawBrokenError(f"law 17: it stalled, and another pass would do this: {output}")


RUN_LAWS: dict[int, Callable[[Trace, Watch, Run], Iterator[str]]] = {
    10: waits_add_up,
    11: times_are_in_order,
    15: nobody_is_lost,
    16: tables_agree,
}


def hold_to_run_laws(trace: Trace, watch: Watch, run: Run) -> None:
    for number, law in RUN_LAWS.items():
        for complaint in law(trace, watch, run):
            raise LawBrokenError(f"law {number}, {law.__name__}: {complaint}")
