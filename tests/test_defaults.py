"""`x or DEFAULT` takes a given 0 for nothing given, so no number gets its default like that."""

import ast
import enum
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedbench

PACKAGE = Path(schedbench.__file__).parent
FOLDERS = ("cli", "sched", "runner", "workloads", "results")


def defaults_by_or(path: Path) -> Iterator[ast.expr]:
    """The last operand of every `or`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            yield node.values[-1]


def number_of(node: ast.expr, module: str) -> float | None:
    """The number that an expression stands for; None if it is none."""
    if isinstance(node, ast.Name) and node.id.lstrip("_").isupper():
        value = named(node.id, module)
    elif isinstance(node, ast.Constant):
        value = node.value
    else:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool | enum.Enum)
    return value if is_number else None


def named(name: str, module: str) -> object:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:  # an optional package is not installed
        return None


def found(path: Path, module: str) -> list[str]:
    """Lines of `or NUMBER`; `or 0` may stand, for it gives 0 where 0 was given."""
    return [
        f"{path}:{node.lineno}: or {ast.unparse(node)}"
        for node in defaults_by_or(path)
        if number_of(node, module)
    ]


def test_no_number_gets_its_default_by_or() -> None:
    places = []
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            inner = path.relative_to(PACKAGE).with_suffix("")
            places += found(path, ".".join(["schedbench", *inner.parts]))
    assert places == []


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("x = y or 16", True),
        ("x = y or 0.92", True),
        ("x = y or SIZE", True),
        ("x = y or 0", False),
        ("x = y or NAME", False),
        ("x = y or z", False),
    ],
)
def test_the_search_finds_numbers_and_named_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, is_found: bool
) -> None:
    (tmp_path / "sample_of_or.py").write_text(f"SIZE, NAME, y, z = 16, 'a', 1, 2\n{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    importlib.sys.modules.pop("sample_of_or", None)  # type: ignore[attr-defined]
    assert bool(found(tmp_path / "sample_of_or.py", "sample_of_or")) is is_found
