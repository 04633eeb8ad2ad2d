"""What to change so that a request gets in sooner: to be tried, not to be believed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from schedbench.results.explain.holds import BEHIND_THE_HEAD
from schedbench.results.explain.less_waiting import targets_of
from schedbench.results.explain.overview import waits_by_verdict
from schedbench.results.explain.words import MEANING
from schedbench.runner.explain.candidates import OUTSIDE, candidates, loosens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schedbench.results.explain.timeline import Timeline
    from schedbench.results.explain.waiting import Waiting
    from schedbench.runner.explain.rerun import Rerun

MOST_VERDICTS = 2  # whose flags are tried: those that held the request for longest
WORTH_A_REPLAY = 0.1  # of its wait
_NEVER_RAN = "it never ran: no pass was made between its arrival and the end of the run"


def changes_for(timeline: Timeline, rerun: Rerun) -> tuple[list[dict[str, Any]], list[str]]:
    """Changes to try for the verdicts that held a request for longest, and what else to say."""
    total = timeline.waited_ns
    if not total:
        never_ran = timeline.facts["first_scheduled_ns"] is None
        return [], [_NEVER_RAN if never_ran else "it never waited"]
    waits = {verdict: ns for verdict, (_, ns) in timeline.waited.items()}
    changes = _worth_trying(waits, rerun, is_urgent=_is_urgent(timeline, rerun))
    about = [
        f"no flag shortens {verdict}: {MEANING[verdict]}."
        for verdict in list(waits)[:MOST_VERDICTS]
        if verdict in OUTSIDE
    ]
    return changes, about


def changes_for_run(summary: Mapping[str, Any], rerun: Rerun) -> list[dict[str, Any]]:
    """Limits to loosen for the verdicts under which most time was spent in the queues."""
    return _worth_trying(waits_by_verdict(summary), rerun, is_urgent=False, only_looser=True)


def _worth_trying(
    waits: Mapping[str, int], rerun: Rerun, *, is_urgent: bool, only_looser: bool = False
) -> list[dict[str, Any]]:
    """`waits`: ns by verdict, the longest first."""
    total = sum(waits.values())
    changes: list[dict[str, Any]] = []
    for verdict, ns in list(waits.items())[:MOST_VERDICTS]:
        if changes and ns < WORTH_A_REPLAY * total:
            break
        found = candidates(verdict, rerun.config, is_urgent=is_urgent)
        if only_looser:
            found = [each for each in found if loosens(rerun.config, each)]
        changes += [each for each in found if each not in changes]
    return changes


def _is_urgent(timeline: Timeline, rerun: Rerun) -> bool:
    """Whether others are less urgent, so that priority scheduling would let it pass."""
    priorities = rerun.trace.column("priority")
    return priorities is not None and timeline.facts["priority"] < int(priorities.max())


def changes_for_classes(found: Waiting, rerun: Rerun) -> list[dict[str, Any]]:
    """Changes to try for all requests and for each class that waits longest.

    By what would hold its requests if they stood first; where nothing would, by what ended the
    loop. A flag that only the first fact names would let nobody in.
    """
    changes: list[dict[str, Any]] = []
    for target in targets_of(found):
        is_urgent = target.by == "priority"
        held: Counter[str] = Counter()
        for (ended, own), ns in found.holds.total(target.rows).items():
            held[ended if own == BEHIND_THE_HEAD else own] += ns
        waits = dict(held.most_common())
        changes += [
            each for each in _worth_trying(waits, rerun, is_urgent=is_urgent) if each not in changes
        ]
    return changes
