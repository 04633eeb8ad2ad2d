"""The prefix cache as tables: the hit rate, what was lost where, what would raise it."""

from collections.abc import Iterator
from typing import Final

from schedbench.results.catalog import CATALOG, flatten
from schedbench.results.explain.prefix import Lookups, Prefix
from schedbench.results.explain.what_if import Tried, WhatIfs
from schedbench.results.explain.what_if_sheet import in_words, taken_beside
from schedbench.results.explain.words import counted
from schedbench.results.metric_column import metric_column
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import number, percent

_COLUMNS: Final = {
    "prefix_hit_share": "hit",
    "ttft_ns.p50": "TTFT p50",
    "ttft_ns.p99": "p99",
    "prefill_tokens": "prefill",
    "output_tokens_per_s": "out",
}
_BAR: Final = 24


def prefix_view(found: Prefix, name: str, what_ifs: WhatIfs | None) -> View:
    sheets = [_rates(found), _losses(found), _shares(found), _about(found)]
    if what_ifs is not None and what_ifs.tried:
        sheets.append(_what_ifs(what_ifs))
    data = found.data()
    flat = Sheet(
        "",
        tuple(Heading(key) for key in ("number", "value")),
        tuple((Cell("", key), Cell("", value)) for key, value in flatten(data)),
    )
    return View(_title(found, name), tuple(sheets), flat, data)


def _title(found: Prefix, name: str) -> str:
    if not found.is_on:
        return f"{name}: prefix caching is off (--no-enable-prefix-caching)"
    if not found.first.queried:
        return f"{name}: nothing was looked up in the prefix cache"
    return f"{name}: {percent(found.first.share)} of the prompt tokens looked up were hit"


def _rates(found: Prefix) -> Sheet:
    external = found.external_tokens
    return facts(
        [
            ("first admissions", _lookups(found.first)),
            ("resumes, apart", _lookups(found.resumed)),
            ("from elsewhere", f"{number(external)} tokens of remote KV" if external else ""),
        ]
    )


def _lookups(found: Lookups) -> str:
    if not found.requests:
        return ""
    of = f"{number(found.hit)} of {number(found.queried)} tokens"
    return f"{percent(found.share)}: {of}, {counted(found.requests, 'request')}"


def _losses(found: Prefix) -> Sheet:
    """Where every looked-up token went."""
    if not found.is_on or found.shared is None or not found.first.queried:
        return facts([])
    queried = found.first.queried
    parts = [
        ("hit", found.first.hit, ""),
        ("evicted", found.evicted, "was cached once; the pool is too small"),
        ("not yet there", found.not_yet, "who brings it was not computed yet"),
        ("block floor", found.floor, f"less than a block of {found.block_size}, or the last token"),
        ("never seen before", queried - found.shared, "no earlier request began like this"),
    ]
    rows = [
        (
            Cell(name),
            Cell(number(tokens)),
            Cell(percent(tokens / queried).removesuffix(" %"), mark=Mark.QUIET),
            Cell(why, mark=Mark.QUIET),
        )
        for name, tokens, why in parts
    ]
    headings = (
        Heading("prompt tokens", is_number=False),
        Heading("tokens"),
        Heading("%"),
        Heading("", is_number=False),
    )
    return Sheet("", headings, tuple(rows), keys=2)


def _shares(found: Prefix) -> Sheet:
    most = max(found.hit_shares.values(), default=0)
    if not most:
        return facts([])
    rows = [
        (
            Cell(name),
            Cell("█" * round(_BAR * requests / most), mark=Mark.QUIET),
            Cell(number(requests)),
        )
        for name, requests in found.hit_shares.items()
    ]
    headings = (
        Heading("of its prompt hit", is_number=False),
        Heading("", is_number=False),
        Heading("requests"),
    )
    return Sheet("", headings, tuple(rows))


def _about(found: Prefix) -> Sheet:
    return facts([("shared prefix", _sizes(found)), ("so", " ".join(_advice(found)))])


def _sizes(found: Prefix) -> str:
    if found.shared is None or not found.shared_spread["n"]:
        return ""
    n, p50, p90 = (found.shared_spread[key] for key in ("n", "p50", "p90"))
    return (
        f"{counted(n or 0, 'request')} of {number(found.first.requests)} begin like an earlier "
        f"one, with p50 {number(p50)} and p90 {number(p90)} tokens; "
        f"a block holds {found.block_size}"
    )


def _advice(found: Prefix) -> Iterator[str]:
    if not found.is_on:
        yield "prefix caching is off: nothing can be hit; --enable-prefix-caching turns it on."
        return
    if found.shared is None:
        yield (
            "the trace has no hash_ids, so that it does not say which prompts begin alike: a "
            "request can only hit its own blocks after it was evicted."
        )
        return
    p50 = found.shared_spread["p50"]
    if p50 is not None and p50 < found.block_size:
        yield (
            f"shared prefix p50 of {number(p50)} tokens is below the block of {found.block_size}: "
            "most of it can never be hit; take a smaller --block-size."
        )
    losses = {"evicted": found.evicted, "not_yet": found.not_yet, "floor": found.floor}
    worst = max(losses, key=lambda name: losses[name])
    if losses[worst]:
        yield _WORST[worst]


_WORST: Final = {
    "evicted": "Most of what was lost had been in the cache: more blocks would keep it.",
    "not_yet": "Most of what was lost came too soon after the request that brings it.",
    "floor": "Most of what was lost fell to whole blocks.",
}


def _what_ifs(what_ifs: WhatIfs) -> Sheet:
    of_use = [each for each in what_ifs.tried if _hits(each) > _hits(what_ifs.base)]
    others = [each for each in what_ifs.tried if each not in of_use]
    shown = [what_ifs.base, *of_use]
    numbers = [dict(flatten(each.summary or {})) for each in shown]
    columns = [
        (Heading("what if", is_number=False), [Cell(in_words(each.changes)) for each in shown]),
        *(
            metric_column(CATALOG[key], title, [each.get(key) for each in numbers])
            for key, title in _COLUMNS.items()
        ),
    ]
    rows = zip(*(cells for _, cells in columns), strict=True)
    tried = ", ".join(in_words(each.changes) for each in others)
    note = "\n".join(
        filter(
            None,
            [
                *taken_beside(of_use),
                f"tried, and no better: {tried}" if tried else "",
                what_ifs.times,
            ],
        )
    )
    return Sheet("", tuple(heading for heading, _ in columns), tuple(rows), note)


def _hits(tried: Tried) -> float:
    """The share of prompt tokens that a replay hit; below any where it did not end."""
    share = -1.0 if tried.summary is None else tried.summary["prefix_hit_share"]
    return -1.0 if share is None else float(share)
