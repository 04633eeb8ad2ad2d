"""Every metric of a summary: its title, unit, formula, and which direction is better.

Tables, comparisons and `docs/metrics.md` are made from this; a test holds it against `summarize`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from schedbench.results.spread import SPREAD_KEYS


class Better(Enum):
    """Which direction of a metric is better for those who wait for tokens, or pay for them."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = ""


class Unit(Enum):
    """How a value is written out."""

    COUNT = ""
    TOKENS = "tokens"
    BLOCKS = "blocks"
    NS = "ns"
    SHARE = "share"
    PER_SECOND = "requests/s"
    TOKENS_PER_SECOND = "tokens/s"


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of the summary; `key` is its path there, with dots."""

    key: str
    title: str
    unit: Unit
    better: Better
    formula: str


_H, _L, _N = Better.HIGHER, Better.LOWER, Better.NEITHER
_COUNT, _TOKENS, _NS, _SHARE = Unit.COUNT, Unit.TOKENS, Unit.NS, Unit.SHARE
_RATE, _TOKEN_RATE, _BLOCKS = Unit.PER_SECOND, Unit.TOKENS_PER_SECOND, Unit.BLOCKS

_REQUESTS = (
    Metric("requests", "requests", _COUNT, _N, "rows of the requests table"),
    Metric("requests_finished", "finished", _COUNT, _H, "those with reason `stop` or `length`"),
    Metric("requests_unfinished", "unfinished", _COUNT, _L, "those without a reason"),
    Metric("requests_aborted", "aborted", _COUNT, _L, "those with reason `abort`"),
    Metric("requests_errored", "errored", _COUNT, _L, "those with reason `error`"),
    Metric(
        "requests_cut_short",
        "cut short",
        _COUNT,
        _L,
        "finished with `output_tokens` below `requested_output_tokens`",
    ),
    Metric(
        "output_tokens_cut",
        "tokens cut",
        _TOKENS,
        _L,
        "their `requested_output_tokens` - `output_tokens`, summed",
    ),
    Metric("warmup_ns", "warm-up", _NS, _N, "as given; arrivals before it have no latencies"),
    Metric("requests_in_warmup", "in warm-up", _COUNT, _N, "requests that arrived before it"),
    Metric("traffic.requests_per_s", "arrivals", _RATE, _N, "requests / span of the arrivals"),
    Metric(
        "traffic.head_requests_per_s",
        "arrivals at first",
        _RATE,
        _N,
        "requests in the first quarter of the span / its length",
    ),
    Metric("traffic.prompt_tokens_max", "longest prompt", _TOKENS, _N, "over all requests"),
    Metric("traffic.output_tokens_max", "longest output", _TOKENS, _N, "over all requests"),
    Metric("traffic.priorities", "priorities", _COUNT, _N, "different values"),
    Metric("traffic.loras", "LoRA adapters", _COUNT, _N, "different values, base model apart"),
)
_THROUGHPUT = (
    Metric("makespan_ns", "makespan", _NS, _L, "first arrival to end of last pass"),
    Metric("busy_ns", "time in passes", _NS, _N, "sum of `duration_ns`"),
    Metric("requests_per_s", "requests", _RATE, _H, "`requests_finished` / makespan"),
    Metric("output_tokens_per_s", "output tokens", _TOKEN_RATE, _H, "`output_tokens` / makespan"),
    Metric(
        "scheduled_tokens_per_s",
        "scheduled tokens",
        _TOKEN_RATE,
        _N,
        "`tokens_scheduled` / makespan; recomputed ones included",
    ),
    Metric("output_tokens", "output tokens", _TOKENS, _H, "sum over all requests"),
    Metric(
        "goodput.requests_met", "within SLO", _COUNT, _H, "finished with every latency in bounds"
    ),
    Metric(
        "goodput.share",
        "share within SLO",
        _SHARE,
        _H,
        "those / requests that arrived after the warm-up; aborted and unfinished ones missed it",
    ),
    Metric(
        "goodput.requests_per_s", "goodput", _RATE, _H, "those / time from the warm-up to the end"
    ),
)
_SPREADS: Final = {
    "ttft_ns": ("TTFT", "first token - arrival"),
    "queue_ns": ("queue", "start of the first pass that ran it - arrival"),
    "tpot_ns": ("TPOT", "(finish - first token) / (output tokens - 1)"),
    "itl_ns": ("ITL", "gap between two tokens of a request; all gaps of all requests"),
    "e2e_ns": ("E2E", "finish - arrival"),
    "decode_pass_ns": (
        "decode-only pass",
        "`duration_ns` of passes without prompts, once for each decode in them",
    ),
    "mixed_pass_ns": (
        "mixed pass",
        "`duration_ns` of passes with decodes and prompts, once for each decode in them",
    ),
}
_PASSES = (
    Metric("passes", "passes", _COUNT, _N, "rows of the pass log"),
    Metric("tokens_scheduled", "tokens scheduled", _TOKENS, _N, "sum over passes"),
    Metric("prefill_tokens", "prefill tokens", _TOKENS, _N, "sum over passes"),
    Metric("decode_tokens", "decode tokens", _TOKENS, _N, "sum over passes"),
    Metric("spec_tokens", "draft tokens", _TOKENS, _N, "sum over passes"),
    Metric(
        "drafts_per_decode",
        "drafts a decode",
        _COUNT,
        _N,
        "`spec_tokens` / `decode_tokens`; below `num_speculative_tokens` where drafts were cut",
    ),
    Metric(
        "drafts.wanted_tokens",
        "drafts wanted",
        _TOKENS,
        _N,
        "`decode_tokens` * `num_speculative_tokens`; the part `drafts` is there with drafts only",
    ),
    Metric(
        "drafts.empty_tokens",
        "drafts missing",
        _TOKENS,
        _N,
        "by pass, what `spec_tokens` lacks of those; added up",
    ),
    Metric(
        "drafts.cut_tokens",
        "drafts cut off",
        _TOKENS,
        _L,
        "of those, the ones in passes whose budget was spent",
    ),
    Metric(
        "drafts.kept_tokens",
        "kept for the drafter",
        _TOKENS,
        _N,
        "`max_num_batched_tokens` less the budget of a pass",
    ),
    Metric(
        "drafts.full.passes",
        "full passes with drafts",
        _COUNT,
        _L,
        "passes with drafts whose budget was spent",
    ),
    Metric("drafts.full.ns", "time in those", _NS, _L, "sum of their `duration_ns`"),
    Metric(
        "drafts.share_of_full",
        "drafts in those",
        _SHARE,
        _N,
        "their `spec_tokens` / their `tokens_scheduled`",
    ),
    Metric(
        "drafts.left_out",
        "decodes left out",
        _COUNT,
        _L,
        "`running` less `requests_scheduled`, where `budget_spent` ended the running loop of those",
    ),
    Metric(
        "mixed_share",
        "mixed passes",
        _SHARE,
        _N,
        "passes with both decodes and prompts / all",
    ),
    Metric("admitted", "admitted", _COUNT, _N, "sum over passes"),
    Metric("resumed", "resumed", _COUNT, _L, "sum over passes"),
    Metric("preempted", "preemptions", _COUNT, _L, "sum over passes"),
    Metric("preempted_by_reset", "by cache resets", _COUNT, _N, "sum over passes"),
    Metric("requests_preempted", "requests evicted", _COUNT, _L, "those evicted once or more"),
    Metric("preemptions_max", "evicted most", _COUNT, _L, "evictions of the one hit most often"),
    Metric("preempted_tokens", "tokens thrown away", _TOKENS, _L, "sum over passes"),
    Metric("recomputed_tokens", "tokens recomputed", _TOKENS, _L, "sum over requests"),
    Metric(
        "recomputed_share",
        "recompute tax",
        _SHARE,
        _L,
        "`recomputed_tokens` / `tokens_scheduled`",
    ),
    Metric("admissions_cancelled", "admissions cancelled", _COUNT, _L, "sum over passes"),
    Metric("admissions_cancelled_fit", "of them would fit", _COUNT, _L, "sum over passes"),
    Metric("budget_stranded", "budget stranded", _TOKENS, _L, "sum over passes"),
    Metric(
        "admission_closed_by_preemption.passes",
        "passes closed by preemption",
        _COUNT,
        _L,
        "passes with `admission_stop` = `closed_by_preemption`",
    ),
    Metric(
        "admission_closed_by_preemption.ns",
        "time closed by preemption",
        _NS,
        _L,
        "their `duration_ns`",
    ),
)
_STATE = (
    Metric("prefix_query_tokens", "prefix tokens looked up", _TOKENS, _N, "sum over passes"),
    Metric("prefix_hit_tokens", "prefix tokens hit", _TOKENS, _H, "sum over passes"),
    Metric("prefix_hit_share", "prefix hit rate", _SHARE, _H, "hit / looked up; no resumes"),
    Metric("resumed_cached_tokens", "hit by resumes", _TOKENS, _N, "sum over requests, kept apart"),
    Metric("budget.tokens_max", "budget", _TOKENS, _N, "of a pass, the largest"),
    Metric("budget.used_share", "budget used", _SHARE, _N, "tokens scheduled / sum of budgets"),
    Metric(
        "budget.used_share_of_time",
        "budget used, by time",
        _SHARE,
        _N,
        "share of each pass, weighted by its `duration_ns`",
    ),
    Metric("kv.blocks", "KV blocks", _BLOCKS, _N, "used + free"),
    Metric("kv.used_share_mean", "KV use, mean", _SHARE, _N, "used / all, weighted by time"),
    Metric("kv.used_share_max", "KV use, max", _SHARE, _N, "used / all, largest of a pass"),
    Metric("queues.running_mean", "running, mean", _COUNT, _N, "weighted by time"),
    Metric("queues.waiting_mean", "waiting, mean", _COUNT, _L, "both queues, weighted by time"),
    Metric("queues.waiting_max", "waiting, max", _COUNT, _L, "both queues, largest of a pass"),
    Metric("queues.running_max", "running, max", _COUNT, _N, "largest of a pass"),
    Metric("queues.seats_held_by_sessions_max", "seats held, max", _COUNT, _L, "largest of a pass"),
    Metric(
        "queues.kv_blocks_held_waiting_max", "blocks held, max", _BLOCKS, _L, "largest of a pass"
    ),
)


def _spread_metrics() -> Iterator[Metric]:
    for key, (title, formula) in _SPREADS.items():
        for name in SPREAD_KEYS:
            unit, better = (_COUNT, _N) if name == "n" else (_NS, _L)
            yield Metric(f"{key}.{name}", f"{title} {name}", unit, better, formula)


_OF_GROUPS = (
    Metric("preemptions", "preemptions", _COUNT, _L, "sum over requests"),
    Metric("tokens_served", "tokens served", _TOKENS, _N, "prompt and output of finished requests"),
    Metric(
        "tokens_served_share", "tokens served", _SHARE, _N, "of those of all groups, its own part"
    ),
)


CATALOG: Final[Mapping[str, Metric]] = {
    metric.key: metric
    for metric in (*_REQUESTS, *_THROUGHPUT, *_spread_metrics(), *_PASSES, *_STATE)
}

OF_GROUPS: Final[Mapping[str, Metric]] = {metric.key: metric for metric in _OF_GROUPS}
"""What only a group of requests has, in a split."""

FAMILIES: Final = {
    "binding_limit": "passes and time by what held a pass back",
    "admission_stop": "passes and time by the verdict that ended admission",
    "running_stop": "passes and time by the verdict that ended the running loop",
    "batch": "passes and time by what was in the batch: decodes, prompts, both or nothing",
    "waits": "time in the queues by verdict, over all requests",
    "goodput.slo_ns": "the bounds, as given",
}
"""Parts of the summary whose keys are labels."""


def metric_of(key: str) -> Metric:
    """The metric at a path of the summary; of a family, one that is neither better nor worse."""
    found = CATALOG.get(key) or OF_GROUPS.get(key)
    if found is not None:
        return found
    unit = _COUNT if key.endswith(".passes") else _NS
    return Metric(key, key.removesuffix("_ns").replace(".", " "), unit, _N, "")


def flatten(summary: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Paths with dots, and the numbers there."""
    for name, value in summary.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
