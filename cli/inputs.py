"""Traces and replay options from what was typed."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedbench.cli import console
from schedbench.cli.options import Load, Reading, Window
from schedbench.cli.values import parse_count
from schedbench.errors import UsageError

if TYPE_CHECKING:
    from schedbench.runner.run import ReplayOptions
    from schedbench.workloads.importers.options import ImportOptions
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
        from schedbench.workloads.importers.registry import load_trace
        from schedbench.workloads.samples.sample import sample_path

        path = str(sample_path()) if self.path is None else self.path
        fmt = self.reading.input_format
        trace = load_trace(path, fmt=fmt, options=import_options(self.reading))
        for note in notes_of(trace):
            console.note(note)
        return cut(trace, self.window)

    @property
    def name(self) -> str:
        return "the shipped sample" if self.path is None else self.path


def notes_of(trace: "Trace") -> list[str]:
    """What to tell of a file that was imported just now; nothing of one in the own schema."""
    return [] if trace.stored_digest is not None else list(trace.provenance.get("notes", []))


def tell_if_sample(given: str | None, command: str) -> None:
    """Say that the shipped sample is used, and how to name a trace."""
    if given is None:
        console.note(
            f"no trace named: this is the shipped sample; `schedbench {command} TRACE` takes yours"
        )


def import_options(reading: Reading) -> "ImportOptions":
    """What was typed, as the importers take it."""
    from schedbench.workloads.importers.mapping import parse_mapping
    from schedbench.workloads.importers.options import ImportOptions

    return ImportOptions(
        on_zero_output=reading.on_zero_output.value,
        strict_order=reading.strict_order,
        dedupe_ids=reading.dedupe_ids.value if reading.dedupe_ids else None,
        spread=reading.spread,
        seed=parse_count(reading.spread_seed, "--spread-seed"),
        tz=reading.tz,
        time_unit=reading.time_unit.value if reading.time_unit else None,
        hash_block_tokens=_count(reading.hash_block_tokens, "--hash-block-tokens"),
        tokens_per_image=_count(reading.tokens_per_image, "--tokens-per-image"),
        mapping=parse_mapping(reading.map) if reading.map else {},
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
        limit=_count(window.limit, "--limit"),
    )
    return replace(part, path=trace.path)  # what it was cut from; provenance says how


def replay_options(
    load: Load, speedup: str, assumed: dict[str, str], command_line: list[str]
) -> "ReplayOptions":
    """What was typed, as a replay takes it."""
    from schedbench.runner.events import read_events
    from schedbench.runner.run import ReplayOptions
    from schedbench.workloads.too_long import TooLong

    return ReplayOptions(
        speedup=speedup,
        arrivals=load.arrivals.value,
        think_ns=_duration(load.think_time, "--think-time"),
        too_long=TooLong(load.too_long.value),
        warmup_ns=_duration(load.warmup, "--warmup") or 0,
        slo_ns=parse_slo(load.slo) if load.slo else None,
        events=read_events(load.events) if load.events else (),
        assumed=[f"{option} {value}" for option, value in assumed.items()],
        command_line=command_line,
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


def _count(text: str | None, option: str) -> int | None:
    return None if text is None else parse_count(text, option)
