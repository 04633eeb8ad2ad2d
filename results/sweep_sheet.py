"""A sweep as one table: a row a configuration, the best of each column marked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from schedbench.results.catalog import CATALOG, Better, flatten
from schedbench.results.drafts import drafts_told
from schedbench.results.held_back import held_back
from schedbench.results.knee import knee_told
from schedbench.results.metric_column import ColumnOfCells, metric_column
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View
from schedbench.results.units import NOTHING, percent
from schedbench.results.without_effect import flags_without_effect, told

COLUMNS: Final = {
    "requests_finished": "n",
    "requests_unfinished": "unfin.",
    "requests_aborted": "abort.",
    "requests_cut_short": "cut",
    "ttft_ns.p50": "TTFT p50",
    "ttft_ns.p99": "TTFT p99",
    "tpot_ns.p50": "TPOT p50",
    "itl_ns.p99": "ITL p99",
    "e2e_ns.p99": "E2E p99",
    "output_tokens_per_s": "out",
    "goodput.share": "in SLO",
    "preempted": "preempt.",
    "recomputed_share": "recomp.",
    "kv.used_share_max": "KV max",
}
"""The metrics a sweep shows to people; all of a summary is in its JSON and CSV."""

_CHUNKS: Final = {
    "mixed_share": "mixed passes",
    "decode_pass_ns.p99": "decode-only p99",
    "mixed_pass_ns.p99": "mixed p99",
    "budget.used_share_of_time": "budget used",
}
_DRAFTS: Final = {
    "drafts_per_decode": "drafts/decode",
    "drafts.cut_tokens": "cut off",
    "drafts.left_out": "left out",
    "budget.tokens_max": "budget",
}
_BLOCKS: Final = {"kv.used_share_mean": "KV mean", "queues.waiting_mean": "waiting"}
_VICTIMS: Final = {"requests_preempted": "evicted", "preemptions_max": "worst hit"}

MORE_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys(
        (
            "max_num_batched_tokens",
            "max_num_scheduled_tokens",
            "enable_chunked_prefill",
            "long_prefill_token_threshold",
        ),
        _CHUNKS,
    ),
    **dict.fromkeys(("spec_tokens", "num_speculative_tokens", "spec_method"), _DRAFTS),
    **dict.fromkeys(("num_gpu_blocks", "watermark", "scheduler_reserve_full_isl"), _BLOCKS),
    **dict.fromkeys(("policy_class", "scheduler", "policy", "scheduling_policy"), _VICTIMS),
}
"""What else is shown where a flag varies: what that flag is about."""

PARETO: Final = ("ttft_ns.p99", "tpot_ns.p99", "output_tokens_per_s")
"""What a configuration trades off: the wait for the first token, the pace after it, throughput."""

_NOTE: Final = (
    "* best; ● no other one beats it in TTFT p99, TPOT p99 and output tokens/s at once "
    "(of equal ones the first)"
)

_BOUGHT: Final = ("num_gpu_blocks", "tensor_parallel_size")

_MEANINGS: Final = {
    "mixed_pass_ns.p99": "decode-only and mixed p99: time of a pass without and with prompts "
    "beside the decodes, once for each decode",
    "drafts_per_decode": "drafts/decode: drafts scheduled for each decode; budget: tokens of a "
    "pass after the slots that drafts take",
    "drafts.cut_tokens": "cut off: drafts that a full pass had no room for; left out: how often a "
    "full pass had none for a decode",
    "preemptions_max": "evicted: how many requests; worst hit: how often the one hit most",
}
"""What has no room in a heading."""

NOTHING_BINDS: Final = "nothing"

_Numbers: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One configuration: the flags that vary, and its summary, or why there is none."""

    flags: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    failure: str = ""
    release: str = ""  # whose decisions these are, in words; empty where that is refused

    @property
    def name(self) -> str:
        return " ".join(f"{flag}={spelled(value)}" for flag, value in self.flags.items())


def sweep_view(
    points: Sequence[SweepPoint],
    title: str = "",
    warnings: Sequence[str] = (),
    *,
    is_grid: bool = True,
) -> View:
    """One table over all points, in the order given; what failed has a row and its reason.

    Of a grid it is told which flags made no difference.
    """
    numbers = [dict(flatten(point.summary)) if point.summary else {} for point in points]
    flags = list(dict.fromkeys(flag for point in points for flag in point.flags))
    titles = dict(COLUMNS)
    for flag in flags:
        titles |= MORE_COLUMNS.get(flag.replace("-", "_"), {})
    shown = [key for key in titles if any(each.get(key) is not None for each in numbers)]
    columns = [
        *(_flag_column(points, flag) for flag in flags),
        *(
            metric_column(CATALOG[key], titles[key], [n.get(key) for n in numbers], star=True)
            for key in shown
        ),
        _binding_column(points),
        _pareto_column(numbers),
    ]
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    meanings = [meaning for key, meaning in _MEANINGS.items() if key in shown]
    idle = flags_without_effect(points) if is_grid else []
    legend = [_NOTE] if any(numbers) else []
    more = [*_drafts(points, flags), *_knee(points, numbers, flags)]
    note = "\n".join(filter(None, [*legend, told(idle, len(flags)), *meanings, *more]))
    sheet = Sheet("", tuple(heading for heading, _ in columns), rows, note, len(flags))
    data = [
        {
            "flags": dict(point.flags),
            "release": point.release or None,
            "failure": point.failure or None,
            "summary": point.summary,
            "flags_without_effect": idle,
        }
        for point in points
    ]
    flat = _flat_sheet(points, numbers, flags)
    return View(title, (sheet,), flat, data, (*warnings, *_failures(points)))


