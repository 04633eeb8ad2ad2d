"""Plants faults and finds them: each behaviour switched the wrong way, beside the installed vLLM.

    python tests/parity/switched.py 2000

Random cases are worth what they reach. Each case runs once on the real class and, for every
behaviour not yet noticed, once on this project's scheduler with that behaviour switched; printed is
the first case that notices. Those that no case notices are named at the end, with exit code 1. A
case that differs with nothing switched is told and not counted.
"""

from __future__ import annotations

import sys
from itertools import count, zip_longest
from typing import TYPE_CHECKING

from schedbench.errors import SchedbenchError
from schedbench.runner.fuzz import draw_scenario
from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_sched import SchedBackend
from schedbench.runner.golden_world import RemoteStore
from schedbench.runner.verify import differing
from schedbench.runner.vllm_backend import VllmBackend, vllm_version
from schedbench.sched.behaviours import RELEASES, all_facts

if TYPE_CHECKING:
    from schedbench.runner.golden_log import GoldenLog

FLAGS_ONLY = {"config_async", "config_big_gpu", "config_scheduled_min", "config_threshold_max"}
"""They decide about flags, which a random case gives."""

NOT_LOGGED = {"stats_at_admission"}  # statistics are no column of a log
REFUSED = {"config_partial_prefills"}  # a flag that the other release does not have
SILENT = FLAGS_ONLY | NOT_LOGGED | REFUSED


def planted(release: str) -> dict[str, str]:
    """Switches by name, each against its release, with what it needs."""
    found = {}
    for facts in all_facts():
        if facts.name not in SILENT:
            is_on = facts.name in RELEASES[release]
            needs = "" if is_on or not facts.needs else f"+{facts.needs}=on"
            found[facts.name] = f"{facts.name}={'off' if is_on else 'on'}{needs}"
    return found


def notices(scenario: GoldenLog, theirs: list[dict[str, object]], behaviours: str) -> bool:
    store = RemoteStore(scenario.config.get("hold_frees"))
    try:
        driver = GoldenDriver(scenario, SchedBackend(scenario, store, behaviours), store)
        return any(differing(*rows) for rows in zip_longest(theirs, driver.passes()))
    except SchedbenchError:  # a flag that the switched release does not have
        return False
    except (AssertionError, IndexError, KeyError):
        return True


def main(most: int) -> int:
    release = vllm_version()
    left = planted(release)
    for seed in count():
        if seed == most or not left:
            break
        scenario = draw_scenario(seed, release)
        store = RemoteStore(scenario.config.get("hold_frees"))
        try:
            driver = GoldenDriver(scenario, VllmBackend(scenario.config, store), store)
            theirs = list(driver.passes())
        except Exception:  # noqa: BLE001, S112 - the class refuses the case or fails on it
            continue
        noticing = [name for name in left if notices(scenario, theirs, left[name])]
        if noticing and notices(scenario, theirs, ""):
            sys.stdout.write(f"case {seed} differs with nothing switched\n")
            continue
        for name in noticing:
            sys.stdout.write(f"{left.pop(name)}: noticed by case {seed}\n")
            sys.stdout.flush()
    for switch in left.values():
        sys.stdout.write(f"{switch}: noticed by none of {most} cases\n")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
