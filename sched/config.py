"""The scheduler's flags: vLLM's names, defaults and derived values.

A flag stands here once: its field, its default, what it does, and where it is read. The command
line, `schedbench config` and the run manifest are made from these fields.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from schedbench.errors import UnsupportedError, UsageError
from schedbench.sched import behaviours as table
from schedbench.sched import config_view, inert
from schedbench.sched.config_checks import RANGES, check

if TYPE_CHECKING:
    from schedbench.sched.config_view import Derived

PARTIAL_PREFILL_SHARE = 0.04  # of max_model_len; vLLM 0.26.0 config/scheduler.py, lines 257-259

__all__ = ["EAGLE_METHODS", "RANGES", "RELEASES", "SchedulerConfig", "option_of", "release_text"]

RELEASES = tuple(table.RELEASES)  # those that are modelled, oldest first

EAGLE_METHODS = ("eagle", "eagle3", "mtp")  # the drafter reads one token ahead of the model


def _flag(
    default: Any,  # noqa: ANN401
    text: str,
    *,
    read_in: str,
    option: str = "",
    needs: str = "",
    gone_with: str = "",
) -> Any:  # noqa: ANN401
    """Declare a flag; `option` is its spelling where it is not the field's name with dashes.

    `needs` is the behaviour without which a release does not have it, `gone_with` the one with
    which it does not.
    """
    facts = {"help": text, "option": option, "read_in": read_in}
    return field(default=default, metadata={**facts, "needs": needs, "gone_with": gone_with})


@dataclass(frozen=True)
class SchedulerConfig:
    """Flags of vLLM that reach its scheduler. Counts are tokens, requests or blocks.

    Defaults that a server derives from its model and its GPU are those of `vllm serve` with
    Llama-3.1-8B on an H100; `Deployment.config` derives them for others.

    Raises:
        UsageError: a value or a combination that vLLM refuses as well.
        UnsupportedError: a combination that vLLM knows and that is not modelled here.
    """

    vllm_version: str = _flag(
        "0.26.0",
        "The release of vLLM that is followed, decision for decision.",
        read_in="sched/behaviours.py: resolve",
    )
    behaviours: str = _flag(
        "",
        "Single behaviours switched for a what-if: threshold-lone=on; several with a +.",
        option="--behaviour",
        read_in="sched/behaviours.py: parse_switches",
    )
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
        read_in="sched/config.py: seats",
    )
    max_num_active_seqs: int | None = _flag(
        None,
        "Most requests running at once where that is fewer than --max-num-seqs.",
        read_in="sched/config.py: seats",
        needs="active_cap",
    )
    max_model_len: int = _flag(
        131072,
        "Longest sequence, prompt and output together, in tokens.",
        read_in="sched/token_demand.py: of_running; sched/fold.py: stop_status",
    )
    long_prefill_token_threshold: int = _flag(
        0,
        "Most tokens one request gets in a pass; 0 means no cap. Also cuts running requests.",
        read_in="sched/token_demand.py: threshold_of_pass",
    )
    long_prefill_token_threshold_adaptive: bool = _flag(
        False,
        "Never cut below the batched tokens divided by the requests running and waiting.",
        read_in="sched/token_demand.py: threshold_of_pass",
        needs="threshold_adaptive",
    )
    max_num_partial_prefills: int = _flag(
        1,
        "Above 1 it only sets a default for --long-prefill-token-threshold.",
        read_in="sched/config.py: threshold",
        gone_with="config_partial_prefills",
    )
    max_long_partial_prefills: int = _flag(
        1,
        "Read by nothing in the scheduler; vLLM checks it against --max-num-partial-prefills.",
        read_in="sched/config_checks.py: _combinations",
        gone_with="config_partial_prefills",
    )
    prefill_schedule_interval: int = _flag(
        1,
        "Put prefill off between every so many passes while something decodes; 1 means never.",
        read_in="sched/config.py: prefill_interval",
        needs="prefill_interval",
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
    mtp_layers: int | None = _flag(
        None,
        "Modules of an mtp drafter, each of which reads one token further ahead.",
        read_in="sched/config.py: prefill_lookahead_tokens",
        needs="mtp_lookahead",
    )
    disable_eagle_block_drop: bool = _flag(
        False,
        "Keep the last block of a prefix hit although the drafter's KV in it may be stale.",
        read_in="sched/config.py: hash_lookahead_tokens, drops_last_block",
        needs="config_eagle_drop",
    )
    disable_lookahead_block_hashes: bool = _flag(
        False,
        "Give up the last block of a hit instead of hashing what the drafter reads after it.",
        read_in="sched/config.py: hash_lookahead_tokens",
        needs="lookahead_hash",
    )
    kv_role: Literal["kv_producer", "kv_consumer", "kv_both"] | None = _flag(
        None,
        "Role of the KV connector; none if there is no connector.",
        read_in="sched/config.py: defers_frees, must_hand_kv_on; sched/kv_connector.py",
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
        check(self)

    @cached_property
    def behaviour(self) -> table.Behaviours:
        """What the release does, with the switches of a mixture."""
        return self._resolved

    @property
    def _resolved(self) -> table.Behaviours:
        return table.resolve(self.vllm_version, self.behaviours)

    def refuse_what_the_engine_refuses(self) -> None:
        """Refuse what the scheduler's class would take and `vllm serve` does not.

        Raises:
            UsageError: asynchronous scheduling with a drafter that does not allow it.
        """
        if self.behaviour.config_async or not self.async_scheduling:
            return
        if self.num_speculative_tokens and self.spec_method == "ngram":
            raise UsageError(
                f"--async-scheduling with --spec-method ngram: vLLM {self.vllm_version} refuses "
                "it; leave out --async-scheduling (it is off by default then) or choose another "
                "method"
            )

    @cached_property
    def token_budget(self) -> int:
        """Tokens a pass may schedule."""
        if self.max_num_scheduled_tokens is not None:
            return self.max_num_scheduled_tokens
        if self.behaviour.draft_slots:
            return self.max_num_batched_tokens
        return self.max_num_batched_tokens - self.draft_slots * self.max_num_seqs

    @cached_property
    def input_budget(self) -> int | None:
        """Tokens and draft rows a pass may feed to the model; None if nothing limits them apart."""
        return self.max_num_batched_tokens if self.behaviour.input_budget else None

    @property
    def tokens_of_pass(self) -> int:
        """Tokens a pass can hold, whichever budget says so; draft rows apart."""
        budget = self.input_budget
        return self.token_budget if budget is None else min(self.token_budget, budget)

    @property
    def draft_slots(self) -> int:
        """Rows a drafter adds to the batch for each sequence (vLLM 0.26.0 config/vllm.py 1689)."""
        return int(self.num_speculative_tokens > 0 and self.spec_method == "draft_model")

    @cached_property
    def draft_rows(self) -> int:
        """Rows of the input budget that a scheduled request takes beside its tokens."""
        return self.draft_slots if self.behaviour.draft_slots else 0

    @cached_property
    def seats(self) -> int:
        """Most requests running at once, sessions that wait for input among them."""
        given = self.max_num_active_seqs if self.behaviour.active_cap else None
        return self.max_num_seqs if given is None else given

    @property
    def prefill_interval(self) -> int:
        """Passes from one with prefill to the next, while something decodes; 1 means no limit."""
        return self.prefill_schedule_interval if self.behaviour.prefill_interval else 1

    @cached_property
    def lookahead_tokens(self) -> int:
        """Slots allocated beyond a request's tokens, for a drafter with a KV cache."""
        return 0 if self.spec_method == "ngram" else self.num_speculative_tokens

    @cached_property
    def uses_eagle(self) -> bool:
        """Whether the drafter reads tokens ahead of the model."""
        return self.num_speculative_tokens > 0 and self.spec_method in EAGLE_METHODS

    @cached_property
    def prefill_lookahead_tokens(self) -> int:
        """Known tokens past a chunk that the drafter reads: one, or one for each MTP module."""
        if not self.uses_eagle:
            return 0
        return max(1, self.several_mtp_modules)

    @cached_property
    def several_mtp_modules(self) -> int:
        """Known tokens that the modules of an mtp drafter read, if there are several; else 0."""
        layers = 1 if self.mtp_layers is None else self.mtp_layers
        modules = min(layers, self.num_speculative_tokens)
        several = self.behaviour.mtp_lookahead and self.spec_method == "mtp" and modules > 1
        return self.num_speculative_tokens if several else 0

    @cached_property
    def hash_lookahead_tokens(self) -> int:
        """Tokens after a block that its hash covers, so that a hit need not give up a block."""
        plain = self.disable_lookahead_block_hashes or self.disable_eagle_block_drop
        if not self.behaviour.lookahead_hash or plain or self.kv_role is not None:
            return 0
        return self.prefill_lookahead_tokens if self.enable_prefix_caching else 0

    @cached_property
    def uncacheable_tokens(self) -> int:
        """Last computed tokens whose KV several MTP modules may write again."""
        return max(self.prefill_lookahead_tokens - 1, 0)

    @cached_property
    def drops_last_block(self) -> bool:
        """Whether a prefix hit gives up its last block, where the drafter's KV may be stale."""
        kept = self.disable_eagle_block_drop or self.hash_lookahead_tokens > 0
        return self.uses_eagle and not kept

    @cached_property
    def encoder_shift(self) -> int:
        """Tokens the drafter looks past a chunk, so that an encoder item counts as reached."""
        return self.prefill_lookahead_tokens

    @cached_property
    def spec_step_tokens(self) -> int:
        """Slots of a step with drafts that a load leaves free for itself and for each prefill."""
        if not self.behaviour.spec_reserve or not self.num_speculative_tokens:
            return 0
        return 1 + self.num_speculative_tokens + self.lookahead_tokens

    @cached_property
    def runs_ahead(self) -> bool:
        """Asynchronous scheduling: as told, else on unless something does not allow it."""
        if self.async_scheduling is not None:
            return self.async_scheduling
        if self.behaviour.config_pipeline_sync and self.pipeline_parallel_size > 1:
            return False
        return not self.num_speculative_tokens or self._drafter_runs_ahead

    @property
    def _drafter_runs_ahead(self) -> bool:
        """Whether asynchronous scheduling is the default with this drafter."""
        if self.spec_method == "draft_model" and self.behaviour.config_draft_model_async:
            return True
        return self.behaviour.config_async or self.spec_method in EAGLE_METHODS

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
    def must_hand_kv_on(self) -> bool:
        """Whether a connector of this role has to deliver the KV of what it lets go of."""
        return self.kv_role in ("kv_producer", "kv_both")

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

    @property
    def switched(self) -> list[str]:
        """What a mixture does otherwise than its release; empty if it is none."""
        return table.switched(self.vllm_version, self._resolved)

    @property
    def release(self) -> str:
        """The release that is followed, in words; a mixture is called one."""
        return release_text(self.vllm_version, self.behaviours)

    def derived(self) -> list[Derived]:
        """The numbers that the flags become, each with its formula."""
        return config_view.derived(self)

    def inert(self) -> dict[str, str]:
        """Flags that change nothing in this configuration, each with the reason."""
        return inert.inert_flags(self)

    def inert_warnings(self) -> list[str]:
        """A sentence for each of them that does not stand at its default."""
        return list(inert.inert_warnings(self))

    def warnings(self) -> list[str]:
        """What vLLM would warn of, or do otherwise than the flag's name suggests."""
        return config_view.warnings(self)

    def as_dict(self) -> dict[str, Any]:
        """All flags by vLLM's names, for the manifest."""
        return asdict(self)


def release_text(version: str, switches: str = "") -> str:
    """Whose decisions these are, as every summary says it. Raises UsageError for none."""
    return table.described(version, table.resolve(version, switches))


def option_of(name: str) -> str:
    """Command-line spelling of a flag, as `vllm serve` has it."""
    for known in fields(SchedulerConfig):
        if known.name == name:
            return str(known.metadata["option"]) or "--" + name.replace("_", "-")
    raise UnsupportedError(f"{name} is not a scheduler flag")
