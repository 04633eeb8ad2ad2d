"""Workload: everything that decides a synthetic trace, in one value."""

from dataclasses import dataclass, field
from typing import Any

from schedbench.errors import UsageError
from schedbench.workloads.generators.arrivals import Arrivals, Poisson
from schedbench.workloads.generators.draws import Choice
from schedbench.workloads.generators.lengths import (
    Distribution,
    Empirical,
    LengthModel,
    Lengths,
    Lognormal,
    Uniform,
)
from schedbench.workloads.generators.prefixes import PrefixTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Conversations: each turn's prompt is all that was said before, plus what the user adds.

    A turn comes `think_ms` after the turn before it finished (closed loop: `after`, `think_ns`).
    `arrival_ns` must hold a time too; it supposes that a turn takes ttft_ms + tpot_ms per output
    token, and is what an open-loop replay uses.
    """

    turns: Distribution = field(default_factory=lambda: Uniform(1, 6))
    think_ms: Distribution = field(default_factory=lambda: Lognormal(10_000, 1.0, high=3_600_000))
    followup: Distribution | None = None  # what the user adds; as long as a first prompt if None
    count: int | None = None  # sessions that begin; as many as needed if None
    context_tokens: int = 131_072  # a session ends before the turn that would pass this
    ttft_ms: int = 500
    tpot_ms: int = 20

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise UsageError(f"sessions: count {self.count} is below 1")
        if min(self.context_tokens, self.ttft_ms, self.tpot_ms) < 0:
            raise UsageError("sessions: context_tokens, ttft_ms and tpot_ms can't be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`requests` rows; with `sessions`, `arrivals` says when sessions begin, not requests."""

    requests: int
    seed: int = 0
    arrivals: Arrivals = field(default_factory=lambda: Poisson(1.0))
    lengths: LengthModel = field(
        default_factory=lambda: Lengths(Lognormal(512, 1.0), Lognormal(128, 1.0))
    )
    prefixes: PrefixTree | None = None
    sessions: Sessions | None = None
    hash_block_tokens: int = 16
    priority: Choice | None = None
    client: Choice | None = None
    lora: Choice | None = None

    def __post_init__(self) -> None:
        if self.requests < 1:
            raise UsageError(f"requests: {self.requests} is below 1")
        if self.hash_block_tokens < 1:
            raise UsageError(f"hash_block_tokens: {self.hash_block_tokens} is below 1")
        if self.client and min(self.client.values) < 0:
            raise UsageError("client: indices start at 0")
        if self.lora and min(self.lora.values) < 0:
            raise UsageError("lora: adapters start at 1; 0 stands for the base model")

    @property
    def shares_prefixes(self) -> bool:
        return self.prefixes is not None or self.sessions is not None

    def provenance(self) -> dict[str, Any]:
        """What the trace file says of its making; enough to make it again."""
        return {
            "format": "synthetic",
            "generator": "schedbench.workloads.generators.synth",
            "seed": self.seed,
            "options": _plain(self),
            "licence": "Apache-2.0",
            "attribution": "generated, not recorded: no row comes from a real service",
        }


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON has no type
    """The options as JSON; each alternative carries its kind."""
    if isinstance(value, Empirical):
        return {"kind": "empirical", "digest": value.trace.digest}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        fields = {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
        kept = {name: item for name, item in fields.items() if item is not None}
        return {"kind": type(value).__name__.lower(), **kept}
    return value
