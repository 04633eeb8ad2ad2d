"""What changed in an installed vLLM's scheduler since the last release that is followed.

    .venv-vllm-NEW/bin/python tests/parity/changed_functions.py
    .venv-vllm-NEW/bin/python tests/parity/changed_functions.py --record

Lists the functions that changed, came or went, by hashes of their syntax without comments and
docstrings (`functions.json`), and runs the golden workloads: equal, or the first difference. Exit
code 1 if one differs, 2 for a release that is not followed. `--record` keeps the hashes of the
installed release, each release's as what differs from the one before.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from golden_workloads import TESTS, passes_of
from golden_workloads import main as run_workloads

from schedbench.runner.golden_log import GoldenLog, first_difference, read_log
from schedbench.runner.installed import vllm_version
from schedbench.sched.behaviours import MODELLED, ordered

if TYPE_CHECKING:
    from collections.abc import Iterator

Hashes = dict[str, str]

KEPT = Path(__file__).parent / "functions.json"
FILES = (
    "sched/scheduler.py",
    "sched/async_scheduler.py",
    "sched/request_queue.py",
    "kv_cache_manager.py",
    "block_pool.py",
    "encoder_cache_manager.py",
)  # of vllm/v1/core
DIFFERENT, UNKNOWN = 1, 2


def functions_of(core: Path) -> Hashes:
    """A hash by function of the folder `vllm/v1/core`; nothing of it is imported."""
    found = {}
    for name in FILES:
        tree = ast.parse((core / name).read_text(encoding="utf-8"))
        for function, node in _functions(tree, ""):
            text = ast.unparse(_without_docstrings(node))
            key = f"{name.rpartition('/')[2]} {function}"
            found[key] = hashlib.sha256((found.get(key, "") + text).encode()).hexdigest()[:12]
    return found


def _functions(tree: ast.AST, within: str) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.ClassDef():
                yield from _functions(node, f"{within}{node.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{within}{node.name}", node


def _without_docstrings(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def kept() -> dict[str, Hashes]:
    """All hashes of every release that was recorded, oldest first."""
    steps = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    found: dict[str, Hashes] = {}
    whole: Hashes = {}
    for release in sorted(steps, key=ordered):
        whole = {k: v for k, v in (whole | steps[release]).items() if v is not None}
        found[release] = whole
    return found


def keep(found: dict[str, Hashes]) -> None:
    """Write each release as what differs from the one before; None where a function is gone."""
    steps, before = {}, Hashes()
    for release in sorted(found, key=ordered):
        now = found[release]
        steps[release] = {
            key: now.get(key) for key in sorted(before | now) if before.get(key) != now.get(key)
        }
        before = now
    KEPT.write_text(json.dumps(steps, indent=0) + "\n")


def changes(before: Hashes, now: Hashes) -> list[str]:
    """A line a function that changed, came or went."""
    lines = [
        f"  {'changed' if key in before else 'new':<8}{key}"
        for key in sorted(now)
        if before.get(key) != now[key]
    ]
    return lines + [f"  {'gone':<8}{key}" for key in sorted(before.keys() - now.keys())]


def core() -> Path:
    """The folder of the installed vLLM."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "v1" / "core"


def golden_of(release: str) -> Path:
    return TESTS / ("golden" if release == MODELLED[0] else f"golden-{release.rpartition('.')[0]}")


def beside_the_last() -> str:
    """What the installed class makes of the logs of the last release that is followed."""
    paths = sorted(golden_of(MODELLED[-1]).glob("*.jsonl.gz"))
    for number, path in enumerate(paths, start=1):
        log = read_log(path)
        passes = passes_of(log)
        if passes is None:
            return f"{path.name}: the class fails (log {number} of {len(paths)})"
        if apart := first_difference(log, GoldenLog(log.header, log.requests, passes)):
            return f"{path.name}: {apart} (log {number} of {len(paths)})"
    return f"equal: {len(paths)} golden logs of vLLM {MODELLED[-1]}"


def main(words: list[str]) -> int:
    release, known, now = vllm_version(), kept(), functions_of(core())
    if words == ["--record"]:
        keep(known | {release: now})
        sys.stdout.write(f"{KEPT}: {len(now)} functions of vLLM {release}\n")
        return 0
    older = [each for each in known if ordered(each) < ordered(release)]
    if older:
        lines = changes(known[older[-1]], now)
        sys.stdout.write(f"vLLM {release}: {len(lines)} functions differ from {older[-1]}'s\n")
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    if release not in MODELLED:
        sys.stdout.write(f"{beside_the_last()}\n")
        sys.stdout.write(f"vLLM {release} is not followed: docs/new-release.md says how to\n")
        return UNKNOWN
    if known.get(release) != now:
        sys.stdout.write(f"vLLM {release} is not as it was recorded: its functions are others\n")
        return DIFFERENT
    return run_workloads([golden_of(release)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
