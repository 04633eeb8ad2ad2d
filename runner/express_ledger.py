"""What follows from the steps of a batch: digests, gaps between tokens, waits.

Nothing of it decides anything, so that it is worked out for many steps at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from schedbench.runner.record import victim_changes
from schedbench.runner.waits import WAIT_LABELS, label_of_stop
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.results.run_rows import Expansion, Integers
    from schedbench.runner.express_batch import Batch
    from schedbench.runner.record import DecisionDigest

Digests = npt.NDArray[np.uint64]
STOPS = [[f"{a.label} {b.label}" for b in Verdict] for a in Verdict]  # by number
_LABEL_OF_STOP = np.array([label_of_stop(verdict) for verdict in Verdict])


def decisions(digest: DecisionDigest, batch: Batch, of: dict[str, Integers]) -> Digests:
    """Chain the digest through a batch; its value after each step."""
    ends = np.maximum.accumulate(of["grants_end"])
    begins = np.concatenate(([0], ends[:-1]))
    running_stop, admission_stop = of["running_stop"], of["admission_stop"]
    stops = running_stop * len(STOPS) + admission_stop
    changes = np.concatenate(([True], stops[1:] != stops[:-1])) | (ends > begins)
    changes[list(batch.victims)] = True
    places = np.flatnonzero(changes)
    facts = (places, *(each[places] for each in (begins, ends, running_stop, admission_stop)))
    grants, values = bytes(batch.grants), [digest.value]
    for place, begin, end, first, second in zip(*(each.tolist() for each in facts), strict=True):
        changed = grants[begin:end]
        if place in batch.victims:
            changed += victim_changes(batch.victims[place])
        values.append(digest.changed(changed, STOPS[first][second]))
    return np.array(values, np.uint64)[np.cumsum(changes)]


def gaps_of_steps(of: dict[str, Integers], last_end_ns: int) -> tuple[Integers, Integers, Integers]:
    """From the end of a pass to the next one's, where those of a run all take as long.

    Gaps, how many tokens came after each, and the largest gap of each step. `last_end_ns`: of the
    pass before the first one.
    """
    durations, others, in_step = of["duration_ns"], of["passes"] - 1, of["in_step"]
    before = np.concatenate(([last_end_ns], of["end_ns"][:-1]))
    first = of["end_ns"] - others * durations - before
    runs = np.flatnonzero(others)
    gaps = np.concatenate((first, durations[runs]))
    tokens = np.concatenate((in_step, in_step[runs] * others[runs]))
    return gaps, tokens, np.where(others > 0, np.maximum(first, durations), first)


def gaps_of_passes(
    of: dict[str, Integers],
    last_end_ns: int,
    expansion: Expansion,
    durations: Integers,
    warmup_ns: int,
) -> tuple[Integers, Integers, Integers]:
    """As `gaps_of_steps`, for passes of any `durations`; without tokens before `warmup_ns`."""
    first = expansion.first
    rest = np.add.reduceat(durations, first) - durations[first]
    gaps = durations.copy()
    gaps[first] = of["end_ns"] - rest - np.concatenate(([last_end_ns], of["end_ns"][:-1]))
    ends = last_end_ns + np.cumsum(gaps)
    tokens = np.where(ends >= warmup_ns, of["in_step"][expansion.run], 0)
    return gaps, tokens, np.maximum.reduceat(gaps, first)


class Largest:
    """The largest of any stretch of values, for many stretches at once."""

    def __init__(self, values: Integers) -> None:
        self._of_length = [values]  # the largest of 1, 2, 4, ... values from each place on
        length = 1
        while 2 * length <= len(values):
            last = self._of_length[-1]
            self._of_length.append(np.maximum(last[:-length], last[length:]))
            length *= 2

    def between(self, first: Integers, last: Integers) -> Integers:
        """Of the values from `first` to `last`, both included; -1 of none."""
        answer = np.full(len(first), -1)
        lengths = last - first + 1
        level_of = np.frexp(np.maximum(lengths, 1))[1] - 1
        for level, values in enumerate(self._of_length):
            some = np.flatnonzero((level_of == level) & (lengths > 0))
            if len(some):
                ending = last[some] - (1 << level) + 1
                answer[some] = np.maximum(values[first[some]], values[ending])
        return answer


class Waits:
    """What anybody waits between two steps: the time between their starts, for what held it up."""

    def __init__(self, starts_ns: Sequence[Integers | list[int]], stops: Integers) -> None:
        """Starts of one step more than `stops` ended admission in."""
        elapsed = np.diff(np.concatenate(starts_ns))
        labels = _LABEL_OF_STOP[stops]
        self._sums = {
            int(label): np.concatenate(([0], np.cumsum(np.where(labels == label, elapsed, 0))))
            for label in np.unique(labels)
        }

    def between(self, first: Integers, last: Integers) -> Integers:
        """Of those that come by the step at place `first` and go by `last`: a row each.

        A row has ns by `WAIT_LABELS`.
        """
        waited = np.zeros((len(first), len(WAIT_LABELS)), np.int64)
        for label, sums in self._sums.items():
            waited[:, label] = sums[last] - sums[first]
        return waited
