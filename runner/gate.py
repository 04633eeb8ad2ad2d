"""Replays a trace and holds it against a baseline, or makes the baseline.

A baseline file says by itself what to run: the flags and options that are not the defaults, and
the trace's digest. Beside it its pass log may be kept:

    baselines/conv.json
    baselines/conv.passes.parquet
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from schedbench.errors import RunStoreError, UsageError
from schedbench.results.compare import first_by_decisions, first_by_values
from schedbench.results.files import write_json, writing
from schedbench.results.gate import (
    PARTS,
    GateResult,
    check,
    make_baseline,
    passes_digest,
)
from schedbench.results.pass_log import CLOCK_COLUMNS
from schedbench.runner.deployment import DEFAULT_COST, Deployment
from schedbench.runner.events import Event
from schedbench.runner.manifest import vars_of
from schedbench.runner.plugins import load_scheduler
from schedbench.runner.run import ReplayOptions, Run, replay
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.too_long import TooLong

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from schedbench.runner.replay import Progress
    from schedbench.workloads.trace import Trace

PASSES: Final = ".passes.parquet"
OPTIONS: Final = (
    "speedup",
    "arrivals",
    "think_ns",
    "too_long",
    "warmup_ns",
    "events",
    "spec_acceptance",
    "seed",
    "scheduler",
    "policy_class",
    "deployment",
)
"""Fields of ReplayOptions that decide a run."""

LOGICAL: Final = Deployment(cost=DEFAULT_COST)
"""Where nothing is said of time: a gate is about decisions, and a model of time may get better."""


@dataclass(frozen=True)
class Setup:
    """What decides a gated run beside its trace."""

    config: SchedulerConfig
    options: ReplayOptions

    def changed(self, **given: Any) -> Setup:  # noqa: ANN401 - flags and options by name
        """With other flags, options or cost. Raises UsageError for a name that is none of them."""
        names = {each.name for each in fields(SchedulerConfig)}
        if unknown := given.keys() - {*names, *OPTIONS}:
            raise UsageError(f"{', '.join(sorted(unknown))}: no flag of the scheduler, no option")
        flags = {name: given[name] for name in names & given.keys()}
        options = {name: given[name] for name in OPTIONS if name in given}
        return Setup(
            dataclasses.replace(self.config, **flags),
            dataclasses.replace(self.options, **options),
        )

    def flags(self) -> dict[str, Any]:
        """All of it by name, for comparison."""
        options = {name: getattr(self.options, name) for name in OPTIONS}
        options["too_long"] = str(options["too_long"])
        options["events"] = [vars_of(event) for event in self.options.events]
        options["deployment"] = self.options.deployment.as_dict()
        return {**self.config.as_dict(), **options}

    def own_flags(self) -> dict[str, Any]:
        """What is not the default, which is what a baseline keeps; and always the time."""
        defaults = DEFAULTS.flags()
        return {
            name: value
            for name, value in self.flags().items()
            if name == "deployment" or value != defaults[name]
        }


MARK: Final = b'"baseline_version"'
BEGINNING: Final = 64  # bytes within which a baseline has it


class BrokenBaselineError(RunStoreError):
    """A baseline that is damaged, and that `--update` writes over."""


DEFAULTS: Final = Setup(SchedulerConfig(), ReplayOptions(deployment=LOGICAL))


def setup_of(baseline: Mapping[str, Any], path: Path) -> Setup:
    """What a baseline was made with. Raises RunStoreError for flags that are not known here."""
    kept = dict(baseline["flags"])
    if "too_long" in kept:
        kept["too_long"] = TooLong(kept["too_long"])
    if "events" in kept:
        kept["events"] = [Event(**each) for each in kept["events"]]
    kept["deployment"] = Deployment(**kept["deployment"])
    try:
        return DEFAULTS.changed(**kept)
    except UsageError as error:
        raise RunStoreError(f"{path} was made with {error}; make it again with --update") from error


def read_baseline(path: Path) -> dict[str, Any]:
    """Raises RunStoreError for none or something else, BrokenBaselineError for a damaged one."""
    try:
        data = path.read_bytes()
        found = orjson.loads(data)
    except FileNotFoundError as error:
        raise RunStoreError(
            f"{path}: there is no such baseline. Make it with --update, look at it, and keep it "
            "beside the code"
        ) from error
    except orjson.JSONDecodeError as error:
        if data.strip() and MARK not in data[:BEGINNING]:
            raise _no_baseline(path) from error
        raise BrokenBaselineError(_unreadable(path, error)) from error
    except OSError as error:
        raise RunStoreError(f"{path} cannot be read: {error}. Give another --baseline") from error
    if not isinstance(found, dict) or "baseline_version" not in found:
        raise _no_baseline(path)
    if lacking := [name for name in PARTS if name not in found]:
        raise BrokenBaselineError(
            f"{path} is cut short: it lacks {', '.join(lacking)}. Make it again with --update"
        )
    return found


def _unreadable(path: Path, error: Exception) -> str:
    return f"{path} cannot be read: {error}. Make it again with --update"


def _no_baseline(path: Path) -> RunStoreError:
    return RunStoreError(
        f"{path} is no baseline of schedbench, and is not written over. Give another --baseline, "
        "or remove that file"
    )


def run_setup(trace: Trace, setup: Setup, progress: Progress | None = None) -> Run:
    """Replay in memory.

    Raises:
        UsageError: the scheduler named is none whose verdicts a gate could hold.
    """
    load_scheduler(setup.options.scheduler)
    return replay(trace, setup.config, options=setup.options, progress=progress)


def gate(
    path: Path,
    baseline: Mapping[str, Any],
    run: Run,
    setup: Setup,
    *,
    window: Mapping[str, str] | None = None,
) -> GateResult:
    """Hold a run against a baseline, and name the first pass that differs as exactly as can be.

    `window`: which part of the trace was taken, as it was typed.
    """
    full = {**baseline, "flags": {**DEFAULTS.flags(), **baseline["flags"]}}
    tables = (run.summary, run.passes, run.requests)
    trace = {**run.manifest["trace"], "window": window}
    result = check(full, *tables, trace=trace, flags=setup.flags())
    kept = kept_passes(path, baseline)
    if kept is None or result.passed:
        return result
    first = first_by_decisions(kept, run.passes) or first_by_values(kept, run.passes, CLOCK_COLUMNS)
    return dataclasses.replace(result, first=first)


def kept_passes(path: Path, baseline: Mapping[str, Any]) -> pa.Table | None:
    """The pass log beside a baseline, if there is one and it is that baseline's."""
    beside = path.with_name(path.stem + PASSES)
    if not beside.is_file():
        return None
    try:
        table = pq.read_table(beside, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        raise RunStoreError(_unreadable(beside, error)) from error
    return table if passes_digest(table) == baseline["digests"]["passes"] else None


def write_baseline(
    path: Path,
    run: Run,
    setup: Setup,
    *,
    window: Mapping[str, str] | None = None,
    keep_passes: bool = False,
) -> None:
    """Write the baseline, and its pass log if told so or if one lies there. Raises OutputError.

    `window`: which part of the trace was taken, as it was typed.
    """
    about = {name: run.manifest["trace"][name] for name in ("path", "digest", "requests")}
    about |= {"window": dict(window)} if window else {}
    tables = (run.summary, run.passes, run.requests)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, make_baseline(*tables, trace=about, flags=setup.own_flags()))
    beside = path.with_name(path.stem + PASSES)
    if keep_passes or beside.exists():
        with writing(beside):
            pq.write_table(run.passes, beside, compression="zstd")
