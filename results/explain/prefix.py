"""Why the prefix cache hit as much as it did: where shared tokens were lost.

|<------------------------- prompt tokens looked up -------------------------->|
|<------------------ shared with earlier requests ------------------->|  new    |
|<-- hit -->|<-- evicted -->|<-- not computed yet -->|<-- block floor -->|
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedbench.results.spread import Spread


@dataclass(slots=True)
class Lookups:
    """What was looked up, and found, by one kind of admission. Counts of tokens."""

    requests: int = 0
    queried: int = 0
    hit: int = 0

    def add(self, queried: int, hit: int) -> None:
        self.requests += 1
        self.queried += queried
        self.hit += hit

    @property
    def share(self) -> float | None:
        return self.hit / self.queried if self.queried else None


@dataclass(frozen=True, slots=True)
class Prefix:
    """The whole answer. `shared` is what earlier rows of the trace brought; None: it does not say.

    Tokens of `shared` are hit, or lost: `evicted` were in the cache once, `not_yet` were not
    computed when the request was admitted, `floor` do not fill a block or are the last token, which
    is always computed.
    """

    is_on: bool
    block_size: int
    hash_block_tokens: int | None
    first: Lookups
    resumed: Lookups
    external_tokens: int
    shared: int | None = None
    evicted: int = 0
    not_yet: int = 0
    floor: int = 0
    shared_spread: Spread = field(default_factory=dict)  # of the requests that share anything
    hit_shares: Mapping[str, int] = field(default_factory=dict)  # requests by share of prompt hit

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "enable_prefix_caching": self.is_on,
            "block_size": self.block_size,
            "hash_block_tokens": self.hash_block_tokens,
            "first_admissions": _lookups(self.first),
            "resumes": _lookups(self.resumed),
            "external_tokens": self.external_tokens,
            "shared_tokens": self.shared,
            "lost": {"evicted": self.evicted, "not_yet": self.not_yet, "block_floor": self.floor},
            "shared_tokens_spread": self.shared_spread,
            "requests_by_hit_share": dict(self.hit_shares),
        }


def _lookups(found: Lookups) -> dict[str, Any]:
    return {
        "requests": found.requests,
        "queried_tokens": found.queried,
        "hit_tokens": found.hit,
        "hit_share": found.share,
    }
