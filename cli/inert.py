"""Flags that change nothing in a configuration, each with the reason."""

from collections.abc import Iterator

from schedbench.sched.config import SchedulerConfig


def inert_flags(config: SchedulerConfig) -> dict[str, str]:
    """By field name; of the flags that stand at a value which would do something elsewhere."""
    return dict(_found(config))


def _found(config: SchedulerConfig) -> Iterator[tuple[str, str]]:
    yield "max_long_partial_prefills", "read by nothing in the scheduler"
    if config.max_num_scheduled_tokens is not None:
        yield "max_num_batched_tokens", "--max-num-scheduled-tokens is the budget"
    if config.max_num_partial_prefills == 1:
        yield "max_num_partial_prefills", "1 sets no threshold"
    if config.long_prefill_token_threshold > 0 and config.is_encoder_decoder:
        yield "long_prefill_token_threshold", "an encoder-decoder model has none"
    elif config.long_prefill_token_threshold >= config.token_budget:
        yield "long_prefill_token_threshold", "not below the token budget, so it cuts nothing"
    if config.enable_chunked_prefill and config.is_encoder_decoder:
        yield "enable_chunked_prefill", "an encoder-decoder model is never chunked"
    if config.watermark and not config.watermark_blocks:
        yield "watermark", "less than one block of the pool"
    if not config.num_speculative_tokens:
        yield "spec_method", "--spec-tokens is 0"
    if config.kv_role is None:
        yield "kv_load_failure_policy", "no --kv-role; a trace with remote_kv reads it all the same"
    if config.pipeline_parallel_size > 1 and config.async_scheduling is not None:
        yield "async_scheduling", "the pipeline says how many passes are in flight"