def _failures(points: Sequence[SweepPoint]) -> Iterator[str]:
    """Why points have no result, each reason once; which ones is in the table."""
    by_reason: dict[str, list[str]] = {}
    for point in points:
        if point.failure:
            by_reason.setdefault(point.failure, []).append(point.name)
    for reason, (first, *more) in by_reason.items():
        others = f" and {len(more)} other{'s'[: len(more) != 1]}" if more else ""
        yield f"{first}{others} failed: {reason}"


def _drafts(points: Sequence[SweepPoint], flags: Sequence[str]) -> Iterator[str]:
    """Whether drafts make the batch smaller, at each point, where that is what varies."""
    if not any(MORE_COLUMNS.get(flag.replace("-", "_")) is _DRAFTS for flag in flags):
        return
    for point in points:
        if told := drafts_told(point.summary or {}):
            yield f"{point.name}: drafts {told}"


def _knee(
    points: Sequence[SweepPoint], numbers: Sequence[_Numbers], flags: Sequence[str]
) -> Iterator[str]:
    """How much is enough, where only the amount of something that costs money varies."""
    if len(flags) != 1 or flags[0].replace("-", "_") not in _BOUGHT:
        return
    known = [
        (point.flags[flags[0]], found["goodput.share"])
        for point, found in zip(points, numbers, strict=True)
        if found.get("goodput.share") is not None
    ]
    if told := knee_told(flags[0], known):
        yield told


def _flag_column(points: Sequence[SweepPoint], flag: str) -> ColumnOfCells:
    values = [point.flags.get(flag) for point in points]
    cells = [Cell(NOTHING if value is None else _flag_text(value)) for value in values]
    is_number = all(isinstance(value, int | float) for value in values)
    return Heading(flag.replace("_", "-"), is_number), cells


def _flag_text(value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_number else spelled(value)


def spelled(value: object) -> str:
    """As it is typed."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _binding_column(points: Sequence[SweepPoint]) -> ColumnOfCells:
    """The limit that held most back, with its share of the time in passes, or of all waiting."""
    cells = [
        Cell("failed" if point.failure else NOTHING, mark=Mark.FAILED)
        if point.summary is None
        else Cell(binding_limit(point.summary))
        for point in points
    ]
    return Heading("binding limit", is_number=False), cells


def binding_limit(summary: Mapping[str, Any]) -> str:
    """In words: which limit held most of the time, or of the waiting, back, and how much of it."""
    found = held_back(summary)
    if found is None:
        return NOTHING_BINDS
    if found.share is None:
        return found.limit
    return f"{found.limit} {percent(found.share)}{' of waiting' * found.is_of_waiting}"


def _pareto_column(numbers: Sequence[_Numbers]) -> ColumnOfCells:
    """Of points that come to the same, the first is marked."""
    found = [tuple(each.get(key) for key in PARETO) for each in numbers]
    marked = [
        on and found[place] not in found[:place] for place, on in enumerate(pareto_front(found))
    ]
    return Heading("front", is_number=False), [Cell("●" if on else "") for on in marked]


def pareto_front(points: Sequence[tuple[float | None, ...]]) -> list[bool]:
    """Which points no other one beats: as good in every metric of PARETO, and better in one.

    A point without all of the metrics is never on the front.
    """
    signs = [1 if CATALOG[key].better is Better.LOWER else -1 for key in PARETO]
    costs = [
        None
        if None in point
        else tuple(s * v for s, v in zip(signs, point, strict=True) if v is not None)
        for point in points
    ]
    return [
        cost is not None and not any(_beats(other, cost) for other in costs if other is not None)
        for cost in costs
    ]


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _flat_sheet(
    points: Sequence[SweepPoint], numbers: Sequence[_Numbers], flags: Sequence[str]
) -> Sheet:
    """A row a configuration, a column a number, for CSV."""
    keys = list(dict.fromkeys(key for each in numbers for key in each))
    rows = [
        tuple(
            Cell("", raw)
            for raw in (
                *(point.flags.get(flag) for flag in flags),
                point.failure or None,
                *(each.get(key) for key in keys),
            )
        )
        for point, each in zip(points, numbers, strict=True)
    ]
    return Sheet("", tuple(Heading(name) for name in (*flags, "failure", *keys)), tuple(rows))
