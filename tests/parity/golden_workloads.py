"""The workloads of all golden logs through the installed vLLM's class and through ours.

    python tests/parity/golden_workloads.py [FOLDER ...]

A workload is a log's flags, requests and events. Flags that the installed release does not have
are left at their defaults. Prints what differs, then how many workloads the class decides as both
of the known releases did, as one of them only, and as neither. Exit code 1 if ours differs.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

from schedbench.runner.fuzz_parity import compared
from schedbench.runner.golden_log import GoldenLog, read_log
from schedbench.runner.golden_sched import version_of
from schedbench.runner.installed import vllm_version
from schedbench.runner.record_golden import record
from schedbench.sched.behaviours import resolve
from schedbench.sched.config import SchedulerConfig

TESTS = Path(__file__).parents[1]
FOLDERS = (TESTS / "golden", TESTS / "golden-0.33")


def as_of(log: GoldenLog, release: str) -> GoldenLog:
    """The workload under another release, without the flags that it does not have."""
    behaviour = resolve(release)
    flags = dict(log.config)
    for flag in fields(SchedulerConfig):
        needs, gone_with = flag.metadata["needs"], flag.metadata["gone_with"]
        is_missing = needs and not getattr(behaviour, needs)
        if flag.name in flags and (is_missing or (gone_with and getattr(behaviour, gone_with))):
            flags[flag.name] = flag.default
    return GoldenLog(log.header | {"vllm_version": release, "config": flags}, log.requests)


def passes_of(log: GoldenLog) -> list[dict[str, object]] | None:
    """What the class makes of a workload; None where it fails."""
    try:
        return record(log).passes
    except Exception:  # noqa: BLE001 - an outcome like another
        return None


def workloads(folders: list[Path]) -> dict[str, dict[str, GoldenLog]]:
    """The logs by name, and under each name by the release that wrote them."""
    found: dict[str, dict[str, GoldenLog]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.jsonl.gz")):
            log = read_log(path)
            found.setdefault(path.name, {})[version_of(log)] = log
    return found


def main(folders: list[Path]) -> int:
    """Run them all; the exit code."""
    release = vllm_version()
    counts: Counter[str] = Counter()
    num_different = 0
    for name, logs in workloads(folders).items():
        scenario = as_of(next(iter(logs.values())), release)
        difference = compared(replace(scenario))
        if isinstance(difference, str):
            counts["the class fails"] += 1
            continue
        if difference is not None:
            num_different += 1
            sys.stdout.write(f"{name}: pass {difference[0]}: {', '.join(difference[1])}\n")
        passes = passes_of(scenario)
        equal_to = [version for version, log in logs.items() if log.passes == passes]
        counts["as " + " and ".join(equal_to) if equal_to else "as neither"] += 1
    total = sum(counts.values())
    sys.stdout.write(f"{total} workloads on the class of vLLM {release}, {num_different} differ\n")
    for words, count in sorted(counts.items()):
        sys.stdout.write(f"  {words}: {count}\n")
    return int(num_different > 0)


if __name__ == "__main__":
    sys.exit(main([Path(word) for word in sys.argv[1:]] or list(FOLDERS)))
