"""Combinations of flags that vLLM refuses, release by release."""

from __future__ import annotations

from dataclasses import fields
from operator import index
from typing import TYPE_CHECKING

from schedbench.bounds import COUNT, SHARE_BELOW_ONE, SOME, Bounds
from schedbench.errors import UsageError
from schedbench.sched.behaviours import releases_with, releases_without

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig

CHOICES: dict[str, tuple[str | None, ...]] = {
    "policy": ("fcfs", "priority"),
    "spec_method": ("ngram", "eagle", "eagle3", "mtp", "draft_model"),
    "kv_role": (None, "kv_producer", "kv_consumer", "kv_both"),
    "kv_load_failure_policy": ("fail", "recompute"),
}
MOST_BLOCKS = 100_000_000
"""1.6 billion tokens in blocks of 16. The free queue of such a pool takes some 1 GB here."""

MOST_STAGES = 1024
"""Each stage is a pass in flight, whose state is kept."""

MOST_DRAFTS = 1024
"""Each draft is drawn."""

RANGES: dict[str, Bounds] = {
    "max_num_batched_tokens": SOME,
    "max_num_scheduled_tokens": COUNT,
    "max_num_seqs": SOME,
    "max_num_active_seqs": SOME,
    "max_model_len": SOME,
    "long_prefill_token_threshold": COUNT,
    "max_num_partial_prefills": SOME,
    "max_long_partial_prefills": SOME,
    "prefill_schedule_interval": SOME,
    "num_gpu_blocks": Bounds(1, MOST_BLOCKS),
    "block_size": SOME,
    "watermark": SHARE_BELOW_ONE,
    "max_loras": SOME,
    "pipeline_parallel_size": Bounds(1, MOST_STAGES),
    "num_speculative_tokens": Bounds(0, MOST_DRAFTS),
    "mtp_layers": Bounds(1, MOST_DRAFTS),
    "max_num_encoder_input_tokens": COUNT,
    "encoder_cache_size": COUNT,
}
"""Every number among the flags, with what it may be in any release."""

WHY_ABSENT = {
    "prefill_schedule_interval": "heeds it with data parallelism only",
}
"""What a release says of a flag that it has and that does nothing here."""


def check(config: SchedulerConfig) -> None:
    """Refuse what vLLM refuses. Raises UsageError that names flags, values and the way out."""
    _flags_of_the_release(config)
    _ranges(config)
    _combinations(config)
    if config.num_speculative_tokens:
        _speculation(config)


def _flags_of_the_release(config: SchedulerConfig) -> None:
    """Refuse flags that the release does not have, naming the releases that do."""
    for flag in fields(config):
        value = getattr(config, flag.name)
        needs, gone_with = flag.metadata["needs"], flag.metadata["gone_with"]
        if value == flag.default:
            continue
        if needs and not getattr(config.behaviour, needs):
            having = releases_with(needs)
        elif gone_with and getattr(config.behaviour, gone_with):
            having = releases_without(gone_with)
        else:
            continue
        why = WHY_ABSENT.get(flag.name, "has no such flag")
        raise UsageError(
            f"{_option(config, flag.name)} is {value}: vLLM {config.vllm_version} {why}; "
            f"{_listed(having)} (--vllm-version)"
        )


def _listed(releases: list[str]) -> str:
    *others, last = releases
    return f"{', '.join(others)} and {last} have it" if others else f"{last} has it"


def _ranges(config: SchedulerConfig) -> None:
    for name, bounds in RANGES.items():
        value = getattr(config, name)
        if value is None:
            continue
        if name != "watermark":
            try:
                value = index(value)  # also where it is one of numpy's
            except TypeError as error:
                raise UsageError(
                    f"{_option(config, name)} is {value!r}: it is a whole number {bounds}"
                ) from error
            object.__setattr__(config, name, value)
        least = name == "max_num_scheduled_tokens" and config.behaviour.config_scheduled_min
        (SOME if least else bounds).check(value, _option(config, name))
    for name, known in CHOICES.items():
        if (value := getattr(config, name)) not in known:
            choices = ", ".join(str(each) for each in known if each is not None)
            raise UsageError(f"{_option(config, name)} is {value!r}: choose {choices}")


