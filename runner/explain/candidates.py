"""Which flags could let a request in sooner, by the verdict that kept it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schedbench.sched.verdicts import LIMIT_OF, Limit, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schedbench.sched.config import SchedulerConfig

Changes = dict[str, Any]

SOME_MORE, TWICE = 1.25, 2
"""By how much a limit is raised: a quarter more, as people would at first, and twice."""

OUTSIDE: Final = {
    "awaiting_grammar": "its grammar was not compiled yet",
    "awaiting_remote_kv": "its KV was still being loaded",
    "awaiting_input": "its session had no next input yet",
    "stale_output_in_flight": "tokens of before its eviction were still on their way",
    "remote_lookup_pending": "the connector did not know yet what it holds",
    "loading_remote_kv": "its KV was being loaded",
    "paused_all": "the engine was paused",
    "paused_new": "admissions were paused",
    "policy_declined": "the policy of one's own declined it",
    "blocks_short_set_aside": "the policy of one's own set it aside for want of blocks",
}
"""Waits that no flag of the scheduler shortens, and for what."""

_RAISED: Final = frozenset(
    (
        "max_num_seqs",
        "num_gpu_blocks",
        "max_num_batched_tokens",
        "max_num_scheduled_tokens",
        "max_loras",
        "encoder_cache_size",
        "max_num_encoder_input_tokens",
    )
)
"""Limits that are looser the higher they are."""

_FREE: Final = {
    "scheduler_reserve_full_isl": False,
    "watermark": 0.0,
    "enable_chunked_prefill": True,
}
"""The loosest setting of the others."""


def candidates(verdict: str, config: SchedulerConfig, *, is_urgent: bool = False) -> list[Changes]:
    """Changes worth a replay, for a verdict by its label.

    `is_urgent`: the request has a better priority than others, and fcfs does not look at it.
    """
    found = list(_BY_VERDICT.get(verdict, _none)(config))
    if is_urgent and config.policy == "fcfs" and verdict not in OUTSIDE:
        found.insert(0, {"policy": "priority"})
    return found


def loosens(config: SchedulerConfig, changes: Changes) -> bool:
    """Whether changes only raise limits or take them away. Others may help: by holding back."""
    return all(_is_freer(config, name, value) for name, value in changes.items())


def _is_freer(config: SchedulerConfig, name: str, value: float) -> bool:
    if name in _FREE:
        return value == _FREE[name]
    was = getattr(config, name)
    return name in _RAISED and (was is None or value > was)


def _none(config: SchedulerConfig) -> Iterator[Changes]:
    del config
    yield from ()


def _more(config: SchedulerConfig, name: str, *factors: float) -> Iterator[Changes]:
    for factor in factors:
        yield {name: max(int(getattr(config, name) * factor), getattr(config, name) + 1)}


def _seats(config: SchedulerConfig) -> Iterator[Changes]:
    yield from _more(config, "max_num_seqs", SOME_MORE, TWICE)


def _blocks(config: SchedulerConfig) -> Iterator[Changes]:
    yield from _more(config, "num_gpu_blocks", SOME_MORE, TWICE)


def _full_sequence(config: SchedulerConfig) -> Iterator[Changes]:
    yield {"scheduler_reserve_full_isl": False}
    yield from _blocks(config)


def _watermark(config: SchedulerConfig) -> Iterator[Changes]:
    yield {"watermark": 0.0}
    yield from _blocks(config)


def _preemption(config: SchedulerConfig) -> Iterator[Changes]:
    yield from _blocks(config)
    if not config.scheduler_reserve_full_isl:
        yield {"scheduler_reserve_full_isl": True}
    if config.watermark == 0.0:
        yield {"watermark": 0.05}
    yield {"max_num_seqs": max(config.max_num_seqs // 2, 1)}


def _budget(config: SchedulerConfig) -> Iterator[Changes]:
    name = "max_num_batched_tokens"
    if config.max_num_scheduled_tokens is not None:
        name = "max_num_scheduled_tokens"
    yield from _more(config, name, TWICE)
    if not config.threshold:
        yield {"long_prefill_token_threshold": max(config.token_budget // 4, 1)}


def _chunking(config: SchedulerConfig) -> Iterator[Changes]:
    yield {"enable_chunked_prefill": True}
    yield from _budget(config)


def _adapters(config: SchedulerConfig) -> Iterator[Changes]:
    if config.max_loras is not None:
        yield {"max_loras": config.max_loras + 1}
        yield {"max_loras": 2 * config.max_loras}


def _padding(config: SchedulerConfig) -> Iterator[Changes]:
    yield from _budget(config)
    yield {"num_speculative_tokens": 0}


def _encoder(config: SchedulerConfig) -> Iterator[Changes]:
    yield {"encoder_cache_size": TWICE * config.encoder_cache_embeds}
    yield {"max_num_encoder_input_tokens": TWICE * config.encoder_budget}


def _in_flight(config: SchedulerConfig) -> Iterator[Changes]:
    """Waits for the pass in flight: shorter passes, or none scheduled ahead."""
    yield {"max_num_batched_tokens": max(config.max_num_batched_tokens // 2, config.max_num_seqs)}
    if config.runs_ahead:
        yield {"async_scheduling": False}


_BY_LIMIT: Final = {Limit.SEATS: _seats, Limit.KV_BLOCKS: _blocks, Limit.BUDGET: _budget}
_OWN: Final[dict[Verdict, Callable[[SchedulerConfig], Iterator[Changes]]]] = {
    Verdict.KV_BLOCKS_SHORT_FULL_SEQUENCE: _full_sequence,
    Verdict.KV_BLOCKS_SHORT_WATERMARK: _watermark,
    Verdict.CLOSED_BY_PREEMPTION: _preemption,
    Verdict.PROMPT_OVER_BUDGET: _chunking,
    Verdict.LORA_SLOTS_FULL: _adapters,
    Verdict.PADDED_DECODE_UNFIT: _padding,
    Verdict.ENCODER_FULL: _encoder,
}
_BY_VERDICT: Final = {
    "pass_in_flight": _in_flight,
    **{verdict.label: _BY_LIMIT.get(limit, _none) for verdict, limit in LIMIT_OF.items()},
    **{verdict.label: own for verdict, own in _OWN.items()},
}
