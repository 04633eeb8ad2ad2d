"""Runs a golden scenario on the installed vLLM and writes a fresh log.

    python -m schedbench.runner.record_golden IN.jsonl.gz OUT.jsonl.gz
    python -m schedbench.runner.record_golden --check LOG.jsonl.gz ...
    python -m schedbench.runner.record_golden --fuzz FIRST COUNT FOLDER [--features a,b]

`--check` runs each log's scenario again and compares every column of every pass. `--fuzz`
records random scenarios, drawn for the installed release, by seed.
"""

import argparse
import sys
from collections.abc import Collection
from pathlib import Path

from schedbench.errors import SchedbenchError
from schedbench.runner.fuzz import draw_scenario
from schedbench.runner.fuzz_flags import FEATURES, read_features
from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_log import (
    Difference,
    GoldenLog,
    first_difference,
    read_log,
    write_log,
)
from schedbench.runner.golden_world import RemoteStore
from schedbench.runner.installed import vllm_version
from schedbench.runner.vllm_backend import VllmBackend
from schedbench.sched.behaviours import MODELLED


def record(scenario: GoldenLog) -> GoldenLog:
    """The scenario's passes as the installed vLLM's own class makes them, under its release.

    Raises:
        ValueError: vLLM refuses the combination of flags.
    """
    store = RemoteStore(scenario.config.get("hold_frees"))
    driver = GoldenDriver(scenario, VllmBackend(scenario.config, store), store)
    passes = list(driver.passes())
    release = vllm_version()
    header = scenario.header | {"vllm": release, "stats": driver.stats}
    if release != MODELLED[0]:
        header["vllm_version"] = release
    else:
        header.pop("vllm_version", None)
    return GoldenLog(header, scenario.requests, passes)


def check(path: Path) -> Difference | None:
    """None where the installed vLLM makes the same passes as the log at `path`."""
    log = read_log(path)
    return first_difference(log, record(log))


def record_random(first: int, count: int, folder: Path, features: Collection[str]) -> None:
    """Write `fuzz.SEED.jsonl.gz` for `count` seeds from `first` on."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        log = record(draw_scenario(seed, vllm_version(), features))
        write_log(folder / f"fuzz.{seed}.jsonl.gz", log)


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; an error for people is one line and its exit code."""
    try:
        return _run(arguments)
    except SchedbenchError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


def _run(arguments: list[str] | None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--fuzz", nargs=2, type=int, metavar=("FIRST", "COUNT"))
    parser.add_argument("--features", default=",".join(FEATURES))
    parser.add_argument("paths", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    if options.fuzz:
        first, count = options.fuzz
        record_random(first, count, options.paths[0], read_features(options.features))
        return 0
    if not options.check:
        source, target = options.paths
        write_log(target, record(read_log(source)))
        return 0
    found = [_told(path) for path in options.paths]
    return int(any(found))


def _told(path: Path) -> bool:
    """Check a log and say what came of it; whether it differs."""
    difference = check(path)
    sys.stdout.write(f"{path.name}: {difference or 'equal'}\n")
    sys.stdout.flush()
    return difference is not None


if __name__ == "__main__":
    sys.exit(main())
