"""What releases of vLLM decide differently: named behaviours, and which release has which.

A behaviour is a yes or no that is asked where `read_in` says, and nowhere else; no code asks for
a version. The first release modelled, 0.26.0, has none of them; a few came and went again. To add a
release, name what it changed and put it into `MODELLED` (docs/new-release.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, NamedTuple

from schedbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = {"on": True, "off": False}


class Facts(NamedTuple):
    """What is known of a behaviour; `changes` are verdicts and columns in which it shows."""

    name: str
    since: str  # the first release that has it
    until: str  # the first release that has it no longer; empty while all later ones do
    off: str
    on: str
    changes: str
    read_in: str
    source: str  # file and lines, in 0.33.0 or in the last release that has it
    needs: str
    undone_by: str  # flags with which a release that has it decides as without it, if there are any


def _named(
    since: str,
    off: str,
    on: str,
    *,
    changes: str,
    read_in: str,
    source: str,
    needs: str = "",
    until: str = "",
    undone_by: str = "",
) -> bool:
    facts = Facts("", since, until, off, on, changes, read_in, source, needs, undone_by)
    described: bool = field(default=False, metadata={"facts": facts})
    return described


@dataclass(frozen=True, slots=True)
class Behaviours:
    """Every behaviour by name; False is what 0.26.0 does."""

    # Budgets and caps.
    threshold_lone: bool = _named(
        "0.31.0",
        "The long-prefill threshold cuts every request.",
        "It cuts nobody in a pass that begins with at most one request, running or waiting.",
        changes="tokens of a request",
        read_in="sched/token_demand.py: threshold_of_pass",
        source="scheduler.py 757-763",
    )
    threshold_adaptive: bool = _named(
        "0.31.0",
        "There is no --long-prefill-token-threshold-adaptive.",
        "With it the threshold is never below an equal share of the batched tokens.",
        changes="tokens of a request",
        read_in="sched/token_demand.py: threshold_of_pass",
        source="scheduler.py 764-769",
    )
    active_cap: bool = _named(
        "0.31.0",
        "There is no --max-num-active-seqs.",
        "It caps admissions below --max-num-seqs.",
        changes="SEATS_FULL",
        read_in="sched/config.py: seats",
        source="scheduler.py 134, 1073",
    )
    prefill_interval: bool = _named(
        "0.33.0",
        "--prefill-schedule-interval works with data parallelism only.",
        "Without it, prefill is put off between passes of that interval while something decodes.",
        changes="PREFILL_DEFERRED, PREFILLS_HELD",
        read_in="sched/config.py: prefill_interval",
        source="scheduler.py 404-425, 771-791",
    )
    input_budget: bool = _named(
        "0.28.0",
        "--max-num-scheduled-tokens alone is the budget, even above the batched tokens.",
        "--max-num-batched-tokens is a second budget beside it.",
        changes="BUDGET_SPENT",
        read_in="sched/config.py: input_budget",
        source="scheduler.py 722, 797, 847, 955, 1003, 1068, 1295, 1571",
    )
    draft_slots: bool = _named(
        "0.28.0",
        "Rows that a draft model adds to the batch are set aside for --max-num-seqs requests.",
        "They are taken from the second budget for each request that is scheduled.",
        changes="BUDGET_SPENT, PROMPT_OVER_BUDGET",
        read_in="sched/config.py: token_budget, draft_rows; sched/config_checks.py: _speculation",
        source="scheduler.py 720-722, 847, 1003; config/vllm.py 2341",
        needs="input_budget",
    )

    # Eviction.
    self_evict_continue: bool = _named(
        "0.33.0",
        "A request that is its own victim ends the running loop.",
        "Under priority the loop goes on with the next one.",
        changes="PREEMPTED_SELF, PREEMPTED",
        read_in="sched/running_loop.py: make_room",
        source="scheduler.py 983-994",
    )
    victim_index: bool = _named(
        "0.28.0",
        "A victim that was stepped over makes the next request miss its turn.",
        "Every victim before the running loop's place moves that place back.",
        changes="who is scheduled after an eviction under priority",
        read_in="sched/preemption.py: evict",
        source="scheduler.py 944-948",
    )
    evict_wait: bool = _named(
        "0.30.0",
        "A victim whose blocks come back only later is evicted all the same.",
        "Nobody is evicted then, and the running loop ends.",
        changes="EVICTION_WAITS",
        read_in="sched/kv_connector.py: why_not_to_evict",
        source="scheduler.py 940-942, 3077",
    )
    pending_frees: bool = _named(
        "0.30.0",
        "A connector is not asked whether it is about to free blocks.",
        "While it is, a request short of blocks ends the running loop without an eviction.",
        changes="FREES_PENDING",
        read_in="sched/kv_connector.py: why_not_to_evict",
        source="scheduler.py 924-928",
    )
    stopped_skipped: bool = _named(
        "0.27.0",
        "A request that stops while it is skipped stays in skipped_waiting, finished.",
        "It leaves skipped_waiting as well.",
        changes="waiting and skipped_waiting",
        read_in="sched/waiting_queues.py: create_waiting_queues",
        source="scheduler.py 1949-1952 of 0.27.0",
    )
    stale_output: bool = _named(
        "0.27.0",
        "Output in flight for an evicted request is counted as if it still ran.",
        "It is delivered and changes no count; the request is set aside until all of it came.",
        changes="STALE_OUTPUT_IN_FLIGHT",
        read_in="sched/stale_output.py: at_eviction; sched/express_ahead.py: _known_tokens",
        source="scheduler.py 1084-1089, 1799-1836, 2316-2364",
        needs="stopped_skipped",
    )
    drop_stale: bool = _named(
        "0.27.0",
        "Output in flight for an evicted request is delivered.",
        "With a connector that must hand KV on it is thrown away and computed again.",
        changes="OUTPUT_DISCARDED",
        read_in="sched/stale_output.py: at_eviction",
        source="scheduler.py 172, 975, 1832, 2338",
    )
    reset_drop: bool = _named(
        "0.27.0",
        "After a reset that evicts, as many outputs are dropped as tokens were in flight.",
        "Exactly the tokens in flight are dropped.",
        changes="OUTPUT_DISCARDED",
        read_in="sched/stale_output.py: at_reset",
        source="scheduler.py 3204",
    )

    # Waiting collections.
    one_waiting_queue: bool = _named(
        "0.31.0",
        "Requests that were set aside wait in a queue of their own, before all others.",
        "They wait among the others, at their place.",
        changes="order of admission, waiting and skipped_waiting",
        read_in="sched/waiting_queues.py: create_waiting_queues",
        source="scheduler.py 229-239, 1054-1060, 1605-1609, 2709",
    )
    holders_first: bool = _named(
        "0.31.0",
        "Waiting requests that hold KV blocks wait among the others.",
        "They are tried before all others, whatever their priority.",
        changes="order of admission",
        read_in="sched/waiting_queues.py: create_waiting_queues",
        source="scheduler.py 233-236, 1063-1067, 2697-2707",
        needs="one_waiting_queue",
    )
    pause_holders: bool = _named(
        "0.32.0",
        "PAUSED_NEW admits nobody.",
        "It admits requests that hold KV blocks.",
        changes="PAUSED_NEW",
        read_in="sched/scheduler.py: admit; runner/vllm_scheduler.py: _cancelled",
        source="scheduler.py 1050, 1065, 3147-3155",
        needs="holders_first",
    )
    zero_skip: bool = _named(
        "0.33.0",
        "An admission that is cut to no tokens ends admission.",
        "It is set aside, and the next request is tried.",
        changes="ENCODER_FULL, ENCODER_SET_ASIDE, READ_AHEAD_SET_ASIDE",
        read_in="sched/admission_loop.py: cut_to_nothing",
        source="scheduler.py 1394-1398",
    )

    # Prefix cache.
    uncached_fifo: bool = _named(
        "0.27.0",
        "Without prefix caching freed blocks are handed out again before all others.",
        "They are handed out again after all others.",
        changes="block ids",
        read_in="sched/kv_cache/manager.py: __init__",
        source="block_pool.py 733-742 of 0.27.0",
        until="0.28.0",
    )
    lookahead_hash: bool = _named(
        "0.33.0",
        "With eagle or mtp a prefix hit gives up its last block.",
        "A block's hash covers the tokens the drafter reads after it, and a hit gives up nothing.",
        changes="hits; kv_blocks_cached",
        read_in="sched/config.py: hash_lookahead_tokens",
        source="kv_cache_utils.py 953-1036; scheduler.py 342-345; config/vllm.py 678",
        undone_by="--disable-lookahead-block-hashes",
    )
    mtp_lookahead: bool = _named(
        "0.28.0",
        "Several MTP modules are treated like one.",
        "No chunk ends within their reach of the prompt's end, and the last tokens are not cached.",
        changes="READ_AHEAD_UNFIT, READ_AHEAD_SET_ASIDE; kv_blocks_cached",
        read_in="sched/config.py: several_mtp_modules; sched/running_loop.py: tokens_for",
        source="scheduler.py 678-697, 882, 1387; kv_cache_coordinator.py 118, 150, 350-356",
    )
    cache_at_update: bool = _named(
        "0.33.0",
        "Blocks filled by output get their hash in the second half in asynchronous mode only.",
        "They do with speculation too, up to what no pass in flight can still take back.",
        changes="kv_blocks_cached; hits",
        read_in="sched/async_mode.py: settler",
        source="scheduler.py 2400-2411",
    )
    stats_at_admission: bool = _named(
        "0.27.0",
        "Prefix-cache statistics count every lookup, that of a failed admission as well.",
        "They count a request when it is admitted or begins to load.",
        changes="PrefixCacheStats",
        read_in="sched/admission_loop.py: consider, look_up",
        source="scheduler.py 1508-1512; kv_cache_manager.py 255",
    )
    hash_content: bool = _named(
        "0.31.0",
        "A block hashed after the first time sees a request's last multi-modal item only.",
        "It sees every item in it.",
        changes="hits of sessions with several items",
        read_in="runner/golden_sched.py: __init__",
        source="kv_cache_utils.py 983-992",
    )

    # Speculation.
    pad_resumed: bool = _named(
        "0.30.0",
        "A one-token admission is filled up with drafts beside a running request only.",
        "It is filled up also where it comes with computed tokens.",
        changes="tokens of an admission",
        read_in="sched/spec_decode.py: padding",
        source="scheduler.py 1310-1317",
    )
    pad_room: bool = _named(
        "0.29.0",
        "An admission whose drafts would pass the longest sequence ends admission.",
        "It is admitted without drafts.",
        changes="PADDED_DECODE_UNFIT",
        read_in="sched/spec_decode.py: padding",
        source="scheduler.py 1319-1325",
    )
    pad_whole: bool = _named(
        "0.29.0",
        "A padded admission that is cut runs with fewer tokens than drafts.",
        "The engine ends there.",
        changes="tokens of an admission; where the engine ends",
        read_in="sched/spec_decode.py: is_cut",
        source="scheduler.py 1185",
    )
    spec_reserve: bool = _named(
        "0.31.0",
        "An asynchronous load leaves free what unfinished prefills need for their known tokens.",
        "It leaves a step with drafts free besides, for each of them and for itself.",
        changes="KV_BLOCKS_SHORT_RESERVATION",
        read_in="sched/config.py: spec_step_tokens",
        source="scheduler.py 373-382, 1427-1430, 3404-3411",
    )

    reserve_apart: bool = _named(
        "0.31.0",
        "What a load leaves free for a prefill is rounded up to blocks once.",
        "Known tokens and the step with drafts are rounded up each by itself.",
        changes="KV_BLOCKS_SHORT_RESERVATION",
        read_in="sched/kv_connector.py: reserved_blocks",
        source="scheduler.py 3006-3030 of 0.31.0",
        needs="spec_reserve",
        until="0.32.0",
    )

    # LoRA, streaming, stops.
    lora_running: bool = _named(
        "0.33.0",
        "Adapters of running requests that were stepped over do not count.",
        "The adapters of all running requests count.",
        changes="LORA_SLOTS_FULL",
        read_in="sched/lora.py: count_running; runner/explain/queue_clock.py: loras_of",
        source="scheduler.py 1040-1047",
    )
    streaming_max_tokens: bool = _named(
        "0.31.0",
        "A session keeps the max_tokens of its first turn.",
        "Each input brings its own.",
        changes="where a turn ends",
        read_in="sched/streaming.py: apply_update",
        source="scheduler.py 1914",
    )
    turn_rollback: bool = _named(
        "0.31.0",
        "A session goes on with what was counted as computed, in flight or not.",
        "At the end of a turn it goes back to what is sure and drops what is in flight.",
        changes="computed tokens of a session",
        read_in="sched/streaming.py: segment_is_done",
        source="scheduler.py 2547, 2717-2762",
    )
    turn_rehash: bool = _named(
        "0.32.0",
        "Blocks hashed with tokens that a session dropped keep their hashes.",
        "A session's blocks are hashed anew from the tokens it keeps.",
        changes="hits of sessions",
        read_in="sched/streaming.py: apply_update",
        source="scheduler.py 1664 of 0.32.0",
    )
    streaming_frontier: bool = _named(
        "0.33.0",
        "A session keeps its computed output and is queued before the stopped are removed.",
        "It keeps all its output but the last token and is queued after the stopped are removed.",
        changes="computed tokens of a session",
        read_in="sched/streaming.py: apply_update; sched/fold.py: stop, remove_stopped; "
        "sched/async_mode.py: settler, cut_off",
        source="scheduler.py 1886-1893, 2547, 2717-2762",
        needs="turn_rollback",
    )
    min_tokens: bool = _named(
        "0.29.0",
        "Nothing ends a request before it has min_tokens, not even the longest sequence.",
        "The model's own end, the longest sequence and max_tokens do.",
        changes="FINISHED_LENGTH_CAPPED",
        read_in="sched/fold.py: waits_for_more",
        source="sched/utils.py 100-128",
    )
    failed_full_hit: bool = _named(
        "0.31.0",
        "A failed load that leaves all known tokens computed leaves none to sample from.",
        "As after a load that succeeded, the last one is computed again.",
        changes="tokens of an admission; where the engine ends",
        read_in="sched/kv_connector.py: load_is_done",
        source="scheduler.py 3095",
    )
    failed_recving: bool = _named(
        "0.30.0",
        "A connector cannot report that a whole request's load failed.",
        "Such a request starts again from nothing, or ends with an error.",
        changes="LOAD_FAILED, FINISHED_ERROR",
        read_in="sched/kv_connector.py: failed_requests",
        source="scheduler.py 2292-2295, 3688",
    )

    # Encoder inputs.
    encoder_duplicate: bool = _named(
        "0.32.0",
        "An item that repeats one of the same chunk is not referred to.",
        "It is, so that its entry stays until the last is computed.",
        changes="entries of the encoder cache",
        read_in="sched/encoder_cache.py: allocate",
        source="scheduler.py 2001-2016, 2127-2133",
    )
    encoder_mismatch: bool = _named(
        "0.31.0",
        "An item of another size than the entry of its name is taken for the same.",
        "Its request gets no tokens and ends with an error.",
        changes="ENCODER_UNFIT, FINISHED_ERROR",
        read_in="sched/encoder_cache.py: is_mismatch",
        source="scheduler.py 1981-2003, 2555",
    )
    encoder_repeat: bool = _named(
        "0.29.0",
        "A request lets go of an entry when its first item of that name is computed.",
        "It holds it until the last is.",
        changes="entries of the encoder cache",
        read_in="sched/encoder_cache.py: _free_one",
        source="encoder_cache_manager.py 277-297",
    )
    encoder_freed: bool = _named(
        "0.28.0",
        "An entry evicted and made again in one pass is reported as freed.",
        "It is not.",
        changes="free_encoder_mm_hashes",
        read_in="sched/encoder_cache.py: take_freed",
        source="encoder_cache_manager.py 325",
    )
    encoder_window: bool = _named(
        "0.28.0",
        "An item counts as reached where the chunk itself reaches it.",
        "It counts as reached where the drafter's look ahead does.",
        changes="entries of the encoder cache",
        read_in="sched/encoder_cache.py: has_embeds_in",
        source="scheduler.py 2060",
    )
    encoder_cut_early: bool = _named(
        "0.32.0",
        "Whether --disable-chunked-mm-input forbids a cut is tested after the cache is asked.",
        "It is tested before.",
        changes="entries of the encoder cache; tokens of a request",
        read_in="sched/encoder_cache.py: look_at",
        source="scheduler.py 2096-2113",
    )
    encoder_cut: bool = _named(
        "0.33.0",
        "With --disable-chunked-mm-input a chunk that begins at an item may split it.",
        "It may not.",
        changes="ENCODER_UNFIT; tokens of a request",
        read_in="sched/encoder_cache.py: is_split",
        source="scheduler.py 2096-2113",
    )
    encoder_shift: bool = _named(
        "0.33.0",
        "A chunk is cut a token before an item that does not fit where the drafter reads ahead.",
        "It is cut right before it.",
        changes="tokens of a request; entries of the encoder cache",
        read_in="sched/encoder_cache.py: unfit_cut, free_computed",
        source="scheduler.py 2161-2179, 2846",
    )

    # Configuration.
    config_partial_prefills: bool = _named(
        "0.27.0",
        "--max-num-partial-prefills sets a threshold.",
        "There are no --max-num-partial-prefills and --max-long-partial-prefills.",
        changes="refusals",
        read_in="sched/config_checks.py: _flags_of_the_release",
        source="config/scheduler.py (absent)",
    )
    config_eagle_drop: bool = _named(
        "0.30.0",
        "There is no --disable-eagle-block-drop.",
        "With it a prefix hit with a drafter that reads ahead keeps its last block.",
        changes="refusals",
        read_in="sched/config_checks.py: _flags_of_the_release",
        source="config/vllm.py 678",
    )
    config_scheduled_min: bool = _named(
        "0.32.0",
        "--max-num-scheduled-tokens may be 0.",
        "It is 1 or more.",
        changes="refusals",
        read_in="sched/config_checks.py: _ranges",
        source="config/scheduler.py 55",
    )
    config_threshold_max: bool = _named(
        "0.27.0",
        "The threshold may exceed the longest sequence without partial prefills.",
        "It may not.",
        changes="refusals",
        read_in="sched/config_checks.py: _thresholds",
        source="config/scheduler.py 355",
    )
    config_draft_model_async: bool = _named(
        "0.28.0",
        "Asynchronous scheduling is off by default with a draft model.",
        "It is on by default with a draft model.",
        changes="passes_in_flight",
        read_in="sched/config.py: _drafter_runs_ahead",
        source="config/vllm.py 1658",
        undone_by="--no-async-scheduling",
    )
    config_pipeline_sync: bool = _named(
        "0.31.0",
        "Asynchronous scheduling is on by default with pipeline parallelism.",
        "It is off by default with pipeline parallelism.",
        changes="passes_in_flight",
        read_in="sched/config.py: runs_ahead",
        source="config/vllm.py 1664",
    )
    config_async: bool = _named(
        "0.33.0",
        "Asynchronous scheduling is off by default with ngram, which refuses it.",
        "It is on by default with any drafter.",
        changes="passes_in_flight; refusals",
        read_in="sched/config.py: _drafter_runs_ahead, refuse_what_the_engine_refuses",
        source="config/vllm.py 1650-1720",
        undone_by="--no-async-scheduling",
    )
    config_big_gpu: bool = _named(
        "0.28.0",
        "A GPU of 160 GiB or more has the defaults of one of 70 GiB.",
        "It has 16384 batched tokens in a server too.",
        changes="defaults of --max-num-batched-tokens and --max-num-seqs",
        read_in="runner/batch_defaults.py: _row",
        source="engine/arg_utils.py 2973-2997",
    )
    config_small_gb10: bool = _named(
        "0.33.0",
        "A GB10 has the defaults of its 128 GiB.",
        "It has those of a small GPU.",
        changes="defaults of --max-num-batched-tokens and --max-num-seqs",
        read_in="runner/batch_defaults.py: _row",
        source="engine/arg_utils.py 2973-2997",
    )


NOT_MODELLED = {
    "skip-drafts": "a hint to the V2 model runner; no token count depends on it",
    "grammar-poll": "how a grammar is waited for; no decision depends on it",
    "pooling": "pooling models are not modelled",
    "skip-reading": "requests that skip the prefix cache (prompt logprobs) are not modelled",
    "dflash": "the dflash and dspark drafters are not modelled",
    "config-queue-caps": "the API server refuses requests; the scheduler never sees them",
    "config-hybrid-cache": "models with a Mamba cache are not modelled",
    "config-runner": "which model runner is used; the decisions are those under the V1 runner",
}
"""Differences of later releases that have no switch, each with the reason."""

MODELLED = (
    "0.26.0",
    "0.27.0",
    "0.27.1",
    "0.28.0",
    "0.29.0",
    "0.30.0",
    "0.31.0",
    "0.32.0",
    "0.33.0",
)
"""The releases that are followed exactly, oldest first."""


def ordered(release: str) -> tuple[int, ...]:
    """A release as numbers, to be compared. Raises ValueError."""
    return tuple(map(int, release.split(".")))


def all_facts() -> Iterator[Facts]:
    """What is known of each behaviour, in the order of the fields."""
    for each in fields(Behaviours):
        facts: Facts = each.metadata["facts"]
        yield facts._replace(name=each.name)


def _names_at(release: str) -> frozenset[str]:
    """The behaviours that came by this release and have not gone by it."""
    at = ordered(release)
    return frozenset(
        facts.name
        for facts in all_facts()
        if ordered(facts.since) <= at and not (facts.until and ordered(facts.until) <= at)
    )


RELEASES: dict[str, frozenset[str]] = {release: _names_at(release) for release in MODELLED}
"""By release: the behaviours it has."""


def releases_with(name: str) -> list[str]:
    """The modelled releases that have a behaviour."""
    return [release for release, names in RELEASES.items() if name in names]


def releases_without(name: str) -> list[str]:
    return [release for release, names in RELEASES.items() if name not in names]


def borders(name: str) -> tuple[str, str]:
    """The last modelled release before a behaviour came, and the first that has it."""
    first = releases_with(name)[0]
    return MODELLED[MODELLED.index(first) - 1], first


def parse_switches(text: str) -> dict[str, bool]:
    """Read `threshold-lone=on,zero-skip=off`; `+` may stand for the comma. Raises UsageError."""
    known = [each.name for each in fields(Behaviours)]
    switches: dict[str, bool] = {}
    for part in filter(None, (each.strip() for each in text.replace("+", ",").split(","))):
        name, _, word = part.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            names = ", ".join(each.replace("_", "-") for each in known)
            raise UsageError(f"--behaviour {part}: there is no such behaviour; there are {names}")
        if word.strip().lower() not in WORDS:
            raise UsageError(f"--behaviour {part}: write {name.replace('_', '-')}=on or =off")
        if name in switches:
            raise UsageError(f"--behaviour {text}: {typed(name)} stands there twice; give it once")
        switches[name] = WORDS[word.strip().lower()]
    return switches


def resolve(version: str, switches: str = "") -> Behaviours:
    """The behaviours of a release, some of them switched.

    What a behaviour needs is not switched on for it, and goes with what it needs.

    Raises:
        UsageError: a release or a name that is not modelled, or a switch that could do nothing.
    """
    names = set(_names_of(version))
    chosen = parse_switches(switches)
    names |= {name for name, is_on in chosen.items() if is_on}
    names -= {name for name, is_on in chosen.items() if not is_on}
    for facts in all_facts():  # what is needed stands before what needs it
        if facts.needs and facts.needs not in names and facts.name in names:
            if chosen.get(facts.name):
                raise UsageError(
                    f"--behaviour {typed(facts.name)}=on does nothing without "
                    f"{typed(facts.needs)}: give {typed(facts.needs)}=on as well"
                )
            names.remove(facts.name)
    return Behaviours(**dict.fromkeys(names, True))


def switched(version: str, behaviours: Behaviours) -> list[str]:
    """What a mixture does otherwise than its release, as `--behaviour` takes it."""
    own = RELEASES[version]
    return [
        f"{typed(each.name)}={'on' if getattr(behaviours, each.name) else 'off'}"
        for each in fields(Behaviours)
        if getattr(behaviours, each.name) != (each.name in own)
    ]


def described(version: str, behaviours: Behaviours) -> str:
    """Whose decisions these are, as every summary says it; a mixture is called one."""
    switches = switched(version, behaviours)
    mixture = f" with {', '.join(switches)} (a mixture, no release)" if switches else ""
    return f"vLLM {version}{mixture}"


def _names_of(version: str) -> frozenset[str]:
    if version in RELEASES:
        return RELEASES[version]
    *others, last = RELEASES
    known = f"{', '.join(others)} and {last}"
    bare = version.removeprefix("v")
    if meant := [each for each in RELEASES if each == bare or each.startswith(f"{bare}.")]:
        raise UsageError(
            f"--vllm-version {version} is not modelled: {known} are; did you mean {meant[0]}?"
        )
    asked = _numbers(version)
    if asked is not None and ordered(others[0]) < asked < ordered(last):
        raise UsageError(
            f"--vllm-version {version} is not modelled, and not rounded to a neighbour: {known} "
            "are; choose one of them, and switch single behaviours with --behaviour"
        )
    raise UsageError(f"--vllm-version {version} is not modelled: {known} are")


def _numbers(version: str) -> tuple[int, ...] | None:
    try:
        return ordered(version)
    except ValueError:
        return None


def typed(name: str) -> str:
    """A name as it is typed."""
    return name.replace("_", "-")
