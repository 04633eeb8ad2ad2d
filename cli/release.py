"""Which release of vLLM is followed: as typed, else as the surroundings say, else the first one.

    --vllm-version 0.33.0          of the command
    SCHEDBENCH_VLLM_VERSION        of the environment
    [tool.schedbench]              vllm-version = "0.33.0", in the nearest pyproject.toml

The environment and the file set the command line only: from Python a configuration says it itself,
and a stored run, a baseline or recorded times say what they were made with.
"""

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbench.cli import console
from schedbench.errors import UsageError
from schedbench.runner.installed import vllm_version
from schedbench.sched.config import RELEASES, SchedulerConfig, release_text

if TYPE_CHECKING:
    from schedbench.results.sheet import View

VARIABLE = "SCHEDBENCH_VLLM_VERSION"
FILE, TABLE, KEY = "pyproject.toml", "schedbench", "vllm-version"


def release_set() -> dict[str, Any]:
    """The flag that the environment or the nearest pyproject.toml sets; empty if neither does.

    Raises:
        UsageError: a file that is no TOML, a key that is none, a release that is not modelled.
    """
    text = os.environ.get(VARIABLE)
    source = VARIABLE
    if not text:
        path = next(filter(Path.is_file, (each / FILE for each in _folders())), None)
        text = None if path is None else _from_file(path)
        source = f"{path}, [tool.{TABLE}]"
    if not text:
        return {}
    try:
        release_text(text)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error
    if text != SchedulerConfig.vllm_version:
        console.note(f"vLLM {text} is followed, as {source} says")
    return {"vllm_version": text}


def _folders() -> list[Path]:
    here = Path.cwd()
    return [here, *here.parents]


def _from_file(path: Path) -> str | None:
    try:
        tools = tomllib.loads(path.read_text("utf-8")).get("tool", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Mend it, or run elsewhere") from error
    if not isinstance(tools, dict):
        raise UsageError(f"{path}: tool is {tools!r}, where tables of tools stand. Mend it")
    found = tools.get(TABLE, {})
    if not isinstance(found, dict) or found.keys() - {KEY}:
        raise UsageError(f'{path}: [tool.{TABLE}] holds {KEY} = "0.33.0" and nothing else')
    text = found.get(KEY)
    if text is not None and not isinstance(text, str):
        raise UsageError(f'{path}: {KEY} is {text!r}; write it in quotes, such as "0.33.0"')
    return text


def tell_installed(followed: Collection[str]) -> None:
    """Say it where another release that is modelled is installed than the one followed."""
    found = installed()
    if found in RELEASES and found not in followed:
        console.note(
            f"vLLM {found} is installed here, and {', '.join(followed)} is followed; "
            f"--vllm-version {found} follows that one"
        )


def installed() -> str | None:
    """Release of the installed vLLM, without importing it; None if there is none."""
    try:
        return vllm_version()
    except PackageNotFoundError:
        return None


def release_of(flags: Mapping[str, Any], axes: Mapping[str, Any]) -> str:
    """Whose decisions those of many replays are, in words: each release, and each mixture as one.

    Several mixtures of behaviours that vary are told by their rows.
    """
    followed = str(flags.get("vllm_version", SchedulerConfig.vllm_version))
    releases = [str(each) for each in axes.get("vllm_version", [followed])]
    if "behaviours" in axes:
        return f"mixtures of vLLM {' and '.join(releases)}"
    behaviours = str(flags.get("behaviours", ""))
    if not behaviours:
        return f"vLLM {' and '.join(releases)}"
    return " and ".join(_mixture(release, behaviours) for release in releases)


def _mixture(release: str, behaviours: str) -> str:
    try:
        return release_text(release, behaviours)
    except UsageError:  # that point is refused, with the reason in its row
        return f"vLLM {release}"


def named(view: "View", release: str) -> "View":
    """A view that says whose decisions it is about, in its title and in its data."""
    title = f"{view.title} · {release}" if view.title else release
    data = {**view.data, "release": release} if isinstance(view.data, dict) else view.data
    return replace(view, title=title, data=data)
