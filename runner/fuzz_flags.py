"""Random flag sets for golden scenarios, valid for a release of vLLM."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from schedbench.errors import UsageError
from schedbench.sched.behaviours import MODELLED, Behaviours, resolve
from schedbench.sched.config import SchedulerConfig

if TYPE_CHECKING:
    from collections.abc import Collection

Row = dict[str, Any]
FEATURES: dict[str, float] = {  # feature: share of the cases that have it, if allowed
    "priority": 0.35,
    "pressure": 0.6,
    "prefix": 0.7,
    "no_prefix_cache": 0.15,
    "watermark": 0.3,
    "no_full_isl": 0.4,
    "budget": 0.3,
    "threshold": 0.3,
    "no_chunking": 0.15,
    "lora": 0.2,
    "abort": 0.3,
    "pause": 0.2,
    "reset": 0.2,
    "throttle": 0.15,
    "streaming": 0.25,
    "grammar": 0.2,
    "remote_kv": 0.3,
    "speculation": 0.3,
    "encoder": 0.25,
    "async": 0.4,
    "pipeline": 0.15,
    "linear_clock": 0.15,
    "flush": 0.15,
    "active_cap": 0.2,
    "prefill_interval": 0.2,
    "min_tokens": 0.2,
    "stop": 0.25,
    "tiny_pool": 0.15,
    "odd_blocks": 0.2,
    "long_context": 0.12,
    "many_seqs": 0.12,
    "hash_algo": 0.15,
    "partial_prefills": 0.2,
    "large_items": 0.12,
    "many_drafts": 0.12,
    "failed_loads": 0.2,
    "forced_reset": 0.15,
    "low_threshold": 0.08,
    "large_watermark": 0.1,
}
NEEDS = {  # a feature that is more of another one brings that along
    "large_items": ("encoder",),
    "many_drafts": ("speculation",),
    "failed_loads": ("remote_kv",),
    "forced_reset": ("reset",),
    "low_threshold": ("threshold", "speculation"),
    "large_watermark": ("watermark",),
}
FLAG_OF = {  # features that are a flag which not every release has
    "active_cap": "max_num_active_seqs",
    "prefill_interval": "prefill_schedule_interval",
    "partial_prefills": "max_num_partial_prefills",
}
COMES_WITH = {  # what only the driver of golden logs gives, and the behaviour that heeds it
    "hold_frees": "pending_frees",
    "drop_preempted_output": "drop_stale",
}


def has_flag(behaviour: Behaviours, name: str) -> bool:
    """Whether a release has a flag, by the behaviours that it came and went with."""
    if name in COMES_WITH:
        return bool(getattr(behaviour, COMES_WITH[name]))
    (flag,) = [each for each in fields(SchedulerConfig) if each.name == name]
    needs, gone_with = flag.metadata["needs"], flag.metadata["gone_with"]
    is_there = not needs or getattr(behaviour, needs)
    return bool(is_there and not (gone_with and getattr(behaviour, gone_with)))


def absent_from(release: str) -> frozenset[str]:
    """The features that no case of a release has."""
    behaviour = resolve(release)
    return frozenset(name for name, flag in FLAG_OF.items() if not has_flag(behaviour, flag))


def read_features(text: str) -> list[str]:
    """The features that `a,b` names. Raises UsageError for one that is none."""
    names = [each.strip() for each in text.split(",")]
    if unknown := [each for each in names if each not in FEATURES]:
        raise UsageError(
            f"--features: there is no feature {unknown[0]!r}; there are {', '.join(FEATURES)}"
        )
    return names


def check_features(names: Collection[str], release: str) -> None:
    """Raises UsageError for one that no case of a release has, unless all features are named."""
    absent = sorted(absent_from(release) & set(names))
    if absent and set(names) != set(FEATURES):
        having = [each for each in MODELLED if not absent_from(each) & set(absent)]
        remedy = f", or compare with {having[0]}" if having else ""
        raise UsageError(
            f"--features: {', '.join(absent)}: no case of vLLM {release} has it; leave it "
            f"out{remedy}"
        )


# Branches that need several features at once: one of these joins a case now and then.
THEMES: tuple[frozenset[str], ...] = (
    frozenset({"priority", "pressure", "encoder", "threshold", "no_full_isl"}),  # unwinding
    frozenset({"priority", "pressure", "speculation", "no_full_isl", "prefix"}),
    frozenset({"async", "speculation", "pressure", "reset", "forced_reset"}),  # stale drafts
    frozenset({"async", "remote_kv", "pressure", "no_full_isl"}),  # deferred frees
    frozenset({"streaming", "remote_kv", "pressure", "pause"}),  # blocks held waiting
    frozenset({"grammar", "speculation", "async"}),
    frozenset({"streaming", "async", "remote_kv", "failed_loads", "abort"}),
)
THEME_SHARE = 0.2

LARGE = frozenset(
    ("priority", "lora", "streaming", "grammar", "remote_kv", "speculation", "encoder", "async")
)
"""Those with most code of their own; all of them at once join a case now and then."""
LARGE_SHARE = 0.05

FREE_SHARE = 0.35
"""Of the cases that may have what ends the engine; the others go on for longer without it."""

# Branches that other features hide: one of these is all of a case now and then.
ALONE: tuple[frozenset[str], ...] = (
    frozenset({"priority", "pressure", "encoder", "threshold", "no_full_isl"}),  # unwound inputs
    frozenset({"prefix", "remote_kv", "failed_loads"}),  # one bad block under two requests
)
ALONE_EVERY = 8  # cases

DEFAULTS: Row = {
    "max_num_batched_tokens": 128,
    "max_num_scheduled_tokens": None,
    "max_num_seqs": 4,
    "max_model_len": 256,
    "long_prefill_token_threshold": 0,
    "enable_chunked_prefill": True,
    "policy": "fcfs",
    "num_gpu_blocks": 1000,
    "block_size": 16,
    "enable_prefix_caching": True,
    "prefix_caching_hash_algo": "sha256",
    "scheduler_reserve_full_isl": True,
    "watermark": 0.0,
    "async_scheduling": False,
    "num_speculative_tokens": 0,
    "spec_method": "ngram",
    "max_loras": None,
    "kv_connector": False,
    "kv_load_failure_policy": "fail",
    "encoder_budget": None,
    "encoder_cache_size": None,
    "disable_chunked_mm_input": False,
    "throttle_interval": 1,
    "pipeline_depth": None,
    "kv_role": "kv_both",
}
SOME_DEFAULTS: Row = {  # of flags that not every release has
    "max_num_partial_prefills": 1,
    "max_long_partial_prefills": 1,
    "max_num_active_seqs": None,
    "long_prefill_token_threshold_adaptive": False,
    "prefill_schedule_interval": 1,
    "disable_eagle_block_drop": False,
    "disable_lookahead_block_hashes": False,
    "mtp_layers": None,
    "hold_frees": None,
    "drop_preempted_output": None,
}


def chance(rng: random.Random, share: float) -> bool:
    return rng.random() < share


@dataclass(frozen=True, slots=True)
class Conflict:
    """What ends the engine soon: `together` without any of `without`, up to a behaviour."""

    together: frozenset[str]
    dropped: str  # from the cases that are to go on for long
    without: str = ""
    gone_with: str = ""


def _conflict(words: str, dropped: str, *, without: str = "", gone_with: str = "") -> Conflict:
    return Conflict(frozenset(words.split()), dropped, without, gone_with)


CONFLICTS = (
    # More adapters than max_loras run once a stepped-over request comes back.
    _conflict("lora pipeline", "pipeline", gone_with="lora_running"),
    _conflict("lora throttle", "throttle", gone_with="lora_running"),
    _conflict("lora encoder", "encoder", gone_with="lora_running"),
    _conflict("lora async speculation", "speculation", gone_with="lora_running"),
    _conflict("lora async pressure", "pressure", gone_with="lora_running"),
    _conflict("lora async remote_kv", "remote_kv", gone_with="lora_running"),
    # Rejected drafts of a pass in flight leave a negative number of new tokens.
    _conflict("speculation pipeline", "pipeline", without="async", gone_with="cache_at_update"),
    _conflict("streaming speculation pipeline", "pipeline", without="async"),
    # Drafts accepted beyond the end of a turn stay computed, past the next input's end.
    _conflict("streaming speculation", "speculation", gone_with="streaming_frontier"),
    # A turn that has ended is ended again by the third pass in flight, or by the second where an
    # eviction left the count of tokens in flight behind.
    _conflict("streaming async pipeline", "pipeline", gone_with="turn_rollback"),
    _conflict("streaming async pressure", "pressure", gone_with="turn_rollback"),
    # Blocks held without running make a forced reset fail.
    _conflict("forced_reset streaming", "forced_reset"),
    _conflict("forced_reset remote_kv", "forced_reset"),
    # A padded decode is cut, and more drafts are rejected than it had tokens.
    _conflict("low_threshold", "low_threshold"),
)


def _without_conflicts(drawn: set[str], behaviour: Behaviours) -> set[str]:
    left = set(drawn)
    for each in CONFLICTS:
        is_gone = each.gone_with and getattr(behaviour, each.gone_with)
        if not is_gone and each.together <= left and each.without not in left:
            left.remove(each.dropped)
    return {name for name in left if left.issuperset(NEEDS.get(name, ()))}


def is_free(seed: int, release: str) -> bool:
    """Whether the case of a seed may have what ends the engine."""
    return chance(random.Random(f"free {release} {seed}"), FREE_SHARE)  # noqa: S311


def draw_features(
    rng: random.Random, release: str, allowed: Collection[str], *, free: bool
) -> set[str]:
    """The features of one case; without what ends the engine soon, unless it is free."""
    drawn = {name for name, share in FEATURES.items() if chance(rng, share)}
    theme = rng.choice(THEMES)
    if chance(rng, THEME_SHARE):
        drawn |= theme
    if free and chance(rng, LARGE_SHARE / FREE_SHARE):
        drawn |= LARGE
    drawn &= set(allowed) - absent_from(release)
    drawn -= {name for name in drawn if not set(allowed).issuperset(NEEDS.get(name, ()))}
    for name in [each for each in NEEDS if each in drawn]:
        drawn |= set(NEEDS[name])
    return drawn if free else _without_conflicts(drawn, resolve(release))


def features_alone(seed: int, release: str, allowed: Collection[str]) -> frozenset[str]:
    """The only features of this case; empty where it draws them, as all of the first release do."""
    turn, rest = divmod(seed, ALONE_EVERY)
    alone = ALONE[turn % len(ALONE)]
    is_due = resolve(release) != Behaviours() and rest == ALONE_EVERY - 1
    return alone if is_due and alone <= set(allowed) else frozenset()


def draw_flags(rng: random.Random, behaviour: Behaviours, features: Collection[str]) -> Row:
    some = {name: each for name, each in SOME_DEFAULTS.items() if has_flag(behaviour, name)}
    flags = DEFAULTS | some
    _draw_sizes(rng, flags, features)
    _draw_limits(rng, flags, features)
    _draw_modes(rng, flags, features)
    if "speculation" in features:
        _draw_speculation(rng, flags, features)
    _draw_some(rng, flags, features)
    if "budget" in features:
        _draw_budget(rng, flags)
    return flags


def _draw_sizes(rng: random.Random, flags: Row, features: Collection[str]) -> None:
    odd = "odd_blocks" in features
    flags["block_size"] = rng.choice([1, 2, 3, 12, 24, 48, 64, 128] if odd else [4, 8, 16, 16, 32])
    lengths = [512, 768, 1024, 2048] if "long_context" in features else [64, 96, 128, 160, 256, 384]
    flags["max_model_len"] = rng.choice(lengths)
    many = "many_seqs" in features
    flags["max_num_seqs"] = rng.choice([20, 32, 48, 64] if many else [1, 2, 3, 4, 6, 8, 8, 12, 16])
    budgets = [16, 32, 48, 64, 100, 128, 256, 512]
    flags["max_num_batched_tokens"] = max(rng.choice(budgets), flags["max_num_seqs"])
    if "no_chunking" in features:
        flags["enable_chunked_prefill"] = False
        flags["max_num_batched_tokens"] = flags["max_model_len"] + rng.choice([0, 1, 17, 300])
    flags["num_gpu_blocks"] = _draw_pool(rng, flags, features)


def _draw_pool(rng: random.Random, flags: Row, features: Collection[str]) -> int:
    """Blocks, by how many of the longest sequences they hold."""
    largest = -(-flags["max_model_len"] // flags["block_size"])
    scale = min(flags["max_num_seqs"], 16) + 1.0
    if "pressure" in features:
        scale = rng.choice([1.0, 1.1, 1.3, 1.6, 2.2])
    if "tiny_pool" in features:
        scale = rng.choice([0.2, 0.5, 0.7, 0.9])
    return 1 + max(int(largest * scale), 1) + rng.randrange(3)


def _draw_limits(rng: random.Random, flags: Row, features: Collection[str]) -> None:
    if "watermark" in features:
        flags["watermark"] = rng.choice([0.01, 0.05, 0.1, 0.15, 0.2, 0.25])
    if "large_watermark" in features:
        flags["watermark"] = rng.choice([0.3, 0.4, 0.5, 0.75, 0.9])
    if "no_full_isl" in features:
        flags["scheduler_reserve_full_isl"] = False
    if "threshold" in features:
        longest = min(flags["max_model_len"], 100)
        flags["long_prefill_token_threshold"] = rng.choice([1, 7, 16, 24, 32, 40, 50, longest])
    if "partial_prefills" in features and flags["enable_chunked_prefill"]:
        flags["max_num_partial_prefills"] = rng.randint(2, 4)
        flags["max_long_partial_prefills"] = rng.randint(1, flags["max_num_partial_prefills"])
    if "lora" in features:
        flags["max_loras"] = rng.choice([1, 2, 3, 4])
    if "throttle" in features:
        flags["throttle_interval"] = rng.choice([2, 3, 4])
    if "hash_algo" in features:
        flags["prefix_caching_hash_algo"] = "sha256_cbor"
    if "encoder" in features:
        flags["encoder_cache_size"] = rng.choice([32, 48, 70, 100, 200])
        flags["encoder_budget"] = rng.choice([32, 40, 64, 100])
        flags["disable_chunked_mm_input"] = chance(rng, 0.4)


def _draw_modes(rng: random.Random, flags: Row, features: Collection[str]) -> None:
    if "priority" in features:
        flags["policy"] = "priority"
    if "no_prefix_cache" in features:
        flags["enable_prefix_caching"] = False
    if "async" in features:
        flags["async_scheduling"] = True
    if "pipeline" in features:
        flags["pipeline_depth"] = rng.choice([2, 3, 3, 4])
    if "remote_kv" in features:
        flags["kv_connector"] = True
        flags["kv_load_failure_policy"] = rng.choice(["fail", "recompute"])
        flags["kv_role"] = rng.choice(["kv_both", "kv_producer", "kv_consumer"])


def _draw_speculation(rng: random.Random, flags: Row, features: Collection[str]) -> None:
    many = "many_drafts" in features
    flags["num_speculative_tokens"] = rng.choice([5, 6, 8, 12] if many else [1, 2, 3, 4])
    methods = ["ngram", "eagle", "eagle3", "draft_model"]
    if "mtp_layers" in flags:
        methods.append("mtp")
    flags["spec_method"] = rng.choice(methods)
    if flags["spec_method"] == "draft_model":  # its rows take a slot a request
        flags["max_num_batched_tokens"] += flags["max_num_seqs"]
    if not flags["long_prefill_token_threshold"]:
        return
    least = 1 + flags["num_speculative_tokens"]
    if "low_threshold" in features:
        flags["long_prefill_token_threshold"] = rng.randrange(1, least)
    else:  # a padded decode is not cut
        flags["long_prefill_token_threshold"] = max(flags["long_prefill_token_threshold"], least)


def _draw_some(rng: random.Random, flags: Row, features: Collection[str]) -> None:
    """The flags that not every release has."""
    if "active_cap" in features:
        flags["max_num_active_seqs"] = rng.randint(1, flags["max_num_seqs"])
    if "prefill_interval" in features:
        flags["prefill_schedule_interval"] = rng.choice([2, 3, 4])
    if "threshold" in features and "long_prefill_token_threshold_adaptive" in flags:
        flags["long_prefill_token_threshold_adaptive"] = chance(rng, 0.5)
    if flags["spec_method"] == "mtp":
        flags["mtp_layers"] = rng.choice([1, 2, 3])
        if flags["block_size"] < flags["num_speculative_tokens"] and flags["enable_prefix_caching"]:
            flags["mtp_layers"] = 1  # several modules may not read past a block
    if flags["spec_method"] in ("eagle", "mtp"):
        for name, share in (
            ("disable_eagle_block_drop", 0.2),
            ("disable_lookahead_block_hashes", 0.3),
        ):
            if name in flags:
                flags[name] = chance(rng, share)
    if flags["kv_connector"]:
        _draw_connector(rng, flags)


def _draw_connector(rng: random.Random, flags: Row) -> None:
    if "drop_preempted_output" in flags:
        flags["drop_preempted_output"] = rng.choice([None, None, True, False])
    if "hold_frees" in flags and chance(rng, 0.2):
        first = rng.randrange(2, 12)
        flags["hold_frees"] = [first, first + rng.randrange(1, 8)]


def _draw_budget(rng: random.Random, flags: Row) -> None:
    batched = flags["max_num_batched_tokens"]
    if flags["spec_method"] == "draft_model":
        batched -= flags["max_num_seqs"]
    flags["max_num_scheduled_tokens"] = max(1, rng.choice([batched // 2, batched - 5, batched]))
    if not flags["num_speculative_tokens"] and chance(rng, 0.4):
        flags["max_num_scheduled_tokens"] = batched + rng.choice([1, 16, 64])
