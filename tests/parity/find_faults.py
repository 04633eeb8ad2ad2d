"""Plants faults in this project's scheduler and has random cases beside the real class find them.

    PYTHONPATH=tests/support python tests/parity/find_faults.py [--only WORD] [--keep DIR]

A line a fault: the first random case that parts from vLLM's own class, in which pass and column,
and how many requests and passes are left of it after shrinking. Exit code 1 if a fault is not found
among the cases, or if one differs without a fault.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planted_faults import FAULTS, Fault

from schedbench.runner.fuzz import draw_scenario
from schedbench.runner.fuzz_parity import first_parting, shrunk
from schedbench.runner.golden_log import write_log
from schedbench.runner.installed import vllm_version

if TYPE_CHECKING:
    from schedbench.runner.fuzz_parity import Case
    from schedbench.runner.golden_log import GoldenLog

MOST_CASES = 600  # of a fault, until it has to be found
MOST_TRIES = 60  # of smaller cases, for one that still differs


def found(fault: Fault) -> tuple[Case, GoldenLog] | None:
    """The first random case that shows a fault: shrunk, and as it was drawn."""
    for seed in range(MOST_CASES):
        scenario = draw_scenario(seed, vllm_version(), fault.features)
        with fault.planted():
            if first_parting(scenario) is not None:
                return shrunk(seed, scenario, tries=MOST_TRIES), scenario
    return None


def told(fault: Fault, case: Case, drawn: GoldenLog) -> str:
    what = f"pass {case.index}: {', '.join(case.columns)}"
    size = (
        f"{len(drawn.requests)} -> {len(case.log.requests)} requests, {len(case.log.passes)} passes"
    )
    return f"  {fault.says}: case {case.seed}, {what}; {size}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="faults whose sentence has this in it")
    parser.add_argument("--keep", type=Path, help="write the shrunk cases to this folder")
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if options.only in fault.says]
    sys.stdout.write(f"planted faults beside the class of vLLM {vllm_version()}\n")
    num_found = 0
    for fault in chosen:
        outcome = found(fault)
        if outcome is None:
            sys.stdout.write(f"  {fault.says}: NOT FOUND in {MOST_CASES} cases\n")
            continue
        case, drawn = outcome
        without = first_parting(case.log)
        num_found += without is None
        sys.stdout.write(told(fault, case, drawn))
        if without is not None:
            sys.stdout.write("    which differs without the fault as well\n")
        sys.stdout.flush()
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            write_log(options.keep / f"{fault.log}.jsonl.gz", case.log)
    sys.stdout.write(f"found and shrunk: {num_found} of {len(chosen)}\n")
    return 0 if num_found == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
