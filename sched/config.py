"""The scheduler's flags: vLLM's names, defaults, derived values and refusals.

A flag stands here once: its field, its default, what it does, and where it is read. The command
line, `schedbench config` and the run manifest are made from these fields.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

from schedbench.errors import UnsupportedError, UsageError

LOW_SPEC_BUDGET = 8192  # vLLM 0.26.0 config/vllm.py, line 1717
PARTIAL_PREFILL_SHARE = 0.04  # of max_model_len; vLLM 0.26.0 config/scheduler.py, lines 257-259

SPEC_METHODS = ("ngram", "eagle", "eagle3", "mtp", "draft_model")
EAGLE_METHODS = ("eagle", "eagle3", "mtp")  # the drafter reads one token ahead of the model
CHOICES: dict[str, tuple[str | None, ...]] = {
    "policy": ("fcfs", "priority"),
    "spec_method": SPEC_METHODS,
    "kv_role": (None, "kv_producer", "kv_consumer", "kv_both"),
    "kv_load_failure_policy": ("fail", "recompute"),
}


def _flag(default: Any, text: str, *, option: str = "", read_in: str) -> Any:  # noqa: ANN401
    """Declare a flag; `option` is its spelling where it is not the field's name with dashes."""
    return field(default=default, metadata={"help": text, "option": option, "read_in": read_in})


@dataclass(frozen=True, slots=True)
class Derived:
    """A number the scheduler works with, and how it came about."""

    name: str
    value: int
    formula: str
    read_in: str


