"""What a configuration says about itself: the numbers it becomes, and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.sched.inert import inert_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.sched.config import SchedulerConfig

LOW_SPEC_BUDGET = 8192  # vLLM 0.26.0 config/vllm.py, line 1717


@dataclass(frozen=True, slots=True)
class Derived:
    """A number the scheduler works with, and how it came about."""

    name: str
    value: int
    formula: str
    read_in: str


def derived(config: SchedulerConfig) -> list[Derived]:
    """The numbers that the flags become, each with its formula."""
    return [
        *_mixture(config),
        Derived("token_budget", config.token_budget, _budget(config), "sched/schedule_pass.py"),
        *_input_budget(config),
        Derived("threshold", config.threshold, _threshold(config), "sched/token_demand.py"),
        Derived(
            "chunked_prefill",
            config.chunked_prefill,
            "enable_chunked_prefill and not is_encoder_decoder",
            "sched/token_demand.py",
        ),
        Derived(
            "passes_in_flight",
            config.passes_in_flight,
            "pipeline_parallel_size if above 1, else 2 if asynchronous, else 1",
            "runner/replay.py",
        ),
        Derived(
            "lookahead_tokens",
            config.lookahead_tokens,
            "num_speculative_tokens where the drafter has a KV cache, else 0",
            "sched/kv_cache/manager.py",
        ),
        Derived(
            "encoder_budget",
            config.encoder_budget,
            "max_num_encoder_input_tokens, or max_num_batched_tokens",
            "sched/running_loop.py, sched/admission_loop.py",
        ),
        Derived(
            "encoder_cache_embeds",
            config.encoder_cache_embeds,
            "encoder_cache_size, or max_num_batched_tokens",
            "sched/encoder_cache.py",
        ),
        *_blocks(config),
    ]


def _mixture(config: SchedulerConfig) -> Iterator[Derived]:
    """Mark a mixture; no release decides like one."""
    if switches := config.switched:
        formula = f"a mixture, no release: {config.vllm_version} with {', '.join(switches)}"
        yield Derived("behaviours_switched", len(switches), formula, "sched/behaviours.py")


def _budget(config: SchedulerConfig) -> str:
    if config.max_num_scheduled_tokens is not None:
        return "max_num_scheduled_tokens"
    if config.draft_slots and not config.behaviour.draft_slots:
        return "max_num_batched_tokens - draft_slots (1) * max_num_seqs"
    return "max_num_batched_tokens"


def _input_budget(config: SchedulerConfig) -> Iterator[Derived]:
    if config.input_budget is not None:
        rows = f", and {config.draft_rows} row for each request scheduled" * config.draft_rows
        formula = f"max_num_batched_tokens, beside the token budget{rows}"
        yield Derived("input_budget", config.input_budget, formula, "sched/schedule_pass.py")


def _threshold(config: SchedulerConfig) -> str:
    if config.is_encoder_decoder or config.threshold == config.long_prefill_token_threshold:
        return "long_prefill_token_threshold"
    return "int(max_model_len * 0.04), because max_num_partial_prefills > 1"


def _blocks(config: SchedulerConfig) -> Iterator[Derived]:
    pool = "sched/kv_cache/block_pool.py"
    yield Derived(
        "watermark_blocks",
        config.watermark_blocks,
        "int(watermark * num_gpu_blocks)",
        "sched/admission_loop.py: headroom_blocks",
    )
    formula = "num_gpu_blocks - 1, block 0 being the null block"
    yield Derived("usable_blocks", config.usable_blocks, formula, pool)
    tokens = config.usable_blocks * config.block_size
    yield Derived("kv_tokens", tokens, "usable_blocks * block_size", pool)


def warnings(config: SchedulerConfig) -> list[str]:
    """What vLLM would warn of, or do otherwise than the flag's name suggests."""
    return [*_of_the_release(config), *_of_the_budget(config), *inert_warnings(config)]


def _of_the_release(config: SchedulerConfig) -> Iterator[str]:
    if switches := config.switched:
        yield (
            f"--behaviour makes a mixture: vLLM {config.vllm_version} with {', '.join(switches)}; "
            "no release decides like this"
        )
    if config.behaviour.config_async and config.pipeline_parallel_size > 1:
        yield (
            f"--pipeline-parallel-size {config.pipeline_parallel_size}: the V2 model runner of "
            f"vLLM {config.vllm_version} spaces decodes over the stages, which is not modelled"
        )


def _of_the_budget(config: SchedulerConfig) -> Iterator[str]:
    scheduled, batched = config.max_num_scheduled_tokens, config.max_num_batched_tokens
    if scheduled is not None and scheduled != batched:
        if config.input_budget is None:
            yield (
                f"--max-num-scheduled-tokens {scheduled} is the token budget; "
                f"--max-num-batched-tokens {batched} does not limit a pass any more"
            )
        elif scheduled > batched:
            yield (
                f"--max-num-scheduled-tokens {scheduled} is never reached: "
                f"--max-num-batched-tokens {batched} limits a pass as well"
            )
    if config.max_num_partial_prefills > 1:
        yield (
            f"--max-num-partial-prefills {config.max_num_partial_prefills} only sets "
            f"--long-prefill-token-threshold (here {config.threshold}); `vllm serve` 0.26 "
            "refuses any value but 1"
        )
    if config.num_speculative_tokens and config.token_budget < LOW_SPEC_BUDGET:
        yield (
            f"the token budget is {config.token_budget} with speculative decoding; vLLM warns "
            f"below {LOW_SPEC_BUDGET}: raise --max-num-batched-tokens"
        )
    if batched > config.max_num_seqs * config.max_model_len:
        yield (
            f"--max-num-batched-tokens {batched} exceeds --max-num-seqs times "
            f"--max-model-len ({config.max_num_seqs * config.max_model_len}): the budget can "
            "never be spent"
        )
    if not config.enable_chunked_prefill:
        yield (
            "--no-enable-chunked-prefill concerns admissions only: a prompt over what is "
            "left of the budget ends admission; with a long-prefill threshold long prompts "
            "are chunked all the same"
        )
