"""The functions of vLLM's scheduler that are kept by release, and what is built on their names."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schedbench.runner import vllm_recorder
from schedbench.sched.behaviours import MODELLED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

PARITY = Path(__file__).parents[2] / "parity"


@pytest.fixture(scope="module")
def followed() -> Iterator[ModuleType]:
    """The script of tests/parity, as a module."""
    sys.path.insert(0, str(PARITY))
    yield importlib.import_module("changed_functions")
    sys.path.remove(str(PARITY))


def hooks() -> set[str]:
    """The methods of vLLM's class that the recorder overrides and calls."""
    tree = ast.parse(Path(vllm_recorder.__file__).read_text())
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        call.attr
        for call in calls
        if isinstance(call, ast.Attribute)
        and isinstance(call.value, ast.Call)
        and getattr(call.value.func, "id", "") == "super"
    }


@pytest.mark.parametrize("release", MODELLED)
def test_every_method_that_the_recorder_overrides_is_one_of_the_releases_scheduler(
    release: str, followed: ModuleType
) -> None:
    names = {name.partition("Scheduler.")[2] for name in followed.kept()[release]}
    assert len(hooks()) > 8
    assert hooks() - names == set()


def test_the_functions_of_every_followed_release_are_kept(followed: ModuleType) -> None:
    assert list(followed.kept()) == list(MODELLED)
    assert followed.kept()["0.27.1"] == followed.kept()["0.27.0"]
    changed = followed.changes(followed.kept()["0.32.0"], followed.kept()["0.33.0"])
    assert "  changed scheduler.py Scheduler.schedule" in changed


def core_of(tmp_path: Path, text: str, followed: ModuleType) -> Path:
    for name in followed.FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_function_changes_with_its_code_and_not_with_its_comments(
    tmp_path: Path, followed: ModuleType
) -> None:
    def hashes(body: str) -> dict[str, str]:
        text = f"class Scheduler:\n    def schedule(self):\n{body}"
        found: dict[str, str] = followed.functions_of(core_of(tmp_path, text, followed))
        return found

    plain = hashes("        return 1\n")
    assert plain == hashes('        """One."""\n        # one\n        return (1)\n')
    other = hashes("        return 2\n")
    assert followed.changes(plain, other)[0] == "  changed async_scheduler.py Scheduler.schedule"
    assert len(followed.changes(plain, {})) == len(plain) == len(followed.FILES)


def test_what_is_kept_of_a_release_is_what_differs_from_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, followed: ModuleType
) -> None:
    monkeypatch.setattr(followed, "KEPT", tmp_path / "functions.json")
    found = {"0.9.0": {"a": "1", "b": "2"}, "0.10.0": {"a": "1", "c": "3"}}
    followed.keep(found)
    assert followed.kept() == found
    assert followed.KEPT.read_text().count('"a"') == 1


def test_a_release_that_is_not_followed_ends_with_an_exit_code_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    followed: ModuleType,
) -> None:
    core = core_of(tmp_path, "def new():\n    return 1\n", followed)
    monkeypatch.setattr(followed, "core", lambda: core)
    monkeypatch.setattr(followed, "vllm_version", lambda: "0.34.0")
    monkeypatch.setattr(followed, "beside_the_last", lambda: "equal: 0 golden logs")
    assert followed.main([]) == followed.UNKNOWN
    said = capsys.readouterr().out
    assert "vLLM 0.34.0 is not followed" in said
    assert "  new     scheduler.py new" in said
    assert "  gone    scheduler.py Scheduler.schedule" in said
