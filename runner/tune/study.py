"""What a search remembers, and whom it asks: Optuna's study, with every number told in order."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from schedbench.runner.tune.space import Choices, Point, Range, Space

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from optuna.trial import FrozenTrial, Trial

JOURNAL: Final = "tune.journal"
MOST_SEEDS: Final = 2**32  # that the sampler takes
STARTUP: Final = 8  # points before the sampler begins to learn
POINT, PLACE, PREFIX, ENDED = "point", "place", "prefix", "ended_with"


def distributions(space: Space) -> dict[str, BaseDistribution]:
    return {name: _distribution(each) for name, each in space.items()}


def _distribution(each: Range | Choices) -> BaseDistribution:
    if isinstance(each, Choices):
        return CategoricalDistribution(each.values)
    if each.whole:
        return IntDistribution(int(each.low), int(each.high), log=each.is_log)
    return FloatDistribution(each.low, each.high, log=each.is_log)


class Memory:
    """A study, in memory or in a journal that lies beside the runs."""

    def __init__(self, space: Space, root: Path | None, *, maximizes: bool, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage = None
        if root is not None:
            storage = optuna.storages.JournalStorage(JournalFileBackend(str(root / JOURNAL)))
        self._space = space
        self.seed = seed
        self.study = optuna.create_study(
            storage=storage,
            study_name="tune",
            load_if_exists=True,
            direction="maximize" if maximizes else "minimize",
            pruner=optuna.pruners.NopPruner(),
        )

    def known(self) -> list[FrozenTrial]:
        """Trials that were told, in that order; those that never were are given up."""
        trials = self.study.get_trials(deepcopy=False)
        for trial in trials:
            if trial.state is TrialState.RUNNING:
                self.study.tell(trial.number, state=TrialState.FAIL)
        told = [trial for trial in trials if PLACE in trial.user_attrs]
        return sorted(told, key=lambda trial: tuple(trial.user_attrs[PLACE]))

    @property
    def ended_with(self) -> int:
        """How many replays were asked for when the search last came to its end; 0: it never did."""
        return int(self.study.user_attrs.get(ENDED, 0))

    @ended_with.setter
    def ended_with(self, replays: int) -> None:
        self.study.set_user_attr(ENDED, replays)

    def next_batch(self) -> int:
        places = [
            trial.user_attrs[PLACE]
            for trial in self.study.get_trials(deepcopy=False)
            if PLACE in trial.user_attrs
        ]
        return max((batch for batch, _ in places), default=-1) + 1

    def ask(self, count: int, batch: int) -> list[tuple[Trial, Point]]:
        """Points by the sampler, which is made anew from the seed and the batch's number."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # both options are marked as experimental
            self.study.sampler = optuna.samplers.TPESampler(
                seed=(self.seed * 10_007 + batch) % MOST_SEEDS,
                n_startup_trials=STARTUP,
                multivariate=True,
                constant_liar=True,
            )
        found = []
        for _ in range(count):
            trial = self.study.ask(distributions(self._space))
            found.append((trial, self._snapped(trial.params)))
        return found

    def tell(
        self,
        trial: Trial | None,
        point: Point,
        place: tuple[int, int],
        value: float | None,
        prefix: float | None,
    ) -> None:
        """Tell what came of a point; without a value it was pruned, or could not be.

        `trial`: the one that was asked for; None for a point that nobody asked the sampler for.
        `place`: its batch, and where in it.
        """
        state = TrialState.PRUNED if value is None else TrialState.COMPLETE
        about = {POINT: point, PLACE: place, PREFIX: prefix}
        steps = {} if prefix is None else {1: prefix}
        if trial is None:
            made = optuna.trial.create_trial(
                state=state,
                value=value,
                params=point,
                distributions=distributions(self._space),
                user_attrs=about,
                intermediate_values=steps,
            )
            self.study.add_trial(made)
            return
        for name, known in about.items():
            trial.set_user_attr(name, known)
        for step, reported in steps.items():
            trial.report(reported, step)
        self.study.tell(trial, value, state=state)

    def _snapped(self, params: dict[str, Any]) -> Point:
        return {name: self._space[name].snapped(params[name]) for name in self._space}

    def importances(self, points: Sequence[Point]) -> dict[str, float]:
        """How much of the difference between points each flag makes; nothing where none is seen."""
        if len(points) <= STARTUP:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found: dict[str, float] = optuna.importance.get_param_importances(
                    self.study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
                )
            except (RuntimeError, ValueError):  # all of them are equal
                return {}
        total = sum(found.values())
        return {name: value / total for name, value in found.items()} if total else {}
