"""Where and how a run of the benchmarks takes place, and what machine it is."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from cases import MOONCAKE, Case
from contest import Worker

ROOT: Final = Path(__file__).resolve().parent.parent
HERE: Final = ROOT / "bench"
PYTHON: Final = ROOT / ".venv-bench/bin/python"  # the project as `pip install .` gives it
SCHEDBENCH: Final = ROOT / ".venv-bench/bin/schedbench"
EDITABLE_PYTHON: Final = ROOT / ".venv/bin/python"  # the same, none of it compiled
EDITABLE_SCHEDBENCH: Final = ROOT / ".venv/bin/schedbench"
VLLM_PYTHON: Final = ROOT / ".venv-vllm/bin/python"
DYNAMO_PYTHON: Final = ROOT / ".venv-peers-dynamo/bin/python"
VIDUR_PYTHON: Final = ROOT / ".venv-peers-vidur/bin/python"

QUICK_REQUESTS: Final = 3_000
QUICK_MOONCAKE_REQUESTS: Final = 1_000  # their prompts are ten times as long


@dataclass(frozen=True)
class Setting:
    """`quick`: the first requests of each trace, fewer points, shorter budgets."""

    traces: Path
    scratch: Path
    quick: bool
    rounds: int = 3
    entries: str = ""  # a regular expression; empty: all

    def wants(self, entry: str) -> bool:
        """Whether an entry is to be measured."""
        return re.search(self.entries, entry) is not None

    def limit(self, case: Case) -> int | None:
        """Requests of a case's trace; None: all."""
        if case.limit is not None or not self.quick:
            return case.limit
        return QUICK_MOONCAKE_REQUESTS if case.trace == MOONCAKE else QUICK_REQUESTS

    def budget_s(self, quick_s: float, full_s: float = 3600) -> float:
        """How long a contest may go on before another round is begun."""
        return quick_s if self.quick else full_s

    @property
    def log(self) -> Path:
        """What children print to standard error, or at all."""
        return self.scratch / "children.log"

    def ours(self) -> Worker:
        """A worker of this project, as it is installed."""
        return Worker([PYTHON, HERE / "ours_worker.py"], self.log)

    def not_compiled(self) -> Worker:
        """A worker of this project, all of it Python."""
        return Worker([EDITABLE_PYTHON, HERE / "ours_worker.py"], self.log)

    def real_class(self) -> Worker | None:
        """A worker with vLLM's own class; None where it is not installed."""
        if not VLLM_PYTHON.exists():
            return None
        return Worker([VLLM_PYTHON, HERE / "real_class.py", "--serve"], self.log)

    def job(self, case: Case, **more: object) -> dict[str, Any]:
        """A worker's job on a case."""
        return {
            "case": {**case.told(), "limit": self.limit(case)},
            "path": str(self.traces / case.trace),
            "folder": str(self.scratch),
            **more,
        }


def machine() -> dict[str, Any]:
    """Facts without which seconds mean nothing."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "revision": _revision(),
        "packages": {name: version(name) for name in ("schedbench", "numpy", "pyarrow")},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _revision() -> str:
    """The commit that is measured; a plus where the tree has changes beside it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def load() -> float:
    """Processes that ran or wanted to, on the average of the last minute."""
    return round(os.getloadavg()[0], 2)


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
