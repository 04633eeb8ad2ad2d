"""Every named outcome of the scheduler: its table of contents.

Each exit of the two loops is one of three kinds:

    SKIP    leave the request where it is, go on with the next
    ASIDE   take it off the head of its queue, go on with the next
    STOP    end this loop

Everything else is a GRANT. The second half of a pass (`fold.py`) has outcomes of its own, of kind
FOLD. A stop stands for a limit (`LIMIT_OF`): what would have to grow for the loop to go on.
"""

from enum import Enum, auto


class Kind(Enum):
    """What an outcome does to the loop that returns it."""

    SKIP = auto()
    ASIDE = auto()
    STOP = auto()
    GRANT = auto()
    FOLD = auto()


class Limit(Enum):
    """What held a pass back; the values are those of the pass log's `binding_limit`."""

    NOTHING = "nothing"
    BUDGET = "budget"
    SEATS = "seats"
    KV_BLOCKS = "kv_blocks"
    ENCODER = "encoder"
    PAUSE = "pause"
    THROTTLE = "throttle"


class Verdict(Enum):
    """One name for each way out of a loop. The value is (name in the pass log, kind)."""

    # The running loop.
    LIST_DONE = ("list_done", Kind.STOP)
    NOTHING_TO_DO = ("nothing_to_do", Kind.SKIP)
    PREEMPTED = ("preempted", Kind.ASIDE)
    PREEMPTED_SELF = ("preempted_self", Kind.STOP)
    PREEMPTED_SELF_PASSED_OVER = ("preempted_self_passed_over", Kind.SKIP)
    EVICTION_WAITS = ("eviction_waits", Kind.STOP)
    FREES_PENDING = ("frees_pending", Kind.STOP)
    CONTINUED = ("continued", Kind.GRANT)

    # Both loops.
    BUDGET_SPENT = ("budget_spent", Kind.STOP)
    PAUSED_ALL = ("paused_all", Kind.STOP)
    PREFILL_DEFERRED = ("prefill_deferred", Kind.SKIP)
    ENCODER_UNFIT = ("encoder_unfit", Kind.SKIP)
    READ_AHEAD_UNFIT = ("read_ahead_unfit", Kind.SKIP)
    POLICY_HELD = ("policy_held", Kind.SKIP)
    BLOCKS_SHORT_PASSED_OVER = ("blocks_short_passed_over", Kind.SKIP)
    BLOCKS_SHORT_STOPPED = ("blocks_short_stopped", Kind.STOP)
    OUTPUT_CAP_IN_FLIGHT = ("output_cap_in_flight", Kind.SKIP)

    # The admission loop.
    QUEUES_EMPTY = ("queues_empty", Kind.STOP)
    PAUSED_NEW = ("paused_new", Kind.STOP)
    CLOSED_BY_PREEMPTION = ("closed_by_preemption", Kind.STOP)
    SEATS_FULL = ("seats_full", Kind.STOP)
    LORA_SLOTS_FULL = ("lora_slots_full", Kind.ASIDE)
    POLICY_DECLINED = ("policy_declined", Kind.ASIDE)
    BLOCKS_SHORT_SET_ASIDE = ("blocks_short_set_aside", Kind.ASIDE)
    AWAITING_GRAMMAR = ("awaiting_grammar", Kind.ASIDE)
    AWAITING_REMOTE_KV = ("awaiting_remote_kv", Kind.ASIDE)
    AWAITING_INPUT = ("awaiting_input", Kind.ASIDE)
    REMOTE_LOOKUP_PENDING = ("remote_lookup_pending", Kind.ASIDE)
    LOADING_REMOTE_KV = ("loading_remote_kv", Kind.ASIDE)
    STALE_OUTPUT_IN_FLIGHT = ("stale_output_in_flight", Kind.ASIDE)
    ENCODER_SET_ASIDE = ("encoder_set_aside", Kind.ASIDE)
    READ_AHEAD_SET_ASIDE = ("read_ahead_set_aside", Kind.ASIDE)
    PREFILLS_HELD = ("prefills_held", Kind.STOP)
    PADDED_DECODE_UNFIT = ("padded_decode_unfit", Kind.STOP)
    ENCODER_FULL = ("encoder_full", Kind.STOP)
    PROMPT_OVER_BUDGET = ("prompt_over_budget", Kind.STOP)
    KV_BLOCKS_SHORT = ("kv_blocks_short", Kind.STOP)
    KV_BLOCKS_SHORT_FULL_SEQUENCE = ("kv_blocks_short_full_sequence", Kind.STOP)
    KV_BLOCKS_SHORT_WATERMARK = ("kv_blocks_short_watermark", Kind.STOP)
    KV_BLOCKS_SHORT_RESERVATION = ("kv_blocks_short_reservation", Kind.STOP)
    ADMITTED = ("admitted", Kind.GRANT)
    RESUMED = ("resumed", Kind.GRANT)

    # The second half.
    ALREADY_FINISHED = ("already_finished", Kind.FOLD)
    LOAD_FAILED = ("load_failed", Kind.FOLD)
    OUTPUT_DISCARDED = ("output_discarded", Kind.FOLD)
    SEGMENT_DONE = ("segment_done", Kind.FOLD)
    FINISHED_STOPPED = ("finished_stopped", Kind.FOLD)
    FINISHED_LENGTH_CAPPED = ("finished_length_capped", Kind.FOLD)
    FINISHED_ERROR = ("finished_error", Kind.FOLD)

    def __init__(self, label: str, kind: Kind) -> None:
        self.label = label
        self.kind = kind
        self.number = 0  # its place among all, set below


for _number, _verdict in enumerate(Verdict):
    _verdict.number = _number


LIMIT_OF: dict[Verdict, Limit] = {
    Verdict.LIST_DONE: Limit.NOTHING,
    Verdict.QUEUES_EMPTY: Limit.NOTHING,
    Verdict.BUDGET_SPENT: Limit.BUDGET,
    Verdict.PROMPT_OVER_BUDGET: Limit.BUDGET,
    Verdict.SEATS_FULL: Limit.SEATS,
    Verdict.PREEMPTED_SELF: Limit.KV_BLOCKS,
    Verdict.EVICTION_WAITS: Limit.KV_BLOCKS,
    Verdict.FREES_PENDING: Limit.KV_BLOCKS,
    Verdict.BLOCKS_SHORT_STOPPED: Limit.KV_BLOCKS,
    Verdict.CLOSED_BY_PREEMPTION: Limit.KV_BLOCKS,
    Verdict.KV_BLOCKS_SHORT: Limit.KV_BLOCKS,
    Verdict.KV_BLOCKS_SHORT_FULL_SEQUENCE: Limit.KV_BLOCKS,
    Verdict.KV_BLOCKS_SHORT_WATERMARK: Limit.KV_BLOCKS,
    Verdict.KV_BLOCKS_SHORT_RESERVATION: Limit.KV_BLOCKS,
    Verdict.PADDED_DECODE_UNFIT: Limit.BUDGET,
    Verdict.ENCODER_FULL: Limit.ENCODER,
    Verdict.PAUSED_ALL: Limit.PAUSE,
    Verdict.PAUSED_NEW: Limit.PAUSE,
    Verdict.PREFILLS_HELD: Limit.THROTTLE,
}
