"""The real command line on input that nobody would write: no traceback, no hang, never exit 70.

    python tests/support/fuzz_commands.py --seconds 600 --seed 1 --only readers

Each case is a command line, run by `main.run` in a child process that is made anew when it dies or
passes the time limit. A case is at fault if it exits with 70, dies, hangs, or prints a traceback or
a raw control character. What ran is counted by kind, by exit code and by kind of message. A half of
the cases is a function `cases(rng, folder) -> Iterator[Case]`, endless, named in `HALVES`; its
files are written to `folder` before a case is yielded and may be written over afterwards.
"""

import argparse
import contextlib
import io
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

import fuzz_traces
from fuzz_case import Case

Cases = Callable[[random.Random, Path], Iterator[Case]]

HALVES: dict[str, Cases] = {"readers": fuzz_traces.cases}

LIMIT_S = 30.0  # a case takes some 30 ms; the first one of a child imports everything
FAULT = 70
_RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_NUMBER = re.compile(r"-?\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command left: its exit code is None where its process died or was stopped."""

    code: int | None
    out: str
    err: str

    def faults(self) -> list[str]:
        """What no input may lead to."""
        if self.code is None:
            return [self.err]
        printed = self.out + self.err
        found = ["exit code 70"] if self.code == FAULT else []
        if "Traceback (most recent call last)" in printed:
            found.append("a traceback")
        if raw := _RAW.search(printed):
            found.append(f"a raw control character {raw[0]!r}")
        return found

    def message_kind(self, folder: Path) -> str:
        """The error's words without its values, to count messages by."""
        lines = [line for line in self.err.splitlines() if line.startswith("error:")]
        if not lines:
            return "none"
        text = lines[-1].replace(str(folder), "").removeprefix("error: ")
        text = re.sub(r"^\S*: (row \d+[^:]*|column [^:]*|line \d+): ", "", text)
        text = _NUMBER.sub("N", _QUOTED.sub("'...'", text))
        return " ".join(text.split()[:7])


@dataclass(slots=True)
class Child:
    """A process that runs command lines, one after the other."""

    folder: Path
    process: multiprocessing.process.BaseProcess | None = None
    pipe: Connection | None = None

    def run(self, words: tuple[str, ...]) -> Outcome:
        if self.process is None:
            self._start()
        assert self.pipe is not None
        self.pipe.send(words)
        try:
            if self.pipe.poll(LIMIT_S):
                return Outcome(*self.pipe.recv())
            found = f"no end within {LIMIT_S:.0f} s"
        except EOFError:
            found = "the process died"
        self.stop()
        return Outcome(None, "", found)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, self.folder), daemon=True)
        self.process.start()
        other.close()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def _serve(pipe: Connection, folder: Path) -> None:
    from schedbench.cli.main import run  # noqa: PLC0415 - in the child only

    os.chdir(folder)
    with contextlib.suppress(EOFError):
        while words := pipe.recv():
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = run(list(words))
                except SystemExit as left:
                    code = left.code if isinstance(left.code, int) else FAULT
            pipe.send((code, out.getvalue(), err.getvalue()))


@dataclass(slots=True)
class Tally:
    """Counts of what ran, and the cases at fault."""

    folder: Path
    cases: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, case: Case, outcome: Outcome) -> list[str]:
        self.cases += 1
        self.kinds[case.kind] += 1
        self.codes[str(outcome.code)] += 1
        self.messages[outcome.message_kind(self.folder)] += 1
        found = outcome.faults()
        for fault in found:
            last = outcome.err.strip().rpartition("\n")[2][:400]
            self.faults.append(f"{fault}: {case}: {last!r}")
        return found

    def report(self) -> str:
        lines = [f"{self.cases:,} cases, {len(self.faults)} faults"]
        for name, counts, most in (
            ("by kind", self.kinds, None),
            ("by exit code", self.codes, None),
            (f"{len(self.messages)} kinds of message, the most frequent", self.messages, 40),
        ):
            lines += [f"{name}:", *(f"  {n:6,} {what}" for what, n in counts.most_common(most))]
        return "\n".join([*lines, *self.faults])


def fuzz(cases: Iterator[Case], folder: Path, kept: Path | None = None) -> Tally:
    """Run every case; the files of those at fault are copied to `kept`."""
    child, tally = Child(folder), Tally(folder)
    try:
        for case in cases:
            if tally.add(case, child.run(case.words)) and kept is not None:
                _keep(case, kept / f"{len(tally.faults):03d}")
    finally:
        child.stop()
    return tally


def _keep(case: Case, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    (target / "command.txt").write_text(f"{case}\n")
    for path in case.files:
        if path.is_dir():
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
        elif path.exists():
            shutil.copy2(path, target / path.name)


def draw(only: str | None, seed: int, folder: Path) -> Iterator[Case]:
    """Cases of one half, or of all by turns, from a seed."""
    halves = [HALVES[only]] if only else list(HALVES.values())
    rngs = [random.Random(f"{seed} {n}") for n in range(len(halves))]  # noqa: S311 - replayable
    streams = [half(rng, folder) for half, rng in zip(halves, rngs, strict=True)]
    while True:
        for stream in streams:
            yield next(stream)


def _until(cases: Iterator[Case], seconds: float) -> Iterator[Case]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield from islice(cases, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the command line on mutated input.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(HALVES))
    parser.add_argument("--keep", type=Path, help="folder for the files of cases at fault")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = _until(draw(asked.only, asked.seed, folder), asked.seconds)
        tally = fuzz(cases, folder, asked.keep and asked.keep.absolute())
    sys.stdout.write(tally.report() + "\n")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
