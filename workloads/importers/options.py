"""What can be asked of an import; every option that is used is recorded in provenance."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from schedbench.bounds import SEED, SOME
from schedbench.errors import UsageError

_ALLOWED: dict[str, tuple[str | None, ...]] = {
    "on_zero_output": ("error", "drop", "one"),
    "dedupe_ids": (None, "suffix"),
    "time_unit": (None, "s", "ms", "us", "ns"),
}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Defaults refuse whatever would change the traffic.

    Attributes:
        on_zero_output: what to do with requests that generated nothing (failures): refuse the
            file, drop them, or give each one token.
        strict_order: refuse rows that are out of order instead of sorting them.
        dedupe_ids: `suffix` gives every repeat of a request id `-2`, `-3`, ...
        spread: draw the arrivals of one tick of a coarse clock evenly over that tick.
        seed: of the spread.
        limit: keep the first requests only, after dropping and sorting.
        tz: the zone of dates without one, by IANA name; UTC when not given.
        time_unit: s, ms, us or ns, where a format's times are in another unit than it states.
        hash_block_tokens: tokens a prefix id covers, where not the format's usual number.
        tokens_per_image: assumed length of each image, for traces that count images only.
        mapping: for `columns`: schema column -> source column, `:unit` for times.
    """

    on_zero_output: Literal["error", "drop", "one"] = "error"
    strict_order: bool = False
    dedupe_ids: Literal["suffix"] | None = None
    spread: bool = False
    seed: int = 0
    limit: int | None = None
    tz: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    hash_block_tokens: int | None = None
    tokens_per_image: int | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises UsageError for values that cannot be."""
        for name, allowed in _ALLOWED.items():
            if (value := getattr(self, name)) not in allowed:
                known = ", ".join(str(choice) for choice in allowed if choice is not None)
                raise UsageError(f"{_flag(name)} {value}: there are {known}")
        for name in ("limit", "hash_block_tokens", "tokens_per_image"):
            if (value := getattr(self, name)) is not None:
                SOME.check(value, _flag(name))
        SEED.check(self.seed, "--spread-seed")
        if self.seed and not self.spread:
            raise UsageError(
                f"--spread-seed {self.seed} would have no effect without --spread; give that too, "
                "or leave the seed out"
            )

    def block_tokens(self, usual: int) -> int:
        """Tokens a prefix id covers: as given, or the format's usual number."""
        return usual if self.hash_block_tokens is None else self.hash_block_tokens

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults, for provenance."""
        defaults = asdict(DEFAULT_OPTIONS)
        return {name: value for name, value in asdict(self).items() if value != defaults[name]}


DEFAULT_OPTIONS = ImportOptions()