@dataclass(frozen=True)
class SchedulerConfig:
    """Flags of vLLM 0.26.0 that reach its scheduler. Counts are tokens, requests or blocks.

    Defaults that a server derives from its model and its GPU are those of `vllm serve` with
    Llama-3.1-8B on an H100; `Deployment.config` derives them for others.

    Raises:
        UsageError: a value or a combination that vLLM refuses as well.
        UnsupportedError: a combination that vLLM knows and that is not modelled here.
    """

    max_num_batched_tokens: int = _flag(
        8192,
        "Most tokens in one pass (the token budget).",
        read_in="sched/config.py: token_budget",
    )
    max_num_scheduled_tokens: int | None = _flag(
        None,
        "Token budget if given; outranks --max-num-batched-tokens, in either direction.",
        read_in="sched/config.py: token_budget",
    )
    max_num_seqs: int = _flag(
        1024,
        "Most requests running at once (seats).",
        read_in="sched/admission_loop.py: admit_waiting",
    )
    max_model_len: int = _flag(
        131072,
        "Longest sequence, prompt and output together, in tokens.",
        read_in="sched/token_demand.py: of_running; sched/fold.py: stop_status",
    )
    long_prefill_token_threshold: int = _flag(
        0,
        "Most tokens one request gets in a pass; 0 means no cap. Also cuts running requests.",
        read_in="sched/token_demand.py: of_running, of_waiting",
    )
    max_num_partial_prefills: int = _flag(
        1,
        "Above 1 it only sets a default for --long-prefill-token-threshold.",
        read_in="sched/config.py: threshold",
    )
    max_long_partial_prefills: int = _flag(
        1,
        "Read by nothing in the scheduler; vLLM checks it against --max-num-partial-prefills.",
        read_in="sched/config.py: __post_init__",
    )
    enable_chunked_prefill: bool = _flag(
        True,
        "Split a prompt over passes when it exceeds what is left of the budget.",
        read_in="sched/token_demand.py: of_waiting",
    )
    policy: Literal["fcfs", "priority"] = _flag(
        "fcfs",
        "Order of the waiting queue and choice of the victim.",
        option="--scheduling-policy",
        read_in="sched/request_queue.py: create_request_queue; sched/preemption.py: pick_victim",
    )
    num_gpu_blocks: int = _flag(
        28448,
        "Blocks in the KV pool, the null block included.",
        option="--num-gpu-blocks-override",
        read_in="sched/kv_cache/block_pool.py: BlockPool",
    )
    block_size: int = _flag(
        16,
        "Tokens in a KV block.",
        read_in="sched/kv_cache/manager.py: KVCacheManager",
    )
    enable_prefix_caching: bool = _flag(
        True,
        "Let requests with equal beginnings share computed blocks.",
        read_in="sched/kv_cache/manager.py: get_computed_blocks, cache_blocks",
    )
    scheduler_reserve_full_isl: bool = _flag(
        True,
        "Admit only what fits with its whole known sequence, not just its first chunk.",
        read_in="sched/kv_cache/manager.py: shortage",
    )
    watermark: float = _flag(
        0.0,
        "Share of the pool that must stay free when a request is admitted.",
        read_in="sched/config.py: watermark_blocks",
    )
    max_loras: int | None = _flag(
        None,
        "Most different LoRA adapters in one pass; none if LoRA is off.",
        read_in="sched/lora.py: slots_full",
    )

    async_scheduling: bool | None = _flag(
        None,
        "Schedule a pass while the one before is in flight; by default on where vLLM allows it.",
        read_in="sched/config.py: runs_ahead; sched/async_mode.py",
    )
    pipeline_parallel_size: int = _flag(
        1,
        "Pipeline stages: as many passes are in flight at once.",
        read_in="sched/config.py: passes_in_flight",
    )
    num_speculative_tokens: int = _flag(
        0,
        "Draft tokens proposed for each decode; 0 means no speculation.",
        read_in="sched/spec_decode.py; sched/config.py: lookahead_tokens",
    )
    spec_method: Literal["ngram", "eagle", "eagle3", "mtp", "draft_model"] = _flag(
        "ngram",
        "What proposes the drafts; all but ngram have a KV cache of their own.",
        read_in="sched/config.py: lookahead_tokens, uses_eagle, draft_slots",
    )
    kv_role: Literal["kv_producer", "kv_consumer", "kv_both"] | None = _flag(
        None,
        "Role of the KV connector; none if there is no connector.",
        read_in="sched/config.py: defers_frees; sched/kv_connector.py",
    )
    kv_load_failure_policy: Literal["fail", "recompute"] = _flag(
        "fail",
        "What becomes of a request whose remote KV did not arrive.",
        read_in="sched/kv_connector.py: failed_loads",
    )
    max_num_encoder_input_tokens: int | None = _flag(
        None,
        "Most multi-modal embeddings encoded in one pass; by default the batched tokens.",
        read_in="sched/config.py: encoder_budget",
    )
    encoder_cache_size: int | None = _flag(
        None,
        "Embeddings the encoder cache holds; by default the batched tokens.",
        read_in="sched/config.py: encoder_cache_embeds",
    )
    disable_chunked_mm_input: bool = _flag(
        False,
        "Never split a multi-modal item over two passes.",
        read_in="sched/encoder_cache.py: fit_inputs",
    )
    is_encoder_decoder: bool = _flag(
        False,
        "An encoder-decoder model: vLLM turns chunked prefill and the threshold off.",
        read_in="sched/config.py: chunked_prefill, threshold",
    )

    def __post_init__(self) -> None:
        self._check_ranges()
        self._check_combinations()

    def _check_ranges(self) -> None:
        least = {
            "max_num_batched_tokens": 1,
            "max_num_scheduled_tokens": 0,
            "max_num_seqs": 1,
            "max_model_len": 1,
            "long_prefill_token_threshold": 0,
            "max_num_partial_prefills": 1,
            "max_long_partial_prefills": 1,
            "num_gpu_blocks": 1,
            "block_size": 1,
            "max_loras": 1,
            "pipeline_parallel_size": 1,
            "num_speculative_tokens": 0,
            "max_num_encoder_input_tokens": 0,
            "encoder_cache_size": 0,
        }
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise UsageError(f"{option_of(name)} is {value}: it must be at least {lowest}")
        if not 0.0 <= self.watermark < 1.0:
            raise UsageError(
                f"--watermark is {self.watermark}: it is a share of the pool, from 0 to below 1"
            )
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                choices = ", ".join(str(each) for each in known if each is not None)
                raise UsageError(f"{option_of(name)} is {getattr(self, name)!r}: choose {choices}")

    def _check_combinations(self) -> None:
        if not self.chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise UsageError(
                f"no chunked prefill with --max-num-batched-tokens "
                f"{self.max_num_batched_tokens} below --max-model-len {self.max_model_len}: "
                "a longer prompt could never be scheduled, so vLLM refuses it; raise the first "
                "or lower the second"
            )
        self._check_speculation()
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise UsageError(
                f"--max-num-batched-tokens {self.max_num_batched_tokens} is below "
                f"--max-num-seqs {self.max_num_seqs}: vLLM refuses it; raise the first or "
                "lower the second"
            )
        if self.max_num_partial_prefills > 1 and not self.chunked_prefill:
            raise UsageError("--max-num-partial-prefills above 1 needs --enable-chunked-prefill")
        if self.max_num_partial_prefills > 1 and self.threshold > self.max_model_len:
            raise UsageError(
                f"--long-prefill-token-threshold {self.threshold} exceeds --max-model-len "
                f"{self.max_model_len}: vLLM refuses it with --max-num-partial-prefills above 1"
            )
        if self.max_long_partial_prefills > self.max_num_partial_prefills:
            raise UsageError(
                f"--max-long-partial-prefills {self.max_long_partial_prefills} exceeds "
                f"--max-num-partial-prefills {self.max_num_partial_prefills}: vLLM refuses it"
            )

    def _check_speculation(self) -> None:
        if not self.num_speculative_tokens:
            return
        taken = self.draft_slots * self.max_num_seqs
        if self.token_budget <= 0:
            raise UsageError(
                f"--spec-method {self.spec_method} takes {taken} slots of "
                f"--max-num-batched-tokens {self.max_num_batched_tokens}: nothing is left to "
                "schedule; raise it or lower --max-num-seqs"
            )
        if self.max_num_batched_tokens < self.token_budget + taken:
            raise UsageError(
                f"--max-num-scheduled-tokens {self.token_budget} and {taken} draft slots exceed "
                f"--max-num-batched-tokens {self.max_num_batched_tokens}: vLLM refuses it with "
                "speculative decoding"
            )

    def refuse_what_the_engine_refuses(self) -> None:
        """Refuse what the scheduler's class would take and `vllm serve` does not.

        Raises:
            UsageError: asynchronous scheduling with a drafter that does not allow it.
        """
        if self.async_scheduling and self.num_speculative_tokens and self.spec_method == "ngram":
            raise UsageError(
                "--async-scheduling with --spec-method ngram: vLLM 0.26.0 refuses it; leave out "
                "--async-scheduling (it is off by default then) or choose another method"
            )

    @cached_property
    def token_budget(self) -> int:
        """Tokens a pass may schedule."""
        if self.max_num_scheduled_tokens is not None:
            return self.max_num_scheduled_tokens
        return self.max_num_batched_tokens - self.draft_slots * self.max_num_seqs

    @property
    def draft_slots(self) -> int:
        """Rows a drafter adds to the batch for each sequence (vLLM 0.26.0 config/vllm.py 1689)."""
        return int(self.num_speculative_tokens > 0 and self.spec_method == "draft_model")

    @cached_property
    def lookahead_tokens(self) -> int:
        """Slots allocated beyond a request's tokens, for a drafter with a KV cache."""
        return 0 if self.spec_method == "ngram" else self.num_speculative_tokens

    @cached_property
    def uses_eagle(self) -> bool:
        """Whether the drafter reads one token ahead: a prefix hit then gives up its last block."""
        return self.num_speculative_tokens > 0 and self.spec_method in EAGLE_METHODS

    @cached_property
    def encoder_shift(self) -> int:
        """Tokens the drafter looks past a chunk, so that an encoder item counts as reached."""
        return int(self.uses_eagle)

    @cached_property
    def runs_ahead(self) -> bool:
        """Asynchronous scheduling: as told, else on unless the drafter does not allow it."""
        if self.async_scheduling is not None:
            return self.async_scheduling
        return not self.num_speculative_tokens or self.spec_method in EAGLE_METHODS

    @property
    def passes_in_flight(self) -> int:
        """Passes scheduled before the oldest is folded in."""
        if self.pipeline_parallel_size > 1:
            return self.pipeline_parallel_size
        return 2 if self.runs_ahead else 1

    @property
    def defers_frees(self) -> bool:
        """Whether blocks return only when no pass in flight can write them any more."""
        return self.kv_role in ("kv_consumer", "kv_both") and self.passes_in_flight > 1

    @property
    def encoder_budget(self) -> int:
        """Embeddings encoded in one pass at most."""
        given = self.max_num_encoder_input_tokens
        return self.max_num_batched_tokens if given is None else given

    @property
    def encoder_cache_embeds(self) -> int:
        """Embeddings the encoder cache holds."""
        given = self.encoder_cache_size
        return self.max_num_batched_tokens if given is None else given

    @cached_property
    def chunked_prefill(self) -> bool:
        """Whether prompts are split over passes; never for encoder-decoder models."""
        return self.enable_chunked_prefill and not self.is_encoder_decoder

    @cached_property
    def threshold(self) -> int:
        """Cap on one request's tokens in a pass; 0 means none."""
        if self.is_encoder_decoder:
            return 0
        if self.long_prefill_token_threshold == 0 and self.max_num_partial_prefills > 1:
            return int(self.max_model_len * PARTIAL_PREFILL_SHARE)
        return self.long_prefill_token_threshold

    @cached_property
    def watermark_blocks(self) -> int:
        """Blocks that must stay free at an admission; the null block counts in the share."""
        return int(self.watermark * self.num_gpu_blocks)

    @property
    def usable_blocks(self) -> int:
        """Blocks that can hold tokens: all but the null block."""
        return self.num_gpu_blocks - 1

    def derived(self) -> list[Derived]:
        """The numbers that the flags become, each with its formula."""
        scheduled = self.max_num_scheduled_tokens is not None
        budget = "max_num_scheduled_tokens" if scheduled else "max_num_batched_tokens"
        if self.draft_slots and not scheduled:
            budget = "max_num_batched_tokens - draft_slots (1) * max_num_seqs"
        partial = (
            not self.is_encoder_decoder and self.threshold != self.long_prefill_token_threshold
        )
        threshold = (
            "int(max_model_len * 0.04), because max_num_partial_prefills > 1"
            if partial
            else "long_prefill_token_threshold"
        )
        return [
            Derived("token_budget", self.token_budget, budget, "sched/schedule_pass.py"),
            Derived("threshold", self.threshold, threshold, "sched/token_demand.py"),
            Derived(
                "chunked_prefill",
                self.chunked_prefill,
                "enable_chunked_prefill and not is_encoder_decoder",
                "sched/token_demand.py",
            ),
            Derived(
                "passes_in_flight",
                self.passes_in_flight,
                "pipeline_parallel_size if above 1, else 2 if asynchronous, else 1",
                "runner/replay.py",
            ),
            Derived(
                "lookahead_tokens",
                self.lookahead_tokens,
                "num_speculative_tokens where the drafter has a KV cache, else 0",
                "sched/kv_cache/manager.py",
            ),
            Derived(
                "encoder_budget",
                self.encoder_budget,
                "max_num_encoder_input_tokens, or max_num_batched_tokens",
                "sched/running_loop.py, sched/admission_loop.py",
            ),
            Derived(
                "encoder_cache_embeds",
                self.encoder_cache_embeds,
                "encoder_cache_size, or max_num_batched_tokens",
                "sched/encoder_cache.py",
            ),
            Derived(
                "watermark_blocks",
                self.watermark_blocks,
                "int(watermark * num_gpu_blocks)",
                "sched/admission_loop.py: headroom_blocks",
            ),
            Derived(
                "usable_blocks",
                self.usable_blocks,
                "num_gpu_blocks - 1, block 0 being the null block",
                "sched/kv_cache/block_pool.py",
            ),
            Derived(
                "kv_tokens",
                self.usable_blocks * self.block_size,
                "usable_blocks * block_size",
                "sched/kv_cache/block_pool.py",
            ),
        ]

    def warnings(self) -> list[str]:
        """What vLLM would warn of, or do otherwise than the flag's name suggests."""
        found = []
        scheduled, batched = self.max_num_scheduled_tokens, self.max_num_batched_tokens
        if scheduled is not None and scheduled != batched:
            found.append(
                f"--max-num-scheduled-tokens {scheduled} is the token budget; "
                f"--max-num-batched-tokens {batched} does not limit a pass any more"
            )
        if self.max_num_partial_prefills > 1:
            found.append(
                f"--max-num-partial-prefills {self.max_num_partial_prefills} only sets "
                f"--long-prefill-token-threshold (here {self.threshold}); `vllm serve` 0.26 "
                "refuses any value but 1"
            )
        if self.num_speculative_tokens and self.token_budget < LOW_SPEC_BUDGET:
            found.append(
                f"the token budget is {self.token_budget} with speculative decoding; vLLM warns "
                f"below {LOW_SPEC_BUDGET}: raise --max-num-batched-tokens"
            )
        if batched > self.max_num_seqs * self.max_model_len:
            found.append(
                f"--max-num-batched-tokens {batched} exceeds --max-num-seqs times "
                f"--max-model-len ({self.max_num_seqs * self.max_model_len}): the budget can "
                "never be spent"
            )
        if not self.enable_chunked_prefill:
            found.append(
                "--no-enable-chunked-prefill concerns admissions only: a prompt over what is "
                "left of the budget ends admission; with a long-prefill threshold long prompts "
                "are chunked all the same"
            )
        return found

    def as_dict(self) -> dict[str, Any]:
        """All flags by vLLM's names, for the manifest."""
        return asdict(self)


def option_of(name: str) -> str:
    """Command-line spelling of a flag, as `vllm serve` has it."""
    for known in fields(SchedulerConfig):
        if known.name == name:
            return str(known.metadata["option"]) or "--" + name.replace("_", "-")
    raise UnsupportedError(f"{name} is not a scheduler flag")
