"""Plants faults and finds them: each behaviour switched the wrong way, beside the installed vLLM.

    python tests/parity/switched.py 2000

Random cases are worth what they reach. Each case runs once on the real class and, for every
behaviour not yet noticed, once on this project's scheduler with that behaviour switched; printed is
the first case that notices. What no case reaches has to be noticed by the scenario that was chosen
for it; what is not noticed at all is named at the end, with exit code 1. A case that differs with
nothing switched is told and not counted.
"""

from __future__ import annotations

import sys
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from schedbench.errors import SchedbenchError
from schedbench.runner.fuzz import draw_scenario
from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_log import read_log
from schedbench.runner.golden_sched import SchedBackend
from schedbench.runner.golden_world import RemoteStore
from schedbench.runner.installed import vllm_version
from schedbench.runner.verify import differing
from schedbench.runner.vllm_backend import VllmBackend
from schedbench.sched.behaviours import RELEASES, all_facts

if TYPE_CHECKING:
    from schedbench.runner.golden_log import GoldenLog

FLAGS_ONLY = {"config_async", "config_big_gpu", "config_scheduled_min", "config_threshold_max"}
"""They decide about flags, which a random case gives."""

NOT_LOGGED = {"stats_at_admission"}  # statistics are no column of a log
REFUSED = {"config_partial_prefills"}  # a flag that the other release does not have
WITHOUT_A_FLAG = "it changes nothing without its flag, which the older release does not have"
FLAGS = ("active_cap", "prefill_interval", "threshold_adaptive")
ON_THE_OLDER = {
    "mtp_lookahead": WITHOUT_A_FLAG,
    "failed_recving": "a connector of the older release cannot report what it is about",
    "hash_content": "it shows beside streaming_max_tokens only",
    "encoder_duplicate": "it shows beside encoder_repeat only",
    "pause_holders": "it shows beside other behaviours of the newer release only",
}
"""Why these change nothing alone, switched on in the older release; in the newer one they do."""

SILENT = FLAGS_ONLY | NOT_LOGGED | REFUSED
OLDEST = next(iter(RELEASES))
SCENARIOS = Path(__file__).parents[1] / "unit" / "sched" / "behaviours"


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


def decided_by_vllm(scenario: GoldenLog) -> list[dict[str, object]] | None:
    """What the real class decides; None if it refuses the case or fails on it."""
    store = RemoteStore(scenario.config.get("hold_frees"))
    try:
        driver = GoldenDriver(scenario, VllmBackend(scenario.config, store), store)
        return list(driver.passes())
    except Exception:  # noqa: BLE001 - whatever the class raises
        return None


def try_out(scenario: GoldenLog, called: str, left: dict[str, str]) -> None:
    """Take those that a scenario notices out of what is left, and say so."""
    theirs = decided_by_vllm(scenario)
    if theirs is None:
        return
    noticing = [name for name in left if notices(scenario, theirs, left[name])]
    if noticing and notices(scenario, theirs, ""):
        sys.stdout.write(f"{called} differs with nothing switched\n")
        return
    for name in noticing:
        sys.stdout.write(f"{left.pop(name)}: noticed by {called}\n")
        sys.stdout.flush()


def main(most: int) -> int:
    release = vllm_version()
    inert = dict.fromkeys(FLAGS, WITHOUT_A_FLAG) | (ON_THE_OLDER if release == OLDEST else {})
    left = {name: each for name, each in planted(release).items() if name not in inert}
    for seed in range(most):
        if not left:
            break
        try_out(draw_scenario(seed, release), f"case {seed}", left)
    for name in list(left):
        path = SCENARIOS / f"{name.replace('_', '-')}.{release}.jsonl.gz"
        if path.is_file():
            only = {name: left[name]}
            try_out(read_log(path), "the scenario chosen for it", only)
            if not only:
                del left[name]
    for switch in left.values():
        sys.stdout.write(f"{switch}: noticed by none of {most} cases\n")
    for name, why in inert.items():
        sys.stdout.write(f"{name}: not planted, {why}\n")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
