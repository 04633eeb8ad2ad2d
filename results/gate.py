"""A gate: a run against a small baseline that people can review.

Counters are deterministic and compare exactly. Times compare by a tolerance of their own, and only
in the worse direction. The baseline keeps the chained digest of decisions at some passes, so that
a difference is narrowed down to a window of passes without the log.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from schedbench.errors import RunStoreError
from schedbench.results.catalog import Better, flatten, metric_of
from schedbench.results.compare import PassDifference
from schedbench.results.digest import table_digest
from schedbench.results.pass_log import CLOCK_COLUMNS
from schedbench.results.pass_metrics import BY_LABEL, SUMMED
from schedbench.results.setting_text import UNSAID, option_text, value_text
from schedbench.results.units import number

BASELINE_VERSION: Final = 1

PARTS: Final = ("trace", "flags", "counters", "times", "digests", "decisions")
"""What a baseline has beside its version."""

COUNTERS: Final = (
    "requests",
    "requests_finished",
    "requests_unfinished",
    "requests_aborted",
    "requests_errored",
    "passes",
    *SUMMED,
    "recomputed_tokens",
    "resumed_cached_tokens",
    "output_tokens",
)
TIMES: Final = (
    "makespan_ns",
    "ttft_ns.p50",
    "ttft_ns.p99",
    "tpot_ns.p50",
    "itl_ns.p99",
    "e2e_ns.p99",
)
TOLERANCE: Final = 0.01
"""Of a time, by default: modelled times are exact, so this is room for a change of the model."""

WINDOWS: Final = 50
"""Into so many windows the passes are cut: few enough lines for a review."""

_DIGEST_DIGITS: Final = 16


class Status(Enum):
    """What became of one number."""

    OK = "ok"
    CHANGED = "changed"
    WORSE = "worse"
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Check:
    """One number against its baseline; without a tolerance it has to be the same."""

    key: str
    expected: Any
    actual: Any
    tolerance: float | None
    status: Status

    @property
    def failed(self) -> bool:
        return self.status in (Status.CHANGED, Status.WORSE)


@dataclass(frozen=True, slots=True)
class GateResult:
    """All checks, and between which passes decisions first differ (first, one after the last).

    `first` is the first pass that differs, where the baseline's pass log is kept.
    """

    checks: tuple[Check, ...]
    window: tuple[int, int] | None
    first: PassDifference | None = None

    @property
    def passed(self) -> bool:
        return not self.num_failed

    @property
    def decides_alike(self) -> bool:
        """Whether every pass decides as in the baseline: a check beside those of numbers."""
        return self.window is None and self.first is None

    @property
    def num_checks(self) -> int:
        return len(self.checks) + 1

    @property
    def num_failed(self) -> int:
        return sum(check.failed for check in self.checks) + (not self.decides_alike)


def make_baseline(
    summary: Mapping[str, Any],
    passes: pa.Table,
    requests: pa.Table,
    *,
    trace: Mapping[str, Any],
    flags: Mapping[str, Any],
) -> dict[str, Any]:
    """What a later run has to equal. `trace["digest"]` and `flags` say what may be compared."""
    numbers = dict(flatten(summary))
    return {
        "baseline_version": BASELINE_VERSION,
        "trace": dict(trace),
        "flags": dict(flags),
        "counters": _counters(summary),
        "times": {
            key: {"value": numbers[key], "tolerance": TOLERANCE}
            for key in TIMES
            if numbers.get(key) is not None
        },
        "digests": _digests(passes, requests),
        "decisions": _decisions(passes),
    }


def check(
    baseline: Mapping[str, Any],
    summary: Mapping[str, Any],
    passes: pa.Table,
    requests: pa.Table,
    *,
    trace: Mapping[str, Any],
    flags: Mapping[str, Any],
) -> GateResult:
    """Hold a run against a baseline. Raises RunStoreError where the two cannot be compared."""
    _same_run(baseline, trace, flags)
    numbers = dict(flatten(summary))
    checks = [*_exact("", baseline["counters"], _counters(summary))]
    checks += _exact("digests.", baseline["digests"], _digests(passes, requests))
    checks += [
        _timed(key, each["value"], numbers.get(key), each["tolerance"])
        for key, each in baseline["times"].items()
    ]
    return GateResult(tuple(checks), _window(baseline["decisions"], passes))


def _same_run(
    baseline: Mapping[str, Any], trace: Mapping[str, Any], flags: Mapping[str, Any]
) -> None:
    version = baseline.get("baseline_version")
    if version != BASELINE_VERSION:
        raise RunStoreError(
            f"the baseline has version {version}, and this schedbench reads {BASELINE_VERSION}; "
            "make it again with --update"
        )
    if baseline["trace"]["digest"] != trace["digest"]:
        raise RunStoreError(
            f"the baseline is of {_trace_text(baseline['trace'])}, and this is "
            f"{_trace_text(trace)}; give that one, or make a new baseline with --update"
        )
    was, now = _by_option(baseline["flags"]), _by_option(flags)
    apart = [option for option in {**was, **now} if was.get(option) != now.get(option)]
    if apart:
        told = ", ".join(
            f"{option} is {was.get(option, UNSAID)} in the baseline and "
            f"{now.get(option, UNSAID)} here"
            for option in apart
        )
        raise RunStoreError(
            f"the baseline is of other flags: {told}; give those of the baseline, or make a new "
            "one with --update"
        )


def _trace_text(trace: Mapping[str, Any]) -> str:
    """Its path, window and size, and enough of its digest to tell it from another."""
    window = (trace.get("window") or {}).items()
    words = [
        str(trace.get("path") or "a trace"),
        *(f"--{name.rstrip('_')} {text}" for name, text in window),
    ]
    size = f"{number(trace['requests'])} requests, " if "requests" in trace else ""
    return f"{' '.join(words)} ({size}digest {trace['digest'][:_DIGEST_DIGITS]})"


def _by_option(flags: Mapping[str, Any]) -> dict[str, str]:
    """Flags and options of a run as they are typed, those of the deployment among them."""
    flat = {name: value for name, value in flags.items() if name != "deployment"}
    flat |= flags.get("deployment", {})
    return {option_text(name): value_text(name, value) for name, value in flat.items()}


def _exact(prefix: str, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Check]:
    for key in {**expected, **actual}:
        values = expected.get(key), actual.get(key)
        status = Status.OK if values[0] == values[1] else Status.CHANGED
        yield Check(prefix + key, *values, None, status)


def _timed(key: str, expected: float, actual: float | None, tolerance: float) -> Check:
    status = Status.OK
    if actual is None:
        status = Status.CHANGED
    elif abs(actual - expected) > tolerance * abs(expected):
        is_more = actual > expected
        higher_is_better = metric_of(key).better is Better.HIGHER
        status = Status.BETTER if is_more == higher_is_better else Status.WORSE
    return Check(key, expected, actual, tolerance, status)


def _counters(summary: Mapping[str, Any]) -> dict[str, int]:
    """The counters, and the passes by what ended them."""
    by_label = {
        f"{name}.{label}.passes": part["passes"]
        for name in BY_LABEL
        for label, part in sorted(summary[name].items())
    }
    return {**{key: summary[key] for key in COUNTERS}, **by_label}


def _digests(passes: pa.Table, requests: pa.Table) -> dict[str, str]:
    """Over everything but time."""
    times = [name for name in requests.column_names if name.endswith("_ns")]
    return {
        "passes": passes_digest(passes),
        "requests": table_digest(requests.drop_columns(times)),
    }


def passes_digest(passes: pa.Table) -> str:
    """Over the values of a pass log, but for its clock."""
    return table_digest(passes.drop_columns(list(CLOCK_COLUMNS)))


def _decisions(passes: pa.Table) -> dict[str, str]:
    """The chained digest at the end of each window, by the index of the pass."""
    every = max(1, -(-passes.num_rows // WINDOWS))
    chain = passes.column("decisions")
    ends = [*range(every - 1, passes.num_rows, every)]
    if passes.num_rows and (not ends or ends[-1] != passes.num_rows - 1):
        ends.append(passes.num_rows - 1)
    return {str(end): f"{chain[end].as_py():016x}" for end in ends}


def _window(expected: Mapping[str, str], passes: pa.Table) -> tuple[int, int] | None:
    """Where decisions first differ, or where one of the runs ends."""
    chain = passes.column("decisions")
    begin = 0
    for name, value in expected.items():
        end = int(name) + 1
        if end > passes.num_rows:
            return min(begin, passes.num_rows), end
        if f"{chain[end - 1].as_py():016x}" != value:
            return begin, end
        begin = end
    return None if begin == passes.num_rows else (begin, passes.num_rows)
