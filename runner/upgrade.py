"""What made two runs part: everything in which they differ, switched on one at a time.

    first                  |--------- equal ---------| pass p, as the first decides it
    first + one switch     |--------- equal ---------| as the other does?   then that is a cause
    other                  |--------- equal ---------| pass p, as the other decides it

A switch is a named behaviour of a release, or a flag. Where none is enough, several are needed:
those without which the other run decides pass p as the first. Replays end behind pass p, and
behaviours that nothing asked about until then are not tried.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from schedbench.errors import SchedbenchError
from schedbench.results.cause import Cause
from schedbench.results.compare import first_by_decisions
from schedbench.runner.run import EnoughError, ReplayOptions, replay, with_kv_role
from schedbench.runner.workers import Workers
from schedbench.sched.behaviours import Behaviours, all_facts, parse_switches, typed
from schedbench.sched.config import option_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from schedbench.runner.api import Runner
    from schedbench.runner.replay import Replay
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

    Digests = npt.NDArray[np.uint64]

RELEASE_FIELDS = ("vllm_version", "behaviours")


@dataclass(frozen=True)
class Side:
    """A run to be explained: its flags and its pass log."""

    config: SchedulerConfig
    passes: pa.Table


@dataclass(frozen=True)
class Switch:
    """One thing in which two configurations differ; `name` as it is typed."""

    name: str
    changes: Mapping[str, Any]
    behaviour: str = ""  # its field, if it is one


@dataclass(frozen=True)
class Trial:
    """A replay to be made, as far as `passes` of it; all of it where that is None."""

    switch: Switch
    config: SchedulerConfig
    options: ReplayOptions
    runner: Runner | None
    passes: int | None


@dataclass(frozen=True)
class Tried:
    """What a trial decided, pass by pass; nothing where it was refused."""

    decisions: Digests | None
    summary: dict[str, Any] | None = None
    passes: pa.Table | None = None


def find_cause(
    trace: Trace,
    first: Side,
    other: Side,
    options: ReplayOptions,
    runner: Runner | None = None,
    *,
    workers: int | None = None,
    told: Callable[[int, int], None] | None = None,
) -> Cause | None:
    """The switches that make two runs part, and what the first of them does by itself.

    Args:
        trace: as it was given to both runs.
        first: the run that is changed step by step.
        other: the run it is to become.
        options: how both were replayed.
        runner: what gives times to passes; that of `options` if left out.
        workers: processes; as many as there are cores if left out.
        told: hears how many of how many replays are done.

    Returns None where every pass is decided alike.
    """
    with Workers(trace, workers) as pool:
        trials = Trials(trace, pool, options, runner, told or (lambda _done, _of: None))
        return cause_between(trials, first, other)


def cause_between(trials: Trials, first: Side, other: Side) -> Cause | None:
    """As `find_cause`, on processes that are there."""
    parting = first_by_decisions(first.passes, other.passes)
    if parting is None:
        return None
    a, b = (Side(with_kv_role(trials.trace, each.config), each.passes) for each in (first, other))
    return _cause(trials, a, b, parting.index)


@dataclass(frozen=True)
class Trials:
    """Replays with one thing switched, on all cores."""

    trace: Trace
    pool: Workers
    options: ReplayOptions
    runner: Runner | None
    told: Callable[[int, int], None]

    def of(
        self, base: SchedulerConfig, switches: list[Switch], passes: int | None = None
    ) -> list[Tried]:
        """What came of each switch, in their order."""
        trials = [
            Trial(switch, config, self.options, self.runner, passes)
            for switch in switches
            if (config := _switched(base, switch)) is not None
        ]
        found: dict[str, Tried] = {}
        for trial, result in self.pool.each(try_switch, trials):
            found[trial.switch.name] = result or Tried(None)
            self.told(len(found), len(trials))
        return [found.get(switch.name, Tried(None)) for switch in switches]

    def that_give(
        self, wanted: Digests, index: int, base: SchedulerConfig, switches: list[Switch]
    ) -> tuple[list[Switch], int]:
        """Those with which `base` decides all as wanted, up to and with a pass; how many tried."""
        asked = self._asked(base, index + 1)
        heard = [each for each in switches if not each.behaviour or each.behaviour in asked]
        results = self.of(base, heard, index + 1)
        given = [s for s, r in zip(heard, results, strict=True) if _equal(r, wanted, index)]
        return given, len(heard)

    def _asked(self, base: SchedulerConfig, passes: int) -> set[str]:
        """The behaviours that anything asks about in so many passes."""
        config, asked = listening(base)
        try_switch(self.trace, Trial(Switch("", {}), config, self.options, self.runner, passes))
        return asked


def _cause(trials: Trials, first: Side, other: Side, index: int) -> Cause:
    switches = differences(first.config, other.config)
    alone, tried = trials.that_give(_digests(other.passes), index, first.config, switches)
    if not alone:
        back = differences(other.config, first.config)
        needed, more = trials.that_give(_digests(first.passes), index, other.config, back)
        there = dict(zip((each.name for each in back), switches, strict=True))
        together = tuple(there[each.name].name for each in needed)
        return Cause(len(switches), max(tried, more), together=together)
    names = tuple(switch.name for switch in alone)
    (whole,) = trials.of(first.config, alone[:1])
    if whole.passes is None:
        return Cause(len(switches), tried, names)
    rest = first_by_decisions(whole.passes, other.passes)
    next_index = None if rest is None else rest.index
    return Cause(len(switches), tried, names, (), next_index, whole.summary)


class Listening:
    """Stands in for a configuration's behaviours, and notes which are asked about."""

    def __init__(self, behaviours: Behaviours, asked: set[str]) -> None:
        self._behaviours, self._asked = behaviours, asked

    def __getattr__(self, name: str) -> bool:
        self._asked.add(name)
        return bool(getattr(self._behaviours, name))

    def __deepcopy__(self, _memo: object) -> Self:
        """A dry run copies rooms that hold the behaviours; it listens as well."""
        return self


