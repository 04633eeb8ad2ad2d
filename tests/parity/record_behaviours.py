"""Record each behaviour's scenario on the installed vLLM, where its release borders on it.

    python tests/parity/record_behaviours.py

A behaviour is tested on two logs: of the last release without it and of the first one with it.
This writes those of the installed release from the scenario of any log of the same behaviour, and
removes logs that are of neither release.
"""

from __future__ import annotations

import sys
from pathlib import Path

from golden_workloads import as_of

from schedbench.runner.golden_log import read_log, write_log
from schedbench.runner.installed import vllm_version
from schedbench.runner.record_golden import record
from schedbench.sched.behaviours import all_facts, borders

LOGS = Path(__file__).parents[1] / "unit" / "sched" / "behaviours"


def main() -> None:
    """Write the logs of the installed release."""
    release = vllm_version()
    for facts in all_facts():
        stem = facts.name.replace("_", "-")
        logs = sorted(LOGS.glob(f"{stem}.*.jsonl.gz"))
        if not logs or release not in borders(facts.name):
            continue
        scenario = read_log(logs[-1])
        write_log(LOGS / f"{stem}.{release}.jsonl.gz", record(as_of(scenario, release)))
        sys.stdout.write(f"{stem}: recorded on vLLM {release}\n")


if __name__ == "__main__":
    main()
