"""Traces and replay options from what was typed."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from schedbench.bounds import ROWS, SEED, SHARE
from schedbench.cli import console
from schedbench.cli.options import Load, Window
from schedbench.cli.reading import Reading, import_options, notes_of
from schedbench.cli.values import parse_count, parse_number, parse_optional_count
from schedbench.errors import UsageError

if TYPE_CHECKING:
    from schedbench.runner.run import ReplayOptions
    from schedbench.workloads.trace import Trace

SLO_NAMES = ("ttft", "tpot", "itl", "e2e")


@dataclass(frozen=True)
class Input:
    """A trace as it was named, and how to read it; can be sent to another process."""

    path: str | None
    reading: Reading
    window: Window

    def load(self) -> "Trace":
        """Read the trace. Raises TraceError, UsageError."""
        from schedbench.results import iteration_log
        from schedbench.workloads.importers.registry import load_trace
        from schedbench.workloads.samples.sample import sample_path

        path = str(sample_path()) if self.path is None else self.path
        fmt = self.reading.input_format
        if fmt == iteration_log.NAME:
            raise UsageError(
                f"--input-format {fmt} makes a run of a server's log, and no trace: the log does "
                f"not say who was in a pass. Write the run with `schedbench trace import {path} "
                f"--input-format {fmt} -o RUN` and compare it with one of a replay"
            )
        trace = load_trace(path, fmt=fmt, options=import_options(self.reading))
        for note in notes_of(trace):
            console.note(note)
        for doubt in trace.provenance.get("doubts", ()):
            console.warning(doubt)
        return cut(trace, self.window)

    @property
    def name(self) -> str:
        return "the shipped sample" if self.path is None else self.path


def tell_if_sample(
    given: str | None, command: str, standing_in: Mapping[str, Any] | None = None
) -> None:
    """Say that the shipped sample is used, on what pool, and how to name a trace."""
    if given is not None:
        return
    blocks = (standing_in or {}).get("num_gpu_blocks")
    pool = f", on a pool of {blocks:,} KV blocks, which its traffic fills" if blocks else ""
    console.note(
        f"no trace named: this is the shipped sample{pool}; `schedbench {command} TRACE` takes "
        "yours"
    )


def cut(trace: "Trace", window: Window) -> "Trace":
    """The part of a trace that was asked for; the trace itself if all of it was."""
    from schedbench.workloads.transform import slice_trace

    if window == Window():
        return trace
    part = slice_trace(
        trace,
        from_ns=_duration(window.from_, "--from"),
        to_ns=_duration(window.to, "--to"),
        limit=parse_optional_count(window.limit, "--limit", ROWS),
    )
    return replace(part, path=trace.path)  # what it was cut from; provenance says how


def replay_options(load: Load, **more: Any) -> "ReplayOptions":  # noqa: ANN401 - its fields
    """What was typed, as a replay takes it."""
    from schedbench.runner.events import read_events
    from schedbench.runner.run import ReplayOptions
    from schedbench.workloads.too_long import TooLong
    from schedbench.workloads.transform import parse_speedup

    if "speedup" in more:
        parse_speedup(more["speedup"])
    if load.spec_acceptance is not None:
        more["spec_acceptance"] = parse_number(load.spec_acceptance, "--spec-acceptance", SHARE)
    return ReplayOptions(
        arrivals=load.arrivals.value,
        think_ns=_duration(load.think_time, "--think-time"),
        too_long=TooLong(load.too_long.value),
        warmup_ns=_duration(load.warmup, "--warmup") or 0,
        slo_ns=parse_slo(load.slo) if load.slo else None,
        events=read_events(load.events) if load.events else (),
        seed=parse_count(load.seed, "--seed", SEED),
        command_line=["schedbench", *sys.argv[1:]],
        **more,
    )


def parse_slo(text: str) -> dict[str, int]:
    """Bounds in ns by name, from `ttft:500ms,tpot:50ms`. Raises UsageError."""
    from schedbench.runner.durations import parse_duration

    bounds: dict[str, int] = {}
    for part in text.split(","):
        name, colon, bound = part.strip().partition(":")
        if not colon or name not in SLO_NAMES:
            raise UsageError(
                f"--slo: {part.strip()!r} is no bound; write one of {', '.join(SLO_NAMES)} and "
                "a time, such as ttft:500ms,tpot:50ms"
            )
        if name in bounds:
            raise UsageError(f"--slo: {name} stands there twice; give it one bound")
        bounds[name] = parse_duration(bound, "--slo")
    return bounds


def _duration(text: str | None, option: str) -> int | None:
    from schedbench.runner.durations import parse_duration

    return None if text is None else parse_duration(text, option)