def listening(config: SchedulerConfig) -> tuple[SchedulerConfig, set[str]]:
    """The same configuration, with nothing derived yet, and the set it notes in."""
    asked: set[str] = set()
    twin = object.__new__(type(config))
    vars(twin).update(
        {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
    )
    vars(twin)["behaviour"] = Listening(config.behaviour, asked)
    return twin, asked


def differences(first: SchedulerConfig, other: SchedulerConfig) -> list[Switch]:
    """What it takes to get from one configuration to the other, one thing at a time."""
    has, wants = first.behaviour, other.behaviour
    behaviours = [
        Switch(typed(facts.name), _behaviour(first, facts.name, facts.needs), facts.name)
        for facts in all_facts()
        if getattr(has, facts.name) != getattr(wants, facts.name)
    ]
    flags = [
        Switch(f"{option_of(field.name)} {value}", {field.name: value, **_needed(first, field)})
        for field in dataclasses.fields(first)
        if field.name not in RELEASE_FIELDS
        and getattr(first, field.name) != (value := getattr(other, field.name))
    ]
    return behaviours + flags


def _needed(config: SchedulerConfig, flag: dataclasses.Field[Any]) -> dict[str, str]:
    """The behaviour without which a release does not have a flag, where it is off."""
    needs = flag.metadata["needs"]
    if not needs or getattr(config.behaviour, needs):
        return {}
    facts = next(each for each in all_facts() if each.name == needs)
    return _behaviour(config, needs, facts.needs)


def _behaviour(config: SchedulerConfig, name: str, needs: str) -> dict[str, str]:
    """A behaviour the other way round, with what it needs where it is switched on."""
    behaviour: Behaviours = config.behaviour
    switches = parse_switches(config.behaviours) | {name: not getattr(behaviour, name)}
    if needs and switches[name] and not getattr(behaviour, needs):
        switches |= dict.fromkeys(_chain(needs), True)
    words = [f"{each}={'on' if is_on else 'off'}" for each, is_on in switches.items()]
    return {"behaviours": "+".join(words)}


def _chain(name: str) -> list[str]:
    """A behaviour and all that it needs."""
    needs = next(facts.needs for facts in all_facts() if facts.name == name)
    return [name, *(_chain(needs) if needs else [])]


def _switched(config: SchedulerConfig, switch: Switch) -> SchedulerConfig | None:
    """The configuration with one thing changed; None where a release without it refuses a flag."""
    try:
        return dataclasses.replace(config, **switch.changes)
    except SchedbenchError:
        return None


def try_switch(trace: Trace, trial: Trial) -> Tried:
    """Make one replay; that it stalls or is refused is a result as well."""
    try:
        run = replay(
            trace,
            trial.config,
            trial.runner,
            options=trial.options,
            progress=None if trial.passes is None else Until(trial.passes),
        )
    except SchedbenchError:
        return Tried(None)
    whole = trial.passes is None
    return Tried(
        _digests(run.passes), run.summary if whole else None, run.passes if whole else None
    )


@dataclass(frozen=True)
class Until:
    """Ends a replay behind so many passes, none of them in flight any more."""

    passes: int

    def __call__(self, replay: Replay) -> None:
        if replay.recorder.num_passes > self.passes + replay.scheduler.config.passes_in_flight:
            raise EnoughError


def _digests(passes: pa.Table) -> Digests:
    found: Digests = passes.column("decisions").to_numpy()
    return found


def _equal(tried: Tried, wanted: Digests, index: int) -> bool:
    """Whether all is decided as wanted up to and with a pass; both may end before it."""
    found = tried.decisions
    if found is None or len(found) <= index or len(wanted) <= index:
        return found is not None and len(found) == len(wanted) and _same_end(found, wanted)
    return bool(found[index] == wanted[index])


def _same_end(found: Digests, wanted: Digests) -> bool:
    return not len(found) or bool(found[-1] == wanted[-1])
