"""One request's life as a table, and what would have let it in sooner."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from textwrap import wrap
from typing import Any, Final

from schedbench.results.explain.timeline import Event, Step, Timeline
from schedbench.results.explain.what_if import WhatIfs, as_data
from schedbench.results.explain.what_if_sheet import request_what_ifs
from schedbench.results.explain.words import MEANING, counted
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import duration, number, percent

_TERMINAL: Final = 80
_NARROWEST: Final = 24
_GAP: Final = 2
_NAME_WIDTH: Final = 14

_KEPT: Final = ("requests_finished", "ttft_ns", "output_tokens_per_s", "preempted")
_HEADINGS: Final = (
    Heading("at s"),
    Heading("pass"),
    Heading("collection", is_number=False),
    Heading("status", is_number=False),
    Heading("what", is_number=False),
)


def request_view(timeline: Timeline, what_ifs: WhatIfs | None, about: Sequence[str] = ()) -> View:
    """`about`: sentences on the counterfactuals, such as why there are none."""
    row = timeline.facts["row"]
    sheets = [_summary(timeline), _waits(timeline), _steps(timeline)]
    if what_ifs is not None:
        sheets += request_what_ifs(what_ifs, row)
    if about:
        sheets.append(facts([("sooner", " ".join(about))]))
    data = {
        "request": timeline.facts,
        "waited": {k: {"passes": p, "ns": ns} for k, (p, ns) in timeline.waited.items()},
        "timeline": [{**asdict(step), "event": step.event.value} for step in timeline.steps],
        "what_ifs": None if what_ifs is None else as_data(what_ifs, _KEPT),
    }
    return View(f"request {timeline.name}", tuple(sheets), _flat(timeline), data)


def _summary(timeline: Timeline) -> Sheet:
    found = timeline.facts
    requested = found["requested_output_tokens"]
    lengths = f"{number(found['prompt_tokens'])} prompt tokens, {number(requested)} out"
    labels = [
        f"{name} {found[name]}" for name in ("priority", "client", "lora", "group") if found[name]
    ]
    return facts(
        [
            ("asked for", " · ".join([lengths, *labels])),
            ("got", _latencies(found)),
            ("waited", _waited(timeline)),
            ("evicted", _evicted(found)),
        ]
    )


def _latencies(found: Mapping[str, Any]) -> str:
    names = {"ttft_ns": "TTFT", "tpot_ns": "TPOT", "itl_max_ns": "longest ITL", "e2e_ns": "E2E"}
    known = [f"{name} {duration(found[key])}" for key, name in names.items() if found[key]]
    got, requested = found["output_tokens"], found["requested_output_tokens"]
    tokens = "" if got == requested else f"{number(got)} of {number(requested)} output tokens"
    end = f"ended by {found['finish_reason'] or 'nothing: unfinished'}"
    return " · ".join([*filter(None, [tokens]), *known, end])


def _waited(timeline: Timeline) -> str:
    total = timeline.waited_ns
    if not total:
        never_ran = timeline.facts["first_scheduled_ns"] is None
        return "until the run ended, without a pass being made" if never_ran else "not at all"
    verdict, (passes, ns) = next(iter(timeline.waited.items()))
    why = MEANING.get(verdict, verdict)
    return (
        f"{duration(total)}, {percent(ns / total)} of it because {why} ({counted(passes, 'pass')})"
    )


def _evicted(found: Mapping[str, Any]) -> str:
    if not found["preemptions"]:
        return ""
    lost, again = (number(found[name]) for name in ("preempted_tokens", "recomputed_tokens"))
    often = counted(found["preemptions"], "time")
    return f"{often} · {lost} tokens thrown away, {again} computed again"


def _waits(timeline: Timeline) -> Sheet:
    total = timeline.waited_ns
    headings = (Heading("held by", is_number=False), *map(Heading, ("passes", "time", "%")))
    rows = [
        (
            Cell(verdict),
            Cell(number(passes)),
            Cell(duration(ns)),
            Cell(percent(ns / total).removesuffix(" %") if total else "-", mark=Mark.QUIET),
        )
        for verdict, (passes, ns) in timeline.waited.items()
    ]
    return Sheet("", headings, tuple(rows))


def _steps(timeline: Timeline) -> Sheet:
    """A step takes as many lines as its words need."""
    rows: list[tuple[Cell, ...]] = []
    heads = [_head(step) for step in timeline.steps]
    width = _text_width(heads)
    for step, head in zip(timeline.steps, heads, strict=True):
        mark = Mark.WORSE if step.event is Event.EVICTED else Mark.PLAIN
        lines = zip_longest(*head, wrap(what_of(step), width), fillvalue="")
        rows += [tuple(Cell(text, mark=mark) for text in line) for line in lines]
    return Sheet("", _HEADINGS, tuple(rows), keys=len(_HEADINGS))


def _head(step: Step) -> list[list[str]]:
    """All columns but the last."""
    return [
        [f"{step.begin_ns / 1e9:,.3f}"],
        [_passes(step)],
        _in_parts(step.collection),
        _in_parts(step.status),
    ]


def _text_width(heads: Sequence[Sequence[Sequence[str]]]) -> int:
    """What is left for the last column, so that the table fits on a terminal of 80."""
    used = 0
    for place, heading in enumerate(_HEADINGS[:-1]):
        texts = [text for head in heads for text in head[place]]
        used += max(map(len, [heading.title, *texts])) + _GAP
    return max(_NARROWEST, _TERMINAL - used)


def _in_parts(name: str) -> list[str]:
    """A long name of vLLM's, cut behind its underscores: WAITING_FOR_, REMOTE_KVS."""
    parts: list[str] = []
    for word in re.findall(r"[^_]*_|[^_]+$", name):
        if parts and len(parts[-1]) + len(word) <= _NAME_WIDTH:
            parts[-1] += word
        else:
            parts.append(word)
    return parts


