"""Random flag sets for golden scenarios, valid for a release of vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedbench.errors import UnsupportedError, UsageError
from schedbench.sched.behaviours import MODELLED

if TYPE_CHECKING:
    import random
    from collections.abc import Collection

Row = dict[str, Any]
RELEASES = (MODELLED[0], MODELLED[-1])  # those drawn for
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
    "lora": 0.15,
    "abort": 0.3,
    "pause": 0.1,
    "reset": 0.12,
    "throttle": 0.12,
    "streaming": 0.15,
    "grammar": 0.15,
    "remote_kv": 0.25,
    "speculation": 0.25,
    "encoder": 0.2,
    "async": 0.35,
    "pipeline": 0.12,
    "linear_clock": 0.15,
    "flush": 0.1,
    "active_cap": 0.2,
    "prefill_interval": 0.2,
    "min_tokens": 0.15,
}
NEWER_FEATURES = frozenset({"active_cap", "prefill_interval", "min_tokens"})  # 0.33.0 only


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
    newer = sorted(NEWER_FEATURES & set(names))
    if release == RELEASES[0] and newer and set(names) != set(FEATURES):
        raise UsageError(
            f"--features: {', '.join(newer)}: no case of vLLM {release} has it; leave it out, or "
            f"compare with {RELEASES[-1]}"
        )


# Branches that need several features at once: one of these joins a case now and then.
THEMES: tuple[frozenset[str], ...] = (
    frozenset({"priority", "pressure", "encoder", "threshold", "no_full_isl"}),  # unwinding
    frozenset({"priority", "pressure", "speculation", "no_full_isl", "prefix"}),
    frozenset({"async", "speculation", "pressure", "reset"}),  # stale drafts
    frozenset({"async", "remote_kv", "pressure", "no_full_isl"}),  # deferred frees
    frozenset({"streaming", "remote_kv", "pressure", "pause"}),  # blocks held waiting
    frozenset({"grammar", "speculation", "async"}),
)
THEME_SHARE = 0.2

# Branches that other features hide: one of these is all of a case of a newer release now and then.
ALONE: tuple[frozenset[str], ...] = (
    frozenset({"priority", "pressure", "encoder", "threshold", "no_full_isl"}),  # unwound inputs
    frozenset({"prefix", "remote_kv"}),  # one bad block under two requests
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
}
OLDER_DEFAULTS: Row = {"max_num_partial_prefills": 1, "max_long_partial_prefills": 1}
NEWER_DEFAULTS: Row = {
    "max_num_active_seqs": None,
    "long_prefill_token_threshold_adaptive": False,
    "prefill_schedule_interval": 1,
    "disable_eagle_block_drop": False,
    "disable_lookahead_block_hashes": False,
    "mtp_layers": None,
    "hold_frees": None,
    "kv_role": "kv_both",
    "drop_preempted_output": None,
}


def chance(rng: random.Random, share: float) -> bool:
    return rng.random() < share


# Found by running: an assertion of the class fails where the first set meets and the second
# is absent; the last name is dropped. The rest of the domain is free of such failures.
CONFLICTS: dict[str, tuple[tuple[set[str], set[str], str], ...]] = {
    "0.26.0": (
        # More adapters than max_loras run once a stepped-over request comes back.
        ({"lora", "pipeline"}, set(), "pipeline"),
        ({"lora", "throttle"}, set(), "throttle"),
        ({"lora", "encoder"}, set(), "encoder"),
        ({"lora", "async", "speculation"}, set(), "speculation"),
        ({"lora", "async", "pressure"}, set(), "pressure"),
        ({"lora", "async", "remote_kv"}, set(), "remote_kv"),
        # Rejected drafts of a pass in flight leave a negative number of new tokens.
        ({"speculation", "pipeline"}, {"async"}, "pipeline"),
        # Drafts accepted beyond the end of a turn stay computed, past the next input's end.
        ({"streaming", "speculation"}, set(), "speculation"),
        # A turn that has ended is ended again by the third pass in flight, or by the second
        # where an eviction left the count of tokens in flight behind.
        ({"streaming", "async", "pipeline"}, set(), "pipeline"),
        ({"streaming", "async", "pressure"}, set(), "pressure"),
    ),
    "0.33.0": (({"streaming", "speculation", "pipeline"}, {"async"}, "pipeline"),),
}


def draw_features(rng: random.Random, release: str, allowed: Collection[str]) -> set[str]:
    """The features of one case, without combinations the release fails on."""
    drawn = {name for name, share in FEATURES.items() if chance(rng, share)}
    theme = rng.choice(THEMES)
    if chance(rng, THEME_SHARE):
        drawn |= theme
    drawn &= set(allowed)
    if release == RELEASES[0]:
        drawn -= NEWER_FEATURES
    if release not in CONFLICTS:
        raise UnsupportedError(
            f"random cases that are valid for vLLM {release} are not known: CONFLICTS in "
            "runner/fuzz_flags.py needs a row for it"
        )
    for together, without, dropped in CONFLICTS[release]:
        if together <= drawn and not without & drawn:
            drawn.remove(dropped)
    return drawn


def features_alone(seed: int, release: str, allowed: Collection[str]) -> frozenset[str]:
    """The only features of this case; empty where it draws them."""
    turn, rest = divmod(seed, ALONE_EVERY)
    alone = ALONE[turn % len(ALONE)]
    is_due = release != RELEASES[0] and rest == ALONE_EVERY - 1
    return alone if is_due and alone <= set(allowed) else frozenset()


def is_older(flags: Row) -> bool:
    """Whether a flag set is one of 0.26.0: later ones dropped these names."""
    return "max_num_partial_prefills" in flags


def draw_flags(rng: random.Random, release: str, features: Collection[str]) -> Row:
    flags = DEFAULTS | (OLDER_DEFAULTS if release == RELEASES[0] else NEWER_DEFAULTS)
    _draw_sizes(rng, flags, features)
    _draw_limits(rng, flags, features)
    _draw_modes(rng, flags, features)
    if "speculation" in features:
        _draw_speculation(rng, flags, release)
    if release != RELEASES[0]:
        _draw_newer(rng, flags, features)
    if "budget" in features:
        _draw_budget(rng, flags)
    return flags


def _draw_sizes(rng: random.Random, flags: Row, features: Collection[str]) -> None:
    flags["block_size"] = rng.choice([4, 8, 16, 16, 32])
    flags["max_model_len"] = rng.choice([64, 96, 128, 160, 256, 384])
    flags["max_num_seqs"] = rng.choice([1, 2, 3, 4, 6, 8, 8, 12, 16])
    flags["max_num_batched_tokens"] = rng.choice([16, 32, 48, 64, 100, 128, 256, 512])
    if "no_chunking" in features:
        flags["enable_chunked_prefill"] = False
        flags["max_num_batched_tokens"] = flags["max_model_len"] + rng.choice([0, 1, 17, 300])
    largest = -(-flags["max_model_len"] // flags["block_size"])
    roomy = flags["max_num_seqs"] + 1.0
    scale = rng.choice([1.0, 1.1, 1.3, 1.6, 2.2]) if "pressure" in features else roomy
    flags["num_gpu_blocks"] = 1 + int(largest * scale) + rng.randrange(3)


def _draw_limits(rng: random.Random, flags: Row, features: Collection[str]) -> None:
    if "watermark" in features:
        flags["watermark"] = rng.choice([0.01, 0.05, 0.1, 0.15, 0.2, 0.25])
    if "no_full_isl" in features:
        flags["scheduler_reserve_full_isl"] = False
    if "threshold" in features:
        longest = min(flags["max_model_len"], 100)
        flags["long_prefill_token_threshold"] = rng.choice([1, 7, 16, 24, 32, 40, 50, longest])
    if "lora" in features:
        flags["max_loras"] = rng.choice([1, 2, 3])
    if "throttle" in features:
        flags["throttle_interval"] = rng.choice([2, 3, 4])
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


def _draw_speculation(rng: random.Random, flags: Row, release: str) -> None:
    flags["num_speculative_tokens"] = rng.choice([1, 2, 3, 4])
    methods = ["ngram", "eagle", "draft_model"]
    if release != RELEASES[0]:
        methods.append("mtp")
    flags["spec_method"] = rng.choice(methods)
    if flags["spec_method"] == "draft_model":  # its rows take a slot a request
        flags["max_num_batched_tokens"] += flags["max_num_seqs"]


def _draw_newer(rng: random.Random, flags: Row, features: Collection[str]) -> None:
    if "active_cap" in features:
        flags["max_num_active_seqs"] = rng.randint(1, flags["max_num_seqs"])
    if "prefill_interval" in features:
        flags["prefill_schedule_interval"] = rng.choice([2, 3, 4])
    if "threshold" in features:
        flags["long_prefill_token_threshold_adaptive"] = chance(rng, 0.5)
        # A padded decode cut by the threshold fails an assertion.
        least = 1 + flags["num_speculative_tokens"]
        flags["long_prefill_token_threshold"] = max(flags["long_prefill_token_threshold"], least)
    if flags["spec_method"] == "mtp":
        flags["mtp_layers"] = rng.choice([1, 2, 3])
    if flags["spec_method"] in ("eagle", "mtp"):
        flags["disable_eagle_block_drop"] = chance(rng, 0.2)
        flags["disable_lookahead_block_hashes"] = chance(rng, 0.3)
    if flags["kv_connector"]:
        flags["kv_role"] = rng.choice(["kv_both", "kv_producer", "kv_consumer"])
        flags["drop_preempted_output"] = rng.choice([None, None, True, False])
        if chance(rng, 0.2):
            first = rng.randrange(2, 12)
            flags["hold_frees"] = [first, first + rng.randrange(1, 8)]


def _draw_budget(rng: random.Random, flags: Row) -> None:
    batched = flags["max_num_batched_tokens"]
    if flags["spec_method"] == "draft_model":
        batched -= flags["max_num_seqs"]
    flags["max_num_scheduled_tokens"] = max(1, rng.choice([batched // 2, batched - 5, batched]))
    if not flags["num_speculative_tokens"] and chance(rng, 0.4):
        flags["max_num_scheduled_tokens"] = batched + rng.choice([1, 16, 64])
