"""Random cases beside the installed vLLM, and which lines of its scheduler they reach.

    python tests/parity/reached.py --cases 2000 [--seed 0] [--failing DIR]

Prints how often any two features met in a case, then a line a function of vLLM's `scheduler.py` and
`async_scheduler.py`: lines and branches reached, and for what is not reached the reason in
`unreached-RELEASE.json`. Exit code 1 if a case differs, or if something is not reached and has no
reason there; a release without that file is listed and not judged.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coverage

from schedbench.cli.live import verify_random
from schedbench.runner.fuzz_flags import FEATURES
from schedbench.runner.fuzz_meetings import meetings
from schedbench.runner.installed import vllm_version
from schedbench.runner.vllm_backend import prepare_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
MODULES = ("scheduler", "async_scheduler")  # of vllm.v1.core.sched
ENOUGH_CASES = 2000  # with fewer, what is not reached is listed and not judged


@dataclass(frozen=True)
class Function:
    """A function of vLLM's source: lines and branches, all of them and those not reached."""

    name: str
    num_lines: int
    num_branches: int
    missing_lines: list[int]
    missing_branches: list[list[int]]

    @property
    def is_all_reached(self) -> bool:
        return not self.missing_lines and not self.missing_branches

    def line(self, reason: str) -> str:
        lines = f"{self.num_lines - len(self.missing_lines)}/{self.num_lines}"
        branches = f"{self.num_branches - len(self.missing_branches)}/{self.num_branches}"
        text = f"{self.name:<58} {lines:>9} {branches:>9}"
        if self.is_all_reached:
            return text
        return f"{text}  {_ranges(self.missing_lines) or 'branches only'}: {reason}"


def _ranges(lines: list[int]) -> str:
    """Line numbers, neighbours as a range."""
    found: list[list[int]] = []
    for line in lines:
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return " ".join(f"{first}-{last}" if last > first else str(first) for first, last in found)


def sources() -> list[str]:
    """The files that are measured. Nothing of vLLM is imported to find them."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "v1" / "core" / "sched"
    return [str(folder / f"{name}.py") for name in MODULES]


def functions(measured: coverage.Coverage) -> Iterator[Function]:
    """What was reached, by function, in the order of the source."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        measured.json_report(outfile=str(path))
        report: dict[str, Any] = json.loads(path.read_text())
    for name in MODULES:
        of_file = next(v for k, v in report["files"].items() if k.endswith(f"/sched/{name}.py"))
        for function, found in of_file["functions"].items():
            if not function:  # the module's own lines run at its import
                continue
            summary = found["summary"]
            yield Function(
                function,
                summary["num_statements"],
                summary["num_branches"],
                found["missing_lines"],
                found["missing_branches"],
            )


def reasons() -> dict[str, dict[str, Any]] | None:
    """By function: how many lines and branches are known to stay unreached, and why.

    None for a release of which nobody has looked at that.
    """
    path = HERE / f"unreached-{vllm_version()}.json"
    if not path.is_file():
        return None
    found: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return found


def report(found: list[Function], *, judges: bool) -> bool:
    """Print the table; whether everything that is not reached has its reason."""
    table, fine = reasons(), True
    judges &= table is not None
    known = table or {}
    sys.stdout.write(f"{'function of vLLM':<58} {'lines':>9} {'branches':>9}  not reached\n")
    for function in found:
        reason = known.get(function.name)
        more = reason is not None and (
            len(function.missing_lines) > reason["lines"]
            or len(function.missing_branches) > reason["branches"]
        )
        is_told = function.is_all_reached or (reason is not None and not more)
        fine &= is_told
        why = "no reason is known" if reason is None else reason["why"]
        if more and judges:
            why = f"more than was known ({why})"
        sys.stdout.write(function.line(why) + "\n")
    sums = [
        sum(values)
        for values in zip(
            *(
                (f.num_lines, len(f.missing_lines), f.num_branches, len(f.missing_branches))
                for f in found
            ),
            strict=True,
        )
    ]
    lines, no_lines, branches, no_branches = sums
    sys.stdout.write(
        f"reached: {lines - no_lines} of {lines} lines, {branches - no_branches} of {branches} "
        f"branches of vLLM {vllm_version()}\n"
    )
    return fine or not judges


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=ENOUGH_CASES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failing", type=Path, default=Path("failing"))
    options = parser.parse_args()
    prepare_environment()
    measured = coverage.Coverage(branch=True, include=sources(), data_file=None, config_file=False)
    measured.start()
    equal = verify_random(options.seed, options.cases, list(FEATURES), options.failing, {})
    measured.stop()
    for line in meetings(options.seed, options.cases, vllm_version()):
        sys.stdout.write(f"{line}\n")
    told = report(list(functions(measured)), judges=options.cases >= ENOUGH_CASES)
    return 0 if equal and told else 1


if __name__ == "__main__":
    sys.exit(main())
