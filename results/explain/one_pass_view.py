"""One pass as tables: before, the decisions, after."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from typing import Final

from schedbench.results.explain.one_pass import Decision, OnePass, Standing, State
from schedbench.results.explain.words import LIMITS, MEANING, counted, listed
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import NOTHING, duration, number

_SHOWN: Final = 6
"""Names of a collection that are written out."""

_ALIKE: Final = 4
"""So many decodes in a row, and more, are one line."""

_MARKS: Final = {"GRANT": Mark.BETTER, "STOP": Mark.FAILED, "ASIDE": Mark.WORSE, "SKIP": Mark.QUIET}
_HEADINGS: Final = (
    Heading("loop", is_number=False),
    Heading("request", is_number=False),
    Heading("verdict", is_number=False),
    Heading("tokens"),
    Heading("budget"),
    Heading("free"),
    Heading("", is_number=False),
)


def one_pass_view(found: OnePass) -> View:
    row = found.row
    title = (
        f"pass {found.index}, from {row['start_ns'] / 1e9:,.3f} s on, "
        f"{duration(row['duration_ns'])} long"
    )
    sheets = (
        _state("before", found.before, found),
        _decisions(found.decisions),
        _ends(found),
        _state("after", found.after, found),
        _outcome(found),
    )
    return View(title, sheets, _flat(found), asdict(found))


def _state(title: str, state: State, found: OnePass) -> Sheet:
    limits, counts = found.limits, state.counts
    seats = f"{number(counts['running'])} of {number(limits['max_num_seqs'])} seats"
    if state.seats_held_by_sessions:
        seats += f", {number(state.seats_held_by_sessions)} more held by sessions"
    used, free = number(state.kv_blocks_used), number(state.kv_blocks_free)
    blocks = f"{used} of {number(limits['kv_blocks'])} used, {free} free"
    if limits["watermark_blocks"]:
        blocks += f", watermark {number(limits['watermark_blocks'])}"
    return facts(
        [
            ("running", _joined(seats, _heads(state.running, counts["running"]))),
            ("skipped_waiting", _queue(state.skipped_waiting, counts["skipped_waiting"])),
            ("waiting", _queue(state.waiting, counts["waiting"])),
            ("KV blocks", blocks),
        ],
        title,
    )


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)


def _queue(standing: Sequence[Standing], total: int) -> str:
    return f"{number(total)}: {_heads(standing, total)}" if total else ""


def _heads(standing: Sequence[Standing], total: int) -> str:
    return listed([each.name for each in standing[:_SHOWN]], _SHOWN, total)


def _decisions(decisions: Sequence[Decision]) -> Sheet:
    rows = [cells for group in _grouped(decisions) for cells in _rows(group)]
    return Sheet("", _HEADINGS, tuple(rows), keys=2)


def _grouped(decisions: Sequence[Decision]) -> Iterator[list[Decision]]:
    """Decisions in order; those of one kind that say nothing by themselves come together."""
    for _, group in groupby(decisions, lambda each: (each.loop, each.verdict, each.tokens)):
        yield list(group)


def _rows(group: Sequence[Decision]) -> Iterator[tuple[Cell, ...]]:
    first, last = group[0], group[-1]
    if len(group) >= _ALIKE and first.verdict in _LIKE_EACH_OTHER:
        tokens = sum(each.tokens for each in group)
        named = f"{number(len(group))}: {first.name} to {last.name}"
        yield _row(last, named, tokens, "each" if first.tokens == 1 else _why(first))
        return
    for each in group:
        yield _row(each, each.name, each.tokens, _why(each))


_LIKE_EACH_OTHER: Final = ("continued", "nothing_to_do", "output_cap_in_flight", "lora_slots_full")


def _row(decision: Decision, name: str, tokens: int, why: str) -> tuple[Cell, ...]:
    mark = _MARKS.get(decision.kind, Mark.PLAIN)
    budget = decision.budget_left
    return (
        Cell(decision.loop, mark=Mark.QUIET),
        Cell(name),
        Cell(decision.verdict, mark=mark),
        Cell(number(tokens) if tokens else NOTHING),
        Cell(NOTHING if budget is None else number(budget), mark=Mark.QUIET),
        Cell(number(decision.kv_blocks_free), mark=Mark.QUIET),
        Cell(why, mark=Mark.QUIET),
    )


def _why(decision: Decision) -> str:
    """What there is to say beside the verdict."""
    told = decision.facts
    if "by" in told:
        return f"by {told['by']}, {number(told['lost'])} tokens lost"
    if decision.verdict in ("admitted", "resumed"):
        cached = f", {number(told['cached'])} cached" if told.get("cached") else ""
        return f"of {number(decision.known)}, {number(decision.computed)} computed{cached}"
    if decision.verdict == "continued":
        return f"after {number(decision.computed)} of {number(decision.known)}"
    return MEANING.get(decision.verdict, "")


def _ends(found: OnePass) -> Sheet:
    row = found.row
    running, admission = row["running_stop"], row["admission_stop"]
    cancelled = ""
    if row["admissions_cancelled"]:
        fit = number(row["admissions_cancelled_fit"])
        stranded = number(row["budget_stranded"])
        cancelled = (
            f"{number(row['admissions_cancelled'])} in the queues were not looked at; {fit} would "
            f"have been admitted, {stranded} tokens of budget stayed unspent"
        )
    return facts(
        [
            ("running loop", f"ended by {running}: {MEANING.get(running, running)}"),
            ("admission", f"ended by {admission}: {MEANING.get(admission, admission)}"),
            ("cancelled", cancelled),
            ("held back by", LIMITS.get(row["binding_limit"], "nothing")),
        ]
    )


def _outcome(found: OnePass) -> Sheet:
    row, came = found.row, found.came
    scheduled = counted(row["tokens_scheduled"], "token")
    parts = f"{number(row['prefill_tokens'])} prefill, {number(row['decode_tokens'])} decode"
    if row["spec_tokens"]:
        parts += f", {number(row['spec_tokens'])} drafts"
    ended = [f"{name} ({reason})" for name, reason in came.get("finished", ())]
    return facts(
        [
            (
                "scheduled",
                f"{scheduled} ({parts}) of {counted(row['requests_scheduled'], 'request')}",
            ),
            ("came back", f"tokens for {counted(came['emitted'], 'request')}" if came else ""),
            ("finished", listed(ended, _SHOWN)),
            ("await input", listed(came.get("sessions_awaiting_input", ()), _SHOWN)),
        ]
    )


def _flat(found: OnePass) -> Sheet:
    """A row a decision, for CSV."""
    names = [each.name for each in fields(Decision) if each.name != "facts"]
    told = ("by", "lost", "cached")
    rows = [
        tuple(
            Cell("", raw)
            for raw in (
                *(getattr(each, name) for name in names),
                *(each.facts.get(name) for name in told),
            )
        )
        for each in found.decisions
    ]
    return Sheet("", tuple(Heading(name) for name in (*names, *told)), tuple(rows))
