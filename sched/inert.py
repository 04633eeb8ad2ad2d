"""Flags that change nothing in a configuration, each with the reason."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.sched.config import SchedulerConfig

WARNED_OF: Final = (
    "max_num_active_seqs",
    "long_prefill_token_threshold",
    "max_long_partial_prefills",
    "watermark",
    "mtp_layers",
    "disable_eagle_block_drop",
    "disable_lookahead_block_hashes",
)
"""Flags that no other warning covers, and that no column of a trace can make effective."""


def inert_warnings(config: SchedulerConfig) -> Iterator[str]:
    """A sentence for each flag that does not stand at its default and changes nothing."""
    found = inert_flags(config)
    for each in fields(config):
        value = getattr(config, each.name)
        if each.name in WARNED_OF and each.name in found and value != each.default:
            option = each.metadata["option"] or "--" + each.name.replace("_", "-")
            text = f"--no{option[1:]}" if value is False else f"{option} {value}"
            text = option if value is True else text
            yield f"{text} is inert: {found[each.name]}"


def inert_flags(config: SchedulerConfig) -> dict[str, str]:
    """By field name; of the flags that stand at a value which would do something elsewhere."""
    return dict(_found(config))


def _found(config: SchedulerConfig) -> Iterator[tuple[str, str]]:
    yield from _of_a_pass(config)
    yield from _of_blocks_and_drafts(config)
    if config.kv_role is None:
        yield "kv_load_failure_policy", "no --kv-role; a trace with remote_kv reads it all the same"
    if config.pipeline_parallel_size > 1 and config.async_scheduling is not None:
        yield "async_scheduling", "the pipeline says how many passes are in flight"


def _of_a_pass(config: SchedulerConfig) -> Iterator[tuple[str, str]]:
    yield "max_long_partial_prefills", "read by nothing in the scheduler"
    if config.max_num_scheduled_tokens is not None:
        yield "max_num_batched_tokens", "--max-num-scheduled-tokens is the budget"
    if config.max_num_active_seqs == config.max_num_seqs:
        yield "max_num_active_seqs", "as many as --max-num-seqs"
    if config.max_num_partial_prefills == 1:
        yield "max_num_partial_prefills", "1 sets no threshold"
    if reason := _of_threshold(config):
        yield "long_prefill_token_threshold", reason
    if config.enable_chunked_prefill and config.is_encoder_decoder:
        yield "enable_chunked_prefill", "an encoder-decoder model is never chunked"


def _of_threshold(config: SchedulerConfig) -> str:
    given = config.long_prefill_token_threshold
    if given > 0 and config.is_encoder_decoder:
        return "an encoder-decoder model has none"
    if given >= config.token_budget:
        return f"it is not below the token budget of {config.token_budget}, so it cuts nothing"
    if given >= config.max_model_len:
        return f"no request is longer than --max-model-len {config.max_model_len}"
    return ""


def _of_blocks_and_drafts(config: SchedulerConfig) -> Iterator[tuple[str, str]]:
    if config.watermark and not config.watermark_blocks:
        yield "watermark", "less than one block of the pool"
    drafter = ("disable_eagle_block_drop", "disable_lookahead_block_hashes")
    if not config.num_speculative_tokens:
        yield "spec_method", "--spec-tokens is 0"
        for name in (*drafter, "mtp_layers"):
            yield name, "there are no drafts without --spec-tokens N"
        return
    if config.spec_method != "mtp":
        yield "mtp_layers", "--spec-method is not mtp"
    if not config.enable_prefix_caching:
        for name in drafter:
            yield name, "there is no prefix cache to read"
