"""The decisions of a replay as one number a pass, so that two replays can be told apart by it."""

from __future__ import annotations

import hashlib
from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from schedbench.sched.output import SchedulerOutput

ADMITTED: Final = 1
RESUMED: Final = 2
CHUNK: Final = 3
VICTIM: Final = 4


def victim_changes(rows: Iterable[int]) -> bytes:
    """What the digest is told of requests that a pass evicted."""
    return array("Q", [each for row in rows for each in (VICTIM, row)]).tobytes()


class DecisionDigest:
    """64 bits chained over the changes of each pass; a pass without change leaves it as it is.

    A change is an admission, a prefill chunk, a victim, or another verdict at the end of a loop.
    Decode grants follow from these.
    """

    def __init__(self) -> None:
        self.value = 0
        self._stops = ""

    def update(self, output: SchedulerOutput) -> int:
        stops = f"{output.running_stop.label} {output.admission_stop.label}"
        if not output.prefills and not output.victims:
            return self.changed(b"", stops)
        changes = array("Q")
        resumed = set(output.scheduled_resumed_reqs)
        first_admission = len(output.prefills) - len(output.scheduled_new_reqs) - len(resumed)
        for place, (request, computed, tokens) in enumerate(output.prefills):
            kind = CHUNK if place < first_admission else RESUMED if request in resumed else ADMITTED
            changes.extend((kind, request.tag.row, tokens, computed))
        victims = victim_changes([victim.request.tag.row for victim in output.victims])
        return self.changed(changes.tobytes() + victims, stops)

    def changed(self, changes: bytes, stops: str) -> int:
        """Note the changes of a pass, if there are any, and how its loops ended.

        Changes are numbers of 64 bits: a kind, a row and what it takes, each.
        """
        self.value = int.from_bytes(self._next(self._packed(), changes, stops), "little")
        return self.value

    def _next(self, value: bytes, changes: bytes, stops: str) -> bytes:
        if stops == self._stops:
            if not changes:
                return value
            payload = value + changes
        else:
            self._stops = stops
            payload = value + changes + stops.encode()
        return hashlib.blake2b(payload, digest_size=8).digest()

    def steps(
        self,
        grants: bytes,
        victims: Mapping[int, Sequence[int]],
        changed: Iterable[tuple[int, int, int, str]],
    ) -> bytes:
        """Chain many passes or runs of them; the value before all, and after each, packed.

        Args:
            grants: changes of all of them, packed.
            victims: rows, by place.
            changed: of each its place, where its grants begin and end, and how its loops ended.
        """
        values = [value := self._packed()]
        for place, begin, end, stops in changed:
            changes = grants[begin:end]
            if place in victims:
                changes += victim_changes(victims[place])
            value = self._next(value, changes, stops)
            values.append(value)
        self.value = int.from_bytes(value, "little")
        return b"".join(values)

    def _packed(self) -> bytes:
        return self.value.to_bytes(8, "little")
