"""Every flag of the scheduler at its edges, and small text traces under them.

A flag that no case ever sets is a flag that two ways through a replay may read differently.
`DRAWN` has them all, so that a new flag fails a test until it is drawn or stands in `LEFT_OUT`.
"""

from __future__ import annotations

from dataclasses import fields
from random import Random
from typing import TYPE_CHECKING, Any, Final

from schedbench.errors import UnsupportedError, UsageError
from schedbench.sched.behaviours import RELEASES, Behaviours
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

HASH_BLOCK: Final = 8
BASE: Final[dict[str, Any]] = {
    "max_num_batched_tokens": 64,
    "max_num_seqs": 5,
    "max_model_len": 160,
    "block_size": 4,
    "num_gpu_blocks": 60,
    "async_scheduling": False,
}
DRAWN: Final[dict[str, tuple[Any, ...]]] = {
    "vllm_version": tuple(sorted(RELEASES)),
    "behaviours": tuple(
        f"{each.name.replace('_', '-')}={word}" for each in fields(Behaviours)
        for word in ("on", "off")
    ),
    "max_num_batched_tokens": (8, 40, 200),
    "max_num_scheduled_tokens": (3, 30, 63, 65, 500),
    "max_num_seqs": (1, 2, 40),
    "max_num_active_seqs": (1, 2, 5),
    "max_model_len": (30, 100),
    "long_prefill_token_threshold": (1, 7, 20, 64),
    "long_prefill_token_threshold_adaptive": (True,),
    "max_num_partial_prefills": (2, 3),
    "max_long_partial_prefills": (2,),
    "prefill_schedule_interval": (2, 5),
    "enable_chunked_prefill": (False,),
    "policy": ("priority",),
    "num_gpu_blocks": (12, 41, 42, 45, 300),
    "block_size": (1, 3, 8, 16, 64),
    "enable_prefix_caching": (False,),
    "scheduler_reserve_full_isl": (False,),
    "watermark": (0.05, 0.3, 0.6),
    "max_loras": (1, 2, 9),
    "async_scheduling": (True,),
    "pipeline_parallel_size": (2, 3),
    "num_speculative_tokens": (1, 4),
    "spec_method": ("eagle", "mtp", "draft_model"),
    "mtp_layers": (1, 2),
    "disable_eagle_block_drop": (True,),
    "disable_lookahead_block_hashes": (True,),
    "kv_role": ("kv_producer", "kv_both"),
    "kv_load_failure_policy": ("recompute",),
    "max_num_encoder_input_tokens": (0, 30),
    "encoder_cache_size": (0, 30),
    "disable_chunked_mm_input": (True,),
}  # fmt: skip
LEFT_OUT: Final[Mapping[str, str]] = {
    "is_encoder_decoder": "text alone is refused by its models",
}
OF_A_FEATURE: Final = [
    "behaviours", "max_loras", "num_speculative_tokens", "spec_method", "mtp_layers",
    "disable_eagle_block_drop", "disable_lookahead_block_hashes", "kv_role",
    "kv_load_failure_policy", "max_num_encoder_input_tokens", "encoder_cache_size",
    "disable_chunked_mm_input",
]  # fmt: skip
OF_TEXT: Final = sorted(set(DRAWN) - set(OF_A_FEATURE) - {"vllm_version"})
TOGETHER: Final = {
    "spec_method": "num_speculative_tokens", "mtp_layers": "num_speculative_tokens",
    "disable_eagle_block_drop": "num_speculative_tokens",
    "disable_lookahead_block_hashes": "num_speculative_tokens",
    "max_long_partial_prefills": "max_num_partial_prefills",
    "long_prefill_token_threshold_adaptive": "long_prefill_token_threshold",
}  # fmt: skip
"""A flag that is about another one, which is then set as well."""


def case(seed: int) -> tuple[Trace, SchedulerConfig]:
    """The trace and the flags of a seed."""
    rng = Random(seed)  # noqa: S311
    while True:
        try:
            return _text(rng), SchedulerConfig(**_flags(rng))
        except (UsageError, UnsupportedError):  # vLLM refuses the flags together: no case
            continue


def _flags(rng: Random) -> dict[str, Any]:
    """One to six flags off their usual values, one of them perhaps of a feature."""
    names = rng.sample(OF_TEXT, rng.randint(1, 5)) + rng.sample(OF_A_FEATURE, rng.random() < 0.3)
    names += [TOGETHER[name] for name in names if name in TOGETHER]
    given = BASE | {"vllm_version": rng.choice(DRAWN["vllm_version"])}
    given |= {name: rng.choice(DRAWN[name]) for name in names}
    if given.get("enable_chunked_prefill") is False:
        given["max_num_batched_tokens"] = 200
    given["max_num_seqs"] = min(given["max_num_seqs"], given["max_num_batched_tokens"])
    return given


def _text(rng: Random) -> Trace:
    """Prompts and answers; perhaps with columns that flags are about."""
    rows = rng.randint(2, 25)

    def some(low: int, high: int) -> list[int]:
        return [rng.randint(low, high) for _ in range(rows)]

    prompts = some(1, rng.choice([6, 90, 140]))
    outputs = some(1, rng.choice([3, 20, 60]))
    columns: dict[str, list[Any]] = {
        "arrival_ns": [0, *sorted(some(0, rng.choice([1, 60_000_000])))[1:]],
        "prompt_tokens": prompts,
        "output_tokens": outputs,
    }
    extra = rng.sample(["priority", "lora", "cap", "hash_ids"], rng.randint(0, 2))
    if "priority" in extra:
        columns["priority"] = some(-1, 1)
    if "lora" in extra:
        columns["lora"] = [number or None for number in some(0, 3)]
    if "cap" in extra:
        caps = zip(outputs, some(0, 1), strict=True)
        columns["max_tokens"] = [tokens + more for tokens, more in caps]
    if "hash_ids" in extra:
        columns["hash_ids"] = [
            [100 * group + place for place in range(-(-prompt // HASH_BLOCK))]
            for prompt, group in zip(prompts, some(0, 2), strict=True)
        ]
    return Trace.from_columns(
        columns, hash_block_tokens=HASH_BLOCK if "hash_ids" in columns else None
    )
