"""Every warning about a run: what was seen, by which rule, and what to do about it.

Each rule looks at the summary, the scheduler's flags by vLLM's names, and what they become. The
thresholds are named and carry their reason; they are rules of thumb, not vLLM's.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from schedbench.results.explain.words import counted
from schedbench.results.held_back import waits_aside
from schedbench.results.units import duration, number, percent

FEW_REQUESTS: Final = 100
"""A 99th percentile over fewer values is one of the two or three largest, not a percentile."""

HEAVY_RECOMPUTE: Final = 0.05
"""Of the tokens scheduled. Below, preemption costs less than what a few more blocks would."""

IDLE_POOL: Final = 0.25
"""Of the KV blocks, the most ever used. Four times the traffic would still fit."""

LOW_RATE_HEAD: Final = 0.1
"""Of the mean arrival rate, in the first quarter. With so quiet a head any two flags look alike."""

RARELY_BUSY: Final = 0.5
"""Of the makespan, spent in passes. Below, most of the time there was nothing to schedule."""

DEFAULT_SPEC_METHOD: Final = "ngram"
DEFAULT_FAILURE_POLICY: Final = "fail"
"""Where these flags stand when nobody gave them; elsewhere somebody expects something of them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the rules look at."""

    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    derived: Mapping[str, Any]
    columns: Collection[str] = ()
    acceptance: float | None = None

    @property
    def any_limit_bound(self) -> bool:
        bound = not set(self.summary["binding_limit"]) <= {"nothing"}
        return bound or bool(waits_aside(self.summary))

    @property
    def tells_limits(self) -> bool:
        """Whether the run says what held its passes back; vLLM's own class does not."""
        return bool(self.summary["binding_limit"])

    def stopped_by(self, *verdicts: str) -> int:
        """Passes that ended either loop with one of these verdicts."""
        return sum(
            part["passes"]
            for name in ("running_stop", "admission_stop")
            for label, part in self.summary[name].items()
            if label in verdicts
        )


def warn(
    summary: Mapping[str, Any],
    config: Mapping[str, Any],
    derived: Mapping[str, Any],
    columns: Collection[str] = (),
    acceptance: float | None = None,
) -> list[str]:
    """The warnings about a run, the gravest first; none for a run that says what it seems to.

    Args:
        summary: what came of the run.
        config: the scheduler's flags, by vLLM's names.
        derived: what they become.
        columns: those that the trace has.
        acceptance: chance that a draft is accepted, where one was asked for.
    """
    if not summary["passes"]:
        return ["no pass was made, so there is nothing to read from this run; check the trace"]
    seen = Seen(summary, config, derived, columns, acceptance)
    rules = _RULES if seen.tells_limits else _WITHOUT_LIMITS
    return [message for rule in rules for message in rule(seen)]


EQUAL_PRIORITIES: Final = (
    "--scheduling-policy priority orders by arrival here: all requests of the trace have the same "
    "priority; it differs from fcfs in the choice of the victim at most"
)


def warn_sweep(summaries: Sequence[Mapping[str, Any]], *, by_priority: bool = False) -> list[str]:
    """What is to be said of several runs side by side, those that failed left out.

    `by_priority`: one of them at least orders by priority.
    """
    if not summaries:
        return ["no configuration finished, so there is nothing to compare"]
    equal = by_priority and all(each["traffic"]["priorities"] < 2 for each in summaries)  # noqa: PLR2004 (a choice)
    told = [EQUAL_PRIORITIES] if equal else []
    return [*_unlike_work(summaries), *_never_bound(summaries), *told]