def _combinations(config: SchedulerConfig) -> None:
    batched, length = config.max_num_batched_tokens, config.max_model_len
    if not config.chunked_prefill and batched < length:
        raise UsageError(
            f"no chunked prefill with --max-num-batched-tokens {batched} below --max-model-len "
            f"{length}: a longer prompt could never be scheduled, so vLLM refuses it; raise the "
            "first or lower the second"
        )
    if batched < config.max_num_seqs:
        raise UsageError(
            f"--max-num-batched-tokens {batched} is below --max-num-seqs {config.max_num_seqs}: "
            "vLLM refuses it; raise the first or lower the second"
        )
    if config.seats > config.max_num_seqs:
        raise UsageError(
            f"--max-num-active-seqs {config.seats} exceeds --max-num-seqs {config.max_num_seqs}: "
            "vLLM refuses it; lower the first or raise the second"
        )
    _thresholds(config)


def _thresholds(config: SchedulerConfig) -> None:
    partial, long_partial = config.max_num_partial_prefills, config.max_long_partial_prefills
    if partial > 1 and not config.chunked_prefill:
        raise UsageError("--max-num-partial-prefills above 1 needs --enable-chunked-prefill")
    is_capped = config.behaviour.config_threshold_max or partial > 1
    if is_capped and config.threshold > config.max_model_len:
        with_what = " with --max-num-partial-prefills above 1" if partial > 1 else ""
        raise UsageError(
            f"--long-prefill-token-threshold {config.threshold} exceeds --max-model-len "
            f"{config.max_model_len}: vLLM {config.vllm_version} refuses it{with_what}"
        )
    if long_partial > partial:
        raise UsageError(
            f"--max-long-partial-prefills {long_partial} exceeds --max-num-partial-prefills "
            f"{partial}: vLLM refuses it"
        )


def _speculation(config: SchedulerConfig) -> None:
    """Refuse drafters that leave no room; how they take room depends on the release."""
    batched, method = config.max_num_batched_tokens, config.spec_method
    if config.behaviour.draft_slots:
        if batched <= config.lookahead_tokens:
            raise UsageError(
                f"--max-num-batched-tokens {batched} does not hold a token beside the "
                f"{config.lookahead_tokens} that --spec-method {method} looks ahead: vLLM "
                "refuses it; raise it or lower --num-speculative-tokens"
            )
    else:
        _draft_slots_set_aside(config)
    reach = config.prefill_lookahead_tokens
    if reach > config.block_size and config.enable_prefix_caching:
        raise UsageError(
            f"--block-size {config.block_size} is below the {reach} tokens that several MTP "
            "modules read ahead: vLLM refuses it with prefix caching; raise it or give "
            "--no-enable-prefix-caching"
        )


def _draft_slots_set_aside(config: SchedulerConfig) -> None:
    batched, taken = config.max_num_batched_tokens, config.draft_slots * config.max_num_seqs
    if config.token_budget <= 0:
        raise UsageError(
            f"--spec-method {config.spec_method} takes {taken} slots of --max-num-batched-tokens "
            f"{batched}: nothing is left to schedule; raise it or lower --max-num-seqs"
        )
    if batched < config.token_budget + taken:
        raise UsageError(
            f"--max-num-scheduled-tokens {config.token_budget} and {taken} draft slots exceed "
            f"--max-num-batched-tokens {batched}: vLLM refuses it with speculative decoding"
        )


def _option(config: SchedulerConfig, name: str) -> str:
    flag = next(each for each in fields(config) if each.name == name)
    return str(flag.metadata["option"]) or "--" + name.replace("_", "-")
