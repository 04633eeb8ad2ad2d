"""What the verdicts of the pass log mean, in a few words each."""

from collections.abc import Sequence
from typing import Final

from schedbench.results.units import number

MEANING: Final = {
    "pass_in_flight": "it came while a pass was running",
    "queues_empty": "nobody else was waiting",
    "budget_spent": "the token budget of the pass was spent",
    "prompt_over_budget": "a prompt was longer than the budget, and chunked prefill is off",
    "seats_full": "all max_num_seqs seats were taken",
    "kv_blocks_short": "too few free KV blocks for the next chunk",
    "kv_blocks_short_full_sequence": "too few free KV blocks for the whole prompt",
    "kv_blocks_short_watermark": "an admission would have gone below the watermark",
    "kv_blocks_short_reservation": "the free KV blocks are reserved for unfinished prefills",
    "closed_by_preemption": "a preemption in the pass closed admission",
    "lora_slots_full": "all max_loras adapters were in use",
    "encoder_full": "no room in the encoder's budget or cache",
    "padded_decode_unfit": "no room for a decode padded with drafts",
    "prefills_held": "prefills were put off while others decode",
    "prefill_deferred": "its prefill was put off while others decode",
    "awaiting_grammar": "its grammar was not compiled yet",
    "awaiting_remote_kv": "its KV was still being loaded",
    "loading_remote_kv": "its KV began to be loaded",
    "remote_lookup_pending": "the connector did not know yet what it holds",
    "awaiting_input": "the session had no next input yet",
    "stale_output_in_flight": "tokens of before its eviction were still on their way",
    "paused_all": "the engine was paused",
    "paused_new": "admissions were paused",
    "policy_declined": "the policy declined it",
    "policy_held": "the policy gave it no tokens",
    "blocks_short_set_aside": "too few free KV blocks; the policy let others pass",
    "blocks_short_passed_over": "too few free KV blocks; the policy let others pass",
    "blocks_short_stopped": "too few free KV blocks; the policy ended the loop",
    "output_cap_in_flight": "its last token was in flight already",
    "nothing_to_do": "all its known tokens were computed or in flight",
    "encoder_unfit": "no room for its next image in the encoder",
    "preempted_self": "the loop ended when a request evicted itself",
    "eviction_waits": "the victim's blocks were still being written, so that nobody was evicted",
    "frees_pending": "blocks were about to come back, so that nobody was evicted",
    "read_ahead_unfit": "nothing was left to compute before what the drafter reads ahead",
    "read_ahead_set_aside": "its next tokens reach into an image that has no room; others pass",
    "encoder_set_aside": "no room in the encoder's budget or cache; others pass",
    "preempted_self_passed_over": "it evicted itself, and the loop went on",
    "list_done": "the running list was done",
    "behind_the_head": "it lacked nothing itself, and waited for its turn",
}
"""By label, as the end of the sentence "it waited because ..."."""

LIMITS: Final = {
    "kv_blocks": "KV blocks",
    "seats": "seats (--max-num-seqs)",
    "budget": "the token budget (--max-num-batched-tokens)",
    "encoder": "the encoder's budget",
    "pause": "a pause",
    "throttle": "prefill throttling",
    "loras": "adapters (--max-loras)",
    "encoder_room": "the encoder's room (--max-num-encoder-input-tokens, --encoder-cache-size)",
}
"""What a limit is called: of the pass log's `binding_limit`, or one that sets requests aside."""

_PLURALS: Final = {"pass": "passes"}


def counted(amount: int, noun: str) -> str:
    """`1 pass`, `1,204 passes`."""
    return f"{number(amount)} {noun if amount == 1 else _PLURALS.get(noun, f'{noun}s')}"


def listed(names: Sequence[str], most: int, total: int | None = None) -> str:
    """The first few names, and how many more there are."""
    left = (len(names) if total is None else total) - min(len(names), most)
    return ", ".join([*names[:most], *([f"{number(left)} more"] if left > 0 else [])])