def _unlike_work(summaries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cut = [summary["output_tokens_cut"] for summary in summaries]
    if any(cut):
        yield (
            "requests end before they have all output tokens that the trace asks for, by "
            f"{number(min(cut))} to {counted(max(cut), 'token')} a configuration; these are not "
            "the same work: raise --max-model-len, or leave such requests out with --too-long drop"
            if min(cut) < max(cut)
            else f"in each configuration {counted(cut[0], 'output token')} that the trace asks for "
            "are not generated: raise --max-model-len, or leave such requests out with "
            "--too-long drop"
        )


def _never_bound(summaries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if any(Seen(summary, {}, {}).any_limit_bound for summary in summaries):
        return
    idle = "no limit was ever binding in any configuration, so this comparison means nothing"
    if any(_told(summary) != _told(summaries[0]) for summary in summaries):
        idle += " for the limits; what differs comes from elsewhere"
    yield f"{idle}; raise the load with --speedup, or try lower values"


def _told(summary: Mapping[str, Any]) -> list[Any]:
    """What would differ if anything did."""
    return [summary.get(name) for name in ("makespan_ns", "ttft_ns", "tpot_ns", "e2e_ns")]


def _unfinished(seen: Seen) -> Iterator[str]:
    left = seen.summary["requests_unfinished"]
    if left:
        yield (
            f"{number(left)} requests did not finish and are in no percentile, so latencies look "
            "better than they were; replay the whole trace, or see why with explain --waiting"
        )


def _cut_short(seen: Seen) -> Iterator[str]:
    """What a run leaves out of the work that the trace asks for."""
    if not (cut := seen.summary["requests_cut_short"]):
        return
    missing = counted(seen.summary["output_tokens_cut"], "token")
    first = ", or in a session by the first input's max_tokens" if "chunks" in seen.columns else ""
    yield (
        f"{number(cut)} of {counted(seen.summary['requests'], 'request')} got fewer output tokens "
        f"than the trace asks for, {missing} in all: they end where --max-model-len "
        f"{seen.config['max_model_len']} is full{first}; raise it, or leave such requests out "
        "with --too-long drop"
    )


def _unread(seen: Seen) -> Iterator[str]:
    """What the trace says and no flag asks for: the run is of other traffic than it seems."""
    config = seen.config
    if "spec" in seen.columns and not config["num_speculative_tokens"]:
        yield "the trace has a column spec; without --spec-tokens N no drafts are made to read it"
    if "lora" in seen.columns and config["max_loras"] is None:
        yield "the trace has a column lora; without --max-loras N its adapters limit no pass"
    several = seen.summary["traffic"]["priorities"] > 1
    if "priority" in seen.columns and several and config["policy"] != "priority":
        yield (
            "the trace has a column priority; without --scheduling-policy priority vLLM's order "
            "leaves it aside"
        )


def _nothing_binds(seen: Seen) -> Iterator[str]:
    if not seen.any_limit_bound:
        yield (
            "no limit was ever binding, so a comparison of limits on this trace means nothing; "
            "raise the load with --speedup, or take a busier window with --from and --to"
        )


def _low_rate_head(seen: Seen) -> Iterator[str]:
    traffic = seen.summary["traffic"]
    rate, head = traffic["requests_per_s"], traffic["head_requests_per_s"]
    if rate and head is not None and head < LOW_RATE_HEAD * rate:
        yield (
            f"the first quarter of the trace has {number(head)} requests/s, the whole "
            f"{number(rate)}: its head is idle and pulls every figure down; leave it out with "
            "--from, or at least out of the percentiles with --warmup"
        )


def _few_requests(seen: Seen) -> Iterator[str]:
    n = seen.summary["ttft_ns"]["n"]
    if n < FEW_REQUESTS:
        yield (
            f"the latencies are over {number(n)} requests, and a p99 of fewer than {FEW_REQUESTS} "
            "is little more than their maximum; replay more of the trace"
        )


def _thrash(seen: Seen) -> Iterator[str]:
    share = seen.summary["recomputed_share"]
    if share is not None and share >= HEAVY_RECOMPUTE:
        yield (
            f"{percent(share)} of all tokens scheduled were computed before and thrown away by "
            f"{counted(seen.summary['preempted'], 'preemption')}"
            f"{_remedy(seen)}"
        )


def _remedy(seen: Seen) -> str:
    """What saves preemptions of a cause; a cache reset preempts whatever the limits are."""
    summary = seen.summary
    gate = "" if seen.config["scheduler_reserve_full_isl"] else "--scheduler-reserve-full-isl, "
    by_reset, preempted = summary["preempted_by_reset"], summary["preempted"]
    limits = (
        f"{gate}fewer running requests (--max-num-seqs), more blocks (--num-gpu-blocks) or a "
        "--watermark would save"
    )
    reset = "reset_prefix_cache with preempt in --events"
    if not by_reset:
        return f"; {limits} them"
    if by_reset == preempted:
        return f", all by {reset}: no limit would save them; pause and let requests end before it"
    return f", {number(by_reset)} of them by {reset}; {limits} the others"


def _cancelled(seen: Seen) -> Iterator[str]:
    fit = seen.summary["admissions_cancelled_fit"]
    if fit:
        closed = seen.summary["admission_closed_by_preemption"]
        yield (
            f"{counted(fit, 'time')} a waiting request would have been admitted beside the "
            "preempted ones, had their preemption not closed admission in that pass "
            f"({counted(closed['passes'], 'pass')}, "
            f"{duration(closed['ns'])}); fewer preemptions would remove this too: see "
            "explain --preemptions"
        )


def _idle(seen: Seen) -> Iterator[str]:
    summary = seen.summary
    most = summary["kv"]["used_share_max"]
    if seen.any_limit_bound and most is not None and most < IDLE_POOL:
        yield (
            f"at most {percent(most)} of the KV blocks were ever in use: --num-gpu-blocks was "
            "never binding, and more seats or more traffic would fit"
        )
    if summary["makespan_ns"] and summary["busy_ns"] < RARELY_BUSY * summary["makespan_ns"]:
        busy = percent(summary["busy_ns"] / summary["makespan_ns"])
        yield f"only {busy} of the time was spent in passes; raise the load with --speedup"


def _seats(seen: Seen) -> Iterator[str]:
    seats, most = seen.config["max_num_seqs"], seen.summary["queues"]["running_max"]
    if seen.any_limit_bound and most < seats:
        yield (
            f"--max-num-seqs {number(seats)} was never binding: at most {number(most)} requests "
            f"ran at once, so any value from {number(most)} on gives the same run"
        )


def _inert(seen: Seen) -> Iterator[str]:
    """Flags that were set, and changed nothing on this trace."""
    config, traffic = seen.config, seen.summary["traffic"]
    threshold = seen.derived.get("threshold") or 0
    if threshold and traffic["prompt_tokens_max"] <= threshold:
        yield (
            f"the long-prefill threshold of {number(threshold)} tokens cut nothing: the longest "
            f"prompt has {number(traffic['prompt_tokens_max'])}"
        )
    if config["policy"] == "priority" and traffic["priorities"] < 2:  # noqa: PLR2004 (a choice)
        yield (EQUAL_PRIORITIES)
    if config["max_loras"] is not None and not traffic["loras"]:
        yield "--max-loras is inert: no request of the trace needs an adapter"
    if config["watermark"] and not seen.stopped_by("kv_blocks_short_watermark"):
        yield f"--watermark {config['watermark']} never kept a request out"
    if not config["num_speculative_tokens"]:
        drafting = {"--spec-method": config["spec_method"], "--spec-acceptance": seen.acceptance}
        for flag, value in drafting.items():
            if value not in (None, DEFAULT_SPEC_METHOD):
                yield f"{flag} {value} is inert: there are no drafts without --spec-tokens N"
    if config["kv_role"] is None and config["kv_load_failure_policy"] != DEFAULT_FAILURE_POLICY:
        yield (
            f"--kv-load-failure-policy {config['kv_load_failure_policy']} is inert: the trace has "
            "no column remote_kv, and no --kv-role is given"
        )


def _cache(seen: Seen) -> Iterator[str]:
    if seen.config["enable_prefix_caching"] and not seen.summary["prefix_hit_tokens"]:
        yield (
            "the prefix cache was on and never hit: no two prompts of the trace share a block of "
            f"{seen.config['block_size']} tokens, or the trace has no prefix identity (hash_ids)"
        )


_RULES: Final[tuple[Callable[[Seen], Iterator[str]], ...]] = (
    _unfinished,
    _cut_short,
    _unread,
    _nothing_binds,
    _low_rate_head,
    _few_requests,
    _thrash,
    _cancelled,
    _idle,
    _seats,
    _inert,
    _cache,
)

_WITHOUT_LIMITS: Final = (
    _unfinished,
    _cut_short,
    _unread,
    _low_rate_head,
    _few_requests,
    _thrash,
    _cache,
)
"""The rules that ask nothing about limits and verdicts."""