def _passes(step: Step) -> str:
    if step.first_pass is None:
        return ""
    if step.first_pass == step.last_pass:
        return str(step.first_pass)
    return f"{step.first_pass}-{step.last_pass}"


def what_of(step: Step) -> str:
    """A step in words."""
    told = step.facts
    match step.event:
        case Event.ARRIVED:
            return _arrival(step)
        case Event.WAITED:
            return _wait(step)
        case Event.ADMITTED | Event.RESUMED:
            return _admission(step)
        case Event.COMPUTED:
            chunks = f"{counted(told['passes'], 'more chunk')} of its prompt"
            return f"{chunks}, {counted(told['tokens'], 'token')}"
        case Event.DECODED:
            return _decodes(step)
        case Event.HELD:
            why = MEANING.get(told["verdict"], told["verdict"])
            return f"held a seat and got nothing in {counted(told['passes'], 'pass')}: {why}"
        case Event.EVICTED:
            lost = f"{number(told['tokens'])} computed tokens lost"
            return f"evicted by {told['by']}: {lost}"
        case Event.NEXT_INPUT:
            return f"next input of the session: {counted(told['tokens'], 'token')}"
        case Event.ENDED:
            return f"ended: {told['reason']}"
    return str(step.event.value)


def _arrival(step: Step) -> str:
    told = step.facts
    behind = f"{number(told['running'])} running"
    if told["num_ahead"]:
        names = ", ".join(told["ahead"])
        more = " and others" if told["num_ahead"] > len(told["ahead"]) else ""
        behind = f"behind {number(told['num_ahead'])} in the queues ({names}{more}), {behind}"
    return f"arrived {behind}" if told["num_ahead"] else f"arrived, nobody waiting, {behind}"


def _wait(step: Step) -> str:
    passes, total = (sum(each) for each in zip(*step.under.values(), strict=True))
    parts = sorted(step.under.items(), key=lambda each: -each[1][1])
    held = ", ".join(f"{verdict} {duration(ns)}" for verdict, (_, ns) in parts)
    told, behind = step.facts, step.facts["behind"]
    place = f"{number(told['ahead'])} ahead at first, {number(told['ahead_at_last'])} at last"
    if behind:
        name = max(behind, key=lambda each: behind[each])
        place += f", longest at the head: {name} ({counted(behind[name], 'pass')})"
    elif not told["ahead"]:
        place = "nobody ahead"
    return f"waited {duration(total)}, {counted(passes, 'pass')}: {held}; {place}"


def _admission(step: Step) -> str:
    told = step.facts
    text = f"{step.event.value}: {number(told['tokens'])} of {number(told['known'])} tokens"
    if told["computed"]:
        text += f", {number(told['computed'])} computed already ({number(told['cached'])} cached)"
    return text


def _decodes(step: Step) -> str:
    told = step.facts
    came = counted(told.get("came", 0), "token")
    text = f"decoded {came} in {counted(told['passes'], 'pass')}"
    if told.get("drafts"):
        text += f", {number(told['drafts'])} drafts verified"
    return f"{text}, {duration(step.end_ns - step.begin_ns)}"


def _flat(timeline: Timeline) -> Sheet:
    """A row a step, for CSV."""
    names = (
        "event",
        "collection",
        "status",
        "begin_ns",
        "end_ns",
        "first_pass",
        "last_pass",
        "what",
    )
    rows = [
        tuple(
            Cell("", raw)
            for raw in (
                step.event.value,
                step.collection,
                step.status,
                step.begin_ns,
                step.end_ns,
                step.first_pass,
                step.last_pass,
                what_of(step),
            )
        )
        for step in timeline.steps
    ]
    return Sheet("", tuple(Heading(name) for name in names), tuple(rows))
