"""Evict whoever loses least: the request with the fewest computed tokens.

    schedbench replay TRACE --policy-class least_recompute:LeastRecompute

vLLM evicts the request that was admitted last, however much of it is computed.
"""

from schedbench import Policy, Request, State


class LeastRecompute(Policy):
    """Choose the victim by what would have to be computed again."""

    def victim(self, request: Request, state: State) -> Request:
        """Whoever asks for blocks; of equals, the youngest goes."""
        del request
        return min(state.running, key=lambda each: (each.num_computed_tokens, -each.arrival_time))
