"""Counts the passes that lie beyond what a profile measured.

A run of decodes is predicted before it is known how much of it will be made: an arrival may cut it
short. So a run is counted when the next pass shows how far its contexts have grown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from schedbench.runner.latency.profile import Profile
    from schedbench.runner.shapes import PassShape


class _Run(NamedTuple):
    """Decode passes to be counted: who judges them, the first one, how many there are at most."""

    profile: Profile
    first: PassShape
    num_passes: int

    @property
    def context_tokens(self) -> int:
        """Read in the first pass, its own tokens apart."""
        return self.first.keys_read - self.first.num_tokens


@dataclass(slots=True)
class RangeWatch:
    """Passes seen and passes beyond the range, by feature."""

    outside: Counter[str] = field(default_factory=Counter)
    num_passes: int = 0
    num_outside: int = 0
    _run: _Run | None = None

    def passed(
        self, profile: Profile, shape: PassShape, num_decodes: int, context_tokens: int
    ) -> None:
        """Count one pass, in which so many decodes read so many computed tokens."""
        self._settle_before(num_decodes, context_tokens)
        self._count(_Run(profile, shape, 1))

    def will_run(self, profile: Profile, first: PassShape, num_passes: int) -> None:
        """Note a run of equal decodes, to be counted when its length is known."""
        run = _Run(profile, first, num_passes)
        self._settle_before(first.num_seqs, run.context_tokens)
        self._run = run

    def settle(self) -> None:
        """Count what was noted as if all of it was made."""
        if self._run is not None:
            self._count(self._run)
            self._run = None

    def notes(self) -> list[str]:
        """One line if any pass lay beyond the range."""
        self.settle()
        if not self.num_outside:
            return []
        worst = ", ".join(f"{name} in {count}" for name, count in self.outside.most_common())
        share = f"{self.num_outside} of {self.num_passes} passes"
        return [f"{share} lie beyond what the profile measured ({worst}): extrapolated durations"]

    def _settle_before(self, num_decodes: int, context_tokens: int) -> None:
        """Count the run noted last, now that the next pass's decodes are known.

        Contexts grow by one token a decode and pass. Whoever ends, ends in the last pass of a run:
        fewer decodes mean that all of it was made.
        """
        run = self._run
        if run is not None and num_decodes == run.first.num_seqs:
            made = (context_tokens - run.context_tokens) // num_decodes
            self._run = run._replace(num_passes=min(max(made, 0), run.num_passes))
        self.settle()

    def _count(self, run: _Run) -> None:
        """Only `keys_read` grows in a run, so that passes beyond its range are the last ones."""
        profile, shape, num_passes = run
        self.num_passes += num_passes
        beyond = dict.fromkeys(profile.outside(shape), num_passes)
        if "keys_read" in profile.ranges and "keys_read" not in beyond:
            room = profile.ranges["keys_read"][1] - shape.keys_read
            late = num_passes - room // max(shape.num_seqs, 1) - 1
            if late > 0:
                beyond["keys_read"] = late
        self.num_outside += max(beyond.values(), default=0)
        self.outside.update(beyond)
