"""Modelled time: a pass costs what a model of it predicts; nothing is executed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedbench.runner.api import PassResult, RunnerInfo
from schedbench.runner.capture import capture_sizes
from schedbench.runner.latency.components import ANALYTIC, Coefficients
from schedbench.runner.latency.range_watch import RangeWatch
from schedbench.runner.shapes import PassShape, features

if TYPE_CHECKING:
    from collections import Counter

    import numpy.typing as npt

    from schedbench.runner.latency.profile import Profile
    from schedbench.runner.latency.work import WorkModel
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import SchedulerOutput


@dataclass
class LatencyRunner:
    """The roofline (no profile: an estimate) or the components model fitted in a profile.

    Passes with a feature beyond the profile's measured range are predicted all the same, counted
    by feature, and told of by `notes`.
    """

    work_model: WorkModel
    profile: Profile | None = None
    eager: bool = False  # no captured graphs, as with vLLM's --enforce-eager
    needs_block_ids = False

    def __post_init__(self) -> None:
        self._sizes: list[int] = []
        self._known: dict[int, tuple[float, float, float]] = {}  # by number of decodes
        self._range = RangeWatch()

    @property
    def outside(self) -> Counter[str]:
        """How many passes lay beyond the measured range, by feature."""
        return self._range.outside

    @property
    def coefficients(self) -> Coefficients:
        return self.profile.coefficients if self.profile else ANALYTIC

    @property
    def name(self) -> str:
        return "fitted" if self.profile else "roofline"

    @property
    def description(self) -> str:
        """Which model of time it is, for which model and GPU; says so where nothing is fitted."""
        work = self.work_model
        rank = work.tensor_parallel_size
        where = f"{work.model.name} on {f'{rank} x ' if rank > 1 else ''}{work.gpu.name}"
        if self.profile is None:
            return f"roofline for {where}: an estimate, fitted to nothing"
        checked = self.profile.held_out
        error = f"held-out error {checked.mape:.1%}" if checked else "no held-out passes"
        return f"profile of {where}: {error}"

    def open(self, config: SchedulerConfig) -> RunnerInfo:
        """Take the captured batch sizes from the flags; the counts in the details stay live."""
        self._known = {}
        if not self.eager:
            self._sizes = capture_sizes(config.max_num_seqs, config.max_num_batched_tokens)
        work = self.work_model
        details: dict[str, object] = {
            "estimate": self.profile is None,
            "model": work.model.name,
            "gpu": work.gpu.name,
            "dtype": work.dtype,
            "tensor_parallel_size": work.tensor_parallel_size,
            "coefficients": asdict(self.coefficients),
            "captured_sizes": len(self._sizes),
            "gpu_source": work.gpu.source,
            "gpu_unverified": list(work.gpu.unverified),
            "passes_outside_range": self.outside,
        }
        if self.profile is not None:
            details["grid_hash"] = self.profile.grid_hash
            details["ranges"] = dict(self.profile.ranges)
        return RunnerInfo(self.name, "model", self.description, details)

    def execute(self, scheduler_output: SchedulerOutput) -> PassResult:
        shape = features(scheduler_output)
        work = self.work_model.work(shape, self._sizes)
        if self.profile is not None:
            prefills = scheduler_output.prefills
            context = sum(computed for _, computed, _ in prefills)
            self._range.passed(
                self.profile,
                shape,
                shape.num_seqs - len(prefills),
                scheduler_output.context_tokens - context,
            )
        duration_ns = max(1, round(self.coefficients.seconds(work) * 1e9))
        return PassResult(duration_ns, "model")

    def decode_durations(
        self, num_decodes: int, context_tokens: int, num_passes: int
    ) -> npt.NDArray[np.int64]:
        """How long each of a run of passes takes in which so many requests decode.

        To the bit what `execute` says of them: the same sums in the same order.
        """
        first = context_tokens + num_decodes
        keys = np.arange(first, first + num_decodes * num_passes, num_decodes)
        if self.profile is not None:
            shape = PassShape(num_decodes, num_decodes, 0, 0, first, num_decodes)
            self._range.will_run(self.profile, shape, num_passes)
        before, key_s, after = self._of_decodes(num_decodes)
        seconds = before + keys * key_s / self.coefficients.e_k + after
        durations: npt.NDArray[np.int64] = np.maximum(np.rint(seconds * 1e9), 1).astype(np.int64)
        return durations

    def _of_decodes(self, num_decodes: int) -> tuple[float, float, float]:
        """What such passes take before the keys, seconds a key, and what they take after."""
        found = self._known.get(num_decodes)
        if found is None:
            shape = PassShape(num_decodes, num_decodes, 0, 0, 0, num_decodes)
            before, after = self.coefficients.around_kv(self.work_model.work(shape, self._sizes))
            found = before, self.work_model.key_s(shape, self._sizes), after
            self._known[num_decodes] = found
        return found

    def notes(self) -> list[str]:
        """What a reader of the results has to know once the passes are done."""
        return self._range.notes()

    def close(self) -> None:
        """Count the last run of decodes; nothing is held."""
        self._range.settle()
