"""The answers of `schedbench explain`: a watched replay, replays with flags changed, a view."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from schedbench.bounds import INDEX
from schedbench.cli.progress import LiveLine, ReplayProgress
from schedbench.cli.values import parse_count
from schedbench.errors import SchedbenchError
from schedbench.runner.draft_terms import draft_terms
from schedbench.runner.explain.rerun import Rerun, look_on, rerun_of
from schedbench.runner.explain.trials import try_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from schedbench.cli.explain import Replaying
    from schedbench.results.explain.what_if import WhatIfs
    from schedbench.results.sheet import View
    from schedbench.results.stored_run import StoredRun
    from schedbench.runner.watch import Watched, Watcher


def of_run(run: "StoredRun", replaying: "Replaying") -> "View":
    """What held a run back, and what loosening that does; without the trace, what is stored."""
    from schedbench.results.explain.overview import overview_view, stored_summary
    from schedbench.runner.explain.sooner import changes_for_run

    summary, found, about = stored_summary(run), None, ""
    try:
        rerun = rerun_of(run, replaying.trace)
    except SchedbenchError as error:
        about = str(error)
    else:
        found = with_changes(rerun, changes_for_run(summary, rerun), replaying)
    return overview_view(run, summary, found, about)


def of_request(run: "StoredRun", named: str, replaying: "Replaying") -> "View":
    """One request's timeline, and what would have let it in sooner."""
    from schedbench.results.explain.request_view import request_view
    from schedbench.runner.explain.naming import find_row
    from schedbench.runner.explain.request import RequestWatcher, timeline_of
    from schedbench.runner.explain.sooner import changes_for

    rerun = rerun_of(run, replaying.trace)
    watcher = RequestWatcher(find_row(rerun.prepared(), named))
    timeline = timeline_of(watcher, watched(rerun, watcher))
    changes, about = changes_for(timeline, rerun)
    found = with_changes(rerun, changes, replaying)
    return request_view(timeline, found, about)


def of_pass(run: "StoredRun", typed: str, replaying: "Replaying") -> "View":
    """Everything that one pass decided."""
    from schedbench.results.explain.one_pass_view import one_pass_view
    from schedbench.runner.explain.one_pass import PassWatcher, one_pass_of

    watcher = PassWatcher(parse_count(typed, "--pass", INDEX))
    return one_pass_view(one_pass_of(watcher, watched(rerun_of(run, replaying.trace), watcher)))


def of_preemptions(run: "StoredRun", replaying: "Replaying") -> "View":
    """Who was evicted, by whom, and what ends it."""
    from schedbench.results.explain.preemptions import Preemptions
    from schedbench.results.explain.preemptions_view import preemptions_view
    from schedbench.runner.explain.preemptions import PreemptionWatcher
    from schedbench.runner.explain.remedies import find_remedies

    rerun, watcher = rerun_of(run, replaying.trace), PreemptionWatcher()
    summary = summary_of(rerun, watched(rerun, watcher))
    evictions, stalled = tuple(watcher.evictions), bool(run.manifest.get("stalled"))
    if not replaying.what_if or not any(each.index is not None for each in evictions):
        return preemptions_view(Preemptions(evictions, summary, stalled=stalled), run.name)
    with telling("looking for what ends it: {} of {} flags") as told:
        remedies, about = find_remedies(rerun, workers=replaying.workers, told=told)
    found = Preemptions(evictions, summary, remedies, about, stalled=stalled)
    return preemptions_view(found, run.name)


def of_waiting(run: "StoredRun", replaying: "Replaying") -> "View":
    """What kept requests waiting, and who was served instead."""
    from schedbench.results.explain.waiting_view import waiting_view
    from schedbench.runner.explain.sooner import changes_for_classes
    from schedbench.runner.explain.waiting import WaitingWatcher, waiting_of

    rerun = rerun_of(run, replaying.trace)
    watcher = WaitingWatcher(rerun)
    seen = watched(rerun, watcher)
    found = waiting_of(watcher, seen)
    what_ifs = with_changes(rerun, changes_for_classes(found, rerun), replaying)
    return waiting_view(found, run.name, what_ifs)


def of_prefix(run: "StoredRun", replaying: "Replaying") -> "View":
    """What the prefix cache hit, and what it lost where."""
    from schedbench.results.explain.prefix_view import prefix_view
    from schedbench.runner.explain.prefix import prefix_changes, prefix_of, prefix_watcher_of

    rerun = rerun_of(run, replaying.trace)
    watcher = prefix_watcher_of(rerun)
    watched(rerun, watcher)
    found = prefix_of(watcher, rerun)
    changes = prefix_changes(found, rerun)
    return prefix_view(found, run.name, with_changes(rerun, changes, replaying))


def summary_of(rerun: Rerun, seen: "Watched") -> "dict[str, Any]":
    """The summary of a watched replay: also of a run that was cut short and has none."""
    from schedbench.results.metrics import summarize

    tables = (seen.rows.passes.table(), seen.rows.requests.table(), seen.rows.itl.table())
    options = rerun.options
    return summarize(
        *tables,
        slo=options.slo_ns,
        warmup_ns=options.warmup_ns,
        drafts=draft_terms(rerun.config),
    )


@contextmanager
def telling(text: str) -> "Iterator[Callable[[int, int], None]]":
    """A live line that says how many of how many are done."""
    line = LiveLine()
    try:
        yield lambda done, total: line.show(text.format(done, total))
    finally:
        line.clear()


def watched(rerun: Rerun, watcher: "Watcher") -> "Watched":
    """Replay a run again, with the live line of any replay."""
    by_arrivals = rerun.options.arrivals != "all-at-once"
    with ReplayProgress(rerun.trace.num_requests, by_arrivals) as progress:
        return look_on(rerun, watcher, progress)


def with_changes(
    rerun: Rerun, changes: "Sequence[Mapping[str, Any]]", replaying: "Replaying"
) -> "WhatIfs | None":
    """The replays with flags changed, unless there is nothing to change or nobody wants them."""
    if not replaying.what_if or not changes:
        return None
    with telling("what if: {} of {} replays") as told:
        told(0, len(changes) + 1)
        return try_changes(rerun, changes, workers=replaying.workers, told=told)
