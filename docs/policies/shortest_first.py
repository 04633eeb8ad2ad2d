"""Shortest job first with ageing: whoever has least left to compute goes first, but no one starves.

    schedbench replay TRACE --policy-class shortest_first:ShortestFirst

What is left is the part of the prompt that the prefix cache does not hold, and the output that is
still to come, taken from `max_tokens`: a trace that does not state it makes this an oracle.
"""

from schedbench import Policy, Request, State

TOKENS_A_SECOND = 200  # waiting one second weighs as much as this many tokens less


class ShortestFirst(Policy):
    """Order the queue by work left, less what was waited."""

    def waiting_key(self, request: Request, state: State) -> float:
        """Small keys go first; ties fall to whoever came first."""
        prompt = request.num_tokens - state.cached_tokens(request)
        output = request.max_tokens - request.num_output_tokens
        waited_s = (state.now_ns - request.arrival_time) / 1e9
        return prompt + output - TOKENS_A_SECOND * waited_s
