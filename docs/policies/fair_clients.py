"""Fair sharing by client: the client that was served least so far goes first.

    schedbench replay TRACE --policy-class fair_clients:FairClients

Service is counted in tokens, computed and generated alike. A client that was away comes back level
with the least served of those that are there, so that nobody saves up for later.
"""

from schedbench import Policy, Request, State


class FairClients(Policy):
    """A counter a client, as in "Fairness in Serving Large Language Models" (VTC)."""

    def __init__(self) -> None:
        self.served: dict[int, int] = {}  # tokens, by client
        self.seen: dict[str, int] = {}  # computed tokens at the last look, by running request

    def pass_budget(self, state: State) -> int:
        """Asked once a pass: count what was computed since the last one."""
        present = {request.client_index for request in (*state.running, *state.waiting)}
        here = [self.served[client] for client in present & self.served.keys()]
        for client in present - self.served.keys():
            self.served[client] = min(here, default=0)
        self.served = {client: self.served[client] for client in present}
        before, self.seen = self.seen, {}
        for request in state.running:
            self.seen[request.request_id] = request.num_computed_tokens
            news = request.num_computed_tokens - before.get(request.request_id, 0)
            self.served[request.client_index] += news
        return super().pass_budget(state)

    def waiting_key(self, request: Request, state: State) -> tuple[int, int]:
        """The least served client first, and its oldest request."""
        del state
        return self.served.get(request.client_index, 0), request.arrival_time
