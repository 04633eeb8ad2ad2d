"""Waiting as tables: for what, who longest, who instead."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from schedbench.results.explain.holds import BEHIND_THE_HEAD, DECODES, own_holds
from schedbench.results.explain.less_waiting import as_data, less_waiting_sheet
from schedbench.results.explain.waiting import Group, Held, Inversion, Waiting
from schedbench.results.explain.what_if import WhatIfs
from schedbench.results.explain.words import MEANING, counted, listed
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import NOTHING, duration, number, percent

_TOP: Final = 5
_LEAST: Final = 0.001  # of all waiting: pairs below are not shown
_PLAIN_HOLDS: Final = frozenset({"seats_full", "budget_spent", BEHIND_THE_HEAD})
_NEVER: Final = {
    "seats_full": "max_num_seqs never preempts",
    "budget_spent": "a running request keeps its share of the budget",
}
"""Why an urgent request cannot help itself."""

_ONLY_RUNNING: Final = "only a running request preempts, never a waiting one"


def waiting_view(found: Waiting, name: str, what_ifs: WhatIfs | None = None) -> View:
    data: dict[str, Any] = {
        "waited_ns": found.waited_ns,
        "held": [asdict(each) for each in found.held],
        "facts": [
            {"ended_by": ended, "would_hold": own, "waited_ns": ns}
            for (ended, own), ns in found.holds.total().most_common()
        ],
        "behind": _by_request(found, found.holds.behind),
        "budget_taken_by": _by_request(found, found.holds.taken_by),
        "longest": [asdict(each) for each in found.longest],
        "inversions": [_inversion_data(each) for each in found.inversions],
        "groups": [asdict(replace(each, rows=())) for each in found.groups],
        "less_waiting": [*as_data(found, what_ifs)],
        "jain": found.jain,
        "held_seats": dict(found.held_seats),
        "running_passes": found.running_passes,
        "busy_passes": found.busy_passes,
        "lora_skips": {lora: asdict(each) for lora, each in found.skips.items()},
    }
    if not found.waited_ns:
        return View(f"{name}: nobody ever waited", (), _flat(found.held), data)
    sheets = (
        _held(found),
        _longest(found),
        _both_facts(found),
        _classes(found),
        _inversions(found),
        _groups(found),
        less_waiting_sheet(found, what_ifs),
        _facts(found),
    )
    return View(_title(found, name), sheets, _flat(found.held), data)


def _by_request(found: Waiting, waited: Mapping[int, int]) -> list[dict[str, Any]]:
    return [
        {"row": row if row >= 0 else None, "request": _named(found, row), "waited_ns": ns}
        for row, ns in sorted(waited.items(), key=lambda each: -each[1])
    ]


def _named(found: Waiting, row: int) -> str:
    return "the decodes" if row == DECODES else found.names.get(row, str(row))


def _title(found: Waiting, name: str) -> str:
    """What held requests themselves, not what ended the loop before it came to them."""
    own, ns = own_holds(found.holds.total()).most_common(1)[0]
    return f"{name}: {percent(ns / found.waited_ns)} of all waiting was because {MEANING[own]}"


def _held(found: Waiting) -> Sheet:
    headings = (
        Heading("loop ended by", is_number=False),
        *map(Heading, ("passes", "time", "KV %", "requests", "waited", "%", "longest")),
    )
    rows = [
        (
            Cell(each.verdict),
            Cell(number(each.passes) if each.passes else NOTHING),
            Cell(duration(each.ns) if each.passes else NOTHING),
            Cell(percent(each.kv_used_share).removesuffix(" %")),
            Cell(number(each.requests)),
            Cell(duration(each.waited_ns)),
            Cell(percent(each.waited_ns / found.waited_ns).removesuffix(" %"), mark=Mark.QUIET),
            Cell(duration(each.longest_ns)),
        )
        for each in found.held
    ]
    return Sheet("", headings, tuple(rows), "passes and time: while somebody waited")


def _longest(found: Waiting) -> Sheet:
    headings = (
        Heading("waited longest", is_number=False),
        Heading("waited"),
        Heading("ended by", is_number=False),
        Heading("%"),
        Heading("if it were first", is_number=False),
        Heading("%"),
        Heading("", is_number=False),
    )
    rows = [
        (
            Cell(each.name),
            Cell(duration(each.waited_ns)),
            Cell(each.verdict),
            Cell(percent(each.verdict_ns / each.waited_ns).removesuffix(" %"), mark=Mark.QUIET),
            Cell(each.hold),
            Cell(percent(each.hold_ns / each.waited_ns).removesuffix(" %"), mark=Mark.QUIET),
            Cell("" if each.served else "never ran", mark=Mark.FAILED),
        )
        for each in found.longest
    ]
    return Sheet("", headings, tuple(rows))


def _both_facts(found: Waiting) -> Sheet:
    """What ended the loop, beside what would hold the request if it stood first."""
    headings = (
        Heading("loop ended by", is_number=False),
        Heading("a request that stood first", is_number=False),
        Heading("waited"),
        Heading("%"),
    )
    pairs = found.holds.total().most_common()
    rows = [
        (
            Cell(ended),
            Cell("would be let in" if own == BEHIND_THE_HEAD else own),
            Cell(duration(ns)),
            Cell(percent(ns / found.waited_ns).removesuffix(" %"), mark=Mark.QUIET),
        )
        for (ended, own), ns in pairs
        if ns >= _LEAST * found.waited_ns
    ]
    return Sheet("", headings, tuple(rows))


def _classes(found: Waiting) -> Sheet:
    """Both facts for each class, client, adapter and group, where there are several."""
    headings = (
        Heading("by", is_number=False),
        *map(Heading, ("requests", "mean wait")),
        Heading("loop mostly ended by", is_number=False),
        Heading("and if it were first", is_number=False),
        Heading("%"),
    )
    waited = [each for each in found.groups if each.pair is not None and each.waited_ns]
    shown: list[Group] = []
    for by in dict.fromkeys(each.by for each in waited):
        own = [each for each in waited if each.by == by]
        shown += sorted(own, key=lambda each: -each.mean_ns)[:_TOP]
    rows = [
        (
            Cell(f"{each.by} {each.name}"),
            Cell(number(each.requests)),
            Cell(duration(each.mean_ns)),
            Cell(each.pair[0]),
            Cell("it would be let in" if each.pair[1] == BEHIND_THE_HEAD else each.pair[1]),
            Cell(percent(each.pair_ns / each.waited_ns).removesuffix(" %"), mark=Mark.QUIET),
        )
        for each in shown
        if each.pair is not None
    ]
    return Sheet("", headings, tuple(rows))


def _inversions(found: Waiting) -> Sheet:
    shown = [_inverted(each) for each in found.inversions[:_TOP]]
    if found.policy == "fcfs" and shown:
        told = f"{counted(len(found.inversions), 'urgent request')} stood behind less urgent ones"
        shown.insert(0, ("", f"{told}: --scheduling-policy fcfs reads no priority"))
    elif len(found.inversions) > _TOP:
        shown.append(("", f"and {counted(len(found.inversions) - _TOP, 'other')}"))
    return facts(shown, "priority inversions" if shown else "")


def _inverted(each: Inversion) -> tuple[str, str]:
    told = (
        f"P{each.priority} waited {counted(each.passes, 'pass')} ({duration(each.ns)}) while "
        f"P{each.holder_priority} {each.holder} ran, from pass {each.first_pass} on: "
        f"{_cause(each)}"
    )
    return each.name, told


def _cause(each: Inversion) -> str:
    """What kept an urgent request out: its own lack if it has one, else what ended the loop."""
    (ended, own), _ = each.verdicts.most_common(1)[0]
    if own not in _PLAIN_HOLDS:
        return f"{own}: {MEANING[own]}"
    return f"{ended}; {_NEVER.get(ended, _ONLY_RUNNING)}"


def _inversion_data(each: Inversion) -> dict[str, Any]:
    return {**asdict(replace(each, verdicts=Counter())), "verdicts": _facts_data(each)}


def _facts_data(each: Inversion) -> list[dict[str, Any]]:
    return [
        {"ended_by": ended, "would_hold": own, "passes": passes}
        for (ended, own), passes in each.verdicts.most_common()
    ]


def _groups(found: Waiting) -> Sheet:
    headings = (
        Heading("starved", is_number=False),
        *map(Heading, ("requests", "unfin.", "mean wait", "worst", "times the mean")),
    )
    worst = sorted(found.starved, key=lambda each: -(each.times_the_mean or 0))[:_TOP]
    return Sheet("", headings, tuple(_group(each) for each in worst))


def _group(each: Group) -> tuple[Cell, ...]:
    times = NOTHING if each.times_the_mean is None else f"{each.times_the_mean:.1f}"
    return (
        Cell(f"{each.by} {each.name}"),
        Cell(number(each.requests)),
        Cell(number(each.unfinished)),
        Cell(duration(each.mean_ns)),
        Cell(duration(each.worst_ns)),
        Cell(times, mark=Mark.WORSE),
    )


def _facts(found: Waiting) -> Sheet:
    return facts(
        [
            ("stood behind", _blamed(found, found.holds.behind)),
            ("budget went to", _blamed(found, found.holds.taken_by)),
            *_fairness(found),
            *_adapters(found),
            ("ran, got no token", _seats(found)),
        ]
    )


def _blamed(found: Waiting, waited: Mapping[int, int]) -> str:
    """Those that others waited for longest, with how long these waited, all together."""
    worst = sorted(waited.items(), key=lambda each: -each[1])
    if not worst:
        return ""
    parts = [f"{_named(found, row)} ({duration(ns)})" for row, ns in worst[:_TOP]]
    total = duration(sum(waited.values()))
    return f"{listed(parts, _TOP, len(worst))}; requests waited {total} for them in all"


def _fairness(found: Waiting) -> Iterator[tuple[str, str]]:
    words = {"tokens_per_request": "tokens served per request", "ttft_mean": "mean TTFT"}
    for by, jain in found.jain.items():
        parts = [f"{jain[key]:.2f} of {of}" for key, of in words.items() if jain[key] is not None]
        yield f"Jain's index by {by}", f"{' · '.join(parts)} (1 is equal)"


def _adapters(found: Waiting) -> Iterator[tuple[str, str]]:
    worst = sorted(found.skips.items(), key=lambda each: -each[1].longest_streak)[:_TOP]
    for lora, skips in worst:
        often = f"set aside in {counted(skips.passes, 'pass')}"
        yield f"adapter {lora}", f"{often}, {number(skips.longest_streak)} in a row at most"


def _seats(found: Waiting) -> str:
    held = found.held_seats.total()
    if not held:
        return ""
    reasons = ", ".join(f"{label} {number(n)}" for label, n in found.held_seats.most_common())
    share = percent(held / found.running_passes)
    running = found.running_passes / found.busy_passes
    scheduled = running - held / found.busy_passes
    return (
        f"{share} of the passes that requests spent in `running`: {reasons} · a pass had "
        f"{running:.1f} running on average, {scheduled:.1f} of them scheduled"
    )


def _flat(held: Sequence[Held]) -> Sheet:
    """A row a verdict, for CSV."""
    names = ("verdict", "passes", "ns", "kv_used_share", "requests", "waited_ns", "longest_ns")
    rows = [tuple(Cell("", getattr(each, name)) for name in names) for each in held]
    return Sheet("", tuple(Heading(name) for name in names), tuple(rows))
