"""Dependencies point one way, and heavy packages are loaded in few places."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedbench

PACKAGE = Path(schedbench.__file__).parent
FOLDERS = ("cli", "sched", "runner", "workloads", "results")
MAY_IMPORT = {
    "cli": {"cli", "runner", "results", "workloads", "sched.config", "bounds", "errors"},
    "runner": {"runner", "sched", "results", "workloads", "bounds", "errors"},
    "sched": {"sched", "bounds", "errors"},
    "workloads": {"workloads", "bounds", "errors"},
    "results": {"results", "bounds", "errors"},
}
HEAVY = {
    "torch": ("runner/torch/", "runner/vllm_backend.py"),  # vLLM's cache spec takes a torch dtype
    "vllm": ("runner/vllm_backend.py", "runner/vllm_recorder.py"),
    "typer": ("cli/",),
    "rich": ("cli/", "results/tables.py"),
}


def modules() -> list[tuple[str, Path]]:
    paths = [path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py")]
    return [(path.relative_to(PACKAGE).as_posix(), path) for path in sorted(paths)]


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize(("name", "path"), modules(), ids=[name for name, _ in modules()])
def test_a_module_imports_only_what_its_folder_may(name: str, path: Path) -> None:
    allowed = MAY_IMPORT[name.split("/", maxsplit=1)[0]]
    for module in imports(path):
        top, _, rest = module.partition(".")
        if top == "schedbench" and rest:
            room = rest if rest in allowed else rest.split(".")[0]
            assert room in allowed, f"{name} imports {module}"
        for package, places in HEAVY.items():
            assert top != package or name.startswith(places), f"{name} imports {module}"


def test_nothing_imports_a_folder_as_a_package_of_its_own() -> None:
    for name, path in modules():
        tops = {module.partition(".")[0] for module in imports(path)}
        assert not tops & set(FOLDERS) - {"sched"}, name


def test_code_folders_have_no_init_so_that_sched_stays_the_standard_librarys() -> None:
    assert not [folder for folder in FOLDERS if (PACKAGE / folder / "__init__.py").exists()]
    out = subprocess.run(
        [sys.executable, "-c", "import sched; print(sched.scheduler.__module__)"],
        cwd=PACKAGE.resolve().parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert out == "sched\n"


def test_the_scheduler_needs_the_standard_library_only() -> None:
    for name, path in modules():
        if name.startswith("sched/"):
            tops = {module.partition(".")[0] for module in imports(path)} - {"schedbench"}
            assert tops <= sys.stdlib_module_names, name
