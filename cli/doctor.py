"""`schedbench doctor`: versions, and what is missing for which feature."""

import platform
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import schedbench
from schedbench.cli.options import Printing
from schedbench.results.extras import EXTRAS
from schedbench.runner.installed import PACKAGES

if TYPE_CHECKING:
    from schedbench.results.sheet import View

CORE = ("schedbench", "numpy", "orjson", "pyarrow", "rich", "typer")
COMPILE = "pip install . (not -e) with a C compiler"

WHEELS = {"vllm": PACKAGES}  # where a wheel is called otherwise than what it brings


def doctor(*, printing: Printing) -> None:
    """Show versions, and what is missing for which feature.

    schedbench doctor
    """
    from schedbench.cli.print_view import print_view

    print_view(_view(), printing.chosen)


def _view() -> "View":
    from schedbench.cli.release import release_set
    from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View
    from schedbench.sched.config import RELEASES, SchedulerConfig

    gpus = gpu_names()
    followed = release_set().get("vllm_version", SchedulerConfig.vllm_version)
    rows = [
        ("follows", f"vLLM {followed}", f"--vllm-version: {', '.join(RELEASES)}", ""),
        ("python", platform.python_version(), "", ""),
        ("installed in", str(Path(schedbench.__path__[0]).parent), "", ""),
        ("GPU", ", ".join(gpus) or "none", "measured passes, check-gpu", ""),
    ]
    rows += [(name, version_of(name) or "missing", "", "") for name in CORE]
    rows.append(
        ("compiled", "yes", "replays of plain text in less time", "")
        if is_compiled()
        else ("compiled", "no", "replays of plain text in less time", COMPILE)
    )
    for name, extra in EXTRAS.items():
        found = version_of(name)
        remedy = "" if found else extra.remedy
        rows.append((name, found or "missing", extra.purpose, remedy))
    cells = [
        (
            Cell(name, name),
            Cell(found, found, Mark.QUIET if found == "missing" else Mark.PLAIN),
            Cell(purpose, purpose or None),
            Cell(remedy, remedy or None),
        )
        for name, found, purpose, remedy in rows
    ]
    titles = ("package", "version", "needed for", "how to get it")
    sheet = Sheet("", tuple(Heading(title, is_number=False) for title in titles), tuple(cells))
    data = {
        "platform": f"{platform.system()} {platform.machine()}",
        "executable": sys.executable,
        "scheduler": f"vLLM {followed}",
        "releases": list(RELEASES),
        "gpus": gpus,
        "compiled": is_compiled(),
        "packages": {name: version_of(name) for name in (*CORE, *EXTRAS)},
        "missing": {name: purpose for name, found, purpose, _ in rows if found == "missing"},
    }
    return View("", (sheet,), sheet, data)


def is_compiled() -> bool:
    """Whether what takes part in every step of such a replay is C here, not Python."""
    spec = find_spec("schedbench.sched.express")
    return spec is not None and str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES))


def gpu_names() -> list[str]:
    """NVIDIA's GPUs as its own tool names them; none where the tool is not there or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in found.stdout.splitlines() if line.strip()]


def version_of(package: str) -> str | None:
    """The installed version; None if it is not there. Does not import it."""
    if find_spec(package) is None:
        return None
    for name in WHEELS.get(package, (package,)):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"
