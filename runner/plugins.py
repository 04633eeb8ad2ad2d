"""Classes that people name as `module:Class`, importable from the current folder."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from schedbench.errors import InvariantError, SchedbenchError, UsageError
from schedbench.results.untold import REAL_CLASS
from schedbench.runner.own_classes import check_scheduler, checked_policy
from schedbench.sched.policy import HOOKS, Policy, overridden
from schedbench.sched.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN_SCHEDULER = "schedbench"
DEFAULT_POLICY = "default"  # the word for vLLM's own decisions in a list of classes
SCHEDULER_METHODS = ("add_request", "schedule", "update_from_output", "finish_requests")


def load_class(spec: str, option: str) -> type[object]:
    """Import `module:Class`.

    Raises:
        UsageError: not of that form, no such module or class, or its import fails.
    """
    module_name, _, class_name = spec.partition(":")
    if not module_name or not class_name:
        raise UsageError(f"{option}: {spec!r} is not of the form module:Class")
    _look_here()
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{option}: no module {error.name!r}; it is looked for in the current folder and "
            "where Python finds modules"
        ) from error
    except AttributeError as error:
        raise UsageError(f"{option}: {module_name} has no class {class_name!r}") from error
    except Exception as error:
        raise UsageError(f"{option}: importing {module_name} fails: {error!r}") from error
    if not isinstance(found, type):
        raise UsageError(f"{option}: {spec} is no class")
    return found


def load_policy(spec: str | None) -> Policy | None:
    """Make a policy of one's own; None where none is named.

    Raises:
        UsageError: no subclass of `schedbench.Policy`, or one that overrides nothing.
    """
    if spec is None or spec == DEFAULT_POLICY:
        return None
    found = load_class(spec, "--policy-class")
    if not issubclass(found, Policy):
        raise UsageError(f"--policy-class: {spec} is no subclass of schedbench.Policy")
    with blaming("--policy-class", spec):
        policy = checked_policy(found, spec)()
    if not overridden(policy):
        raise UsageError(
            f"--policy-class: {spec} overrides none of {', '.join(HOOKS)}: it would decide what "
            "vLLM decides"
        )
    return policy


def load_scheduler(spec: str) -> type[Scheduler]:
    """Import a scheduler class of one's own: with this project's interface, called as its class is.

    Raises:
        UsageError: it lacks one of the methods the replay calls.
    """
    if spec == OWN_SCHEDULER:
        return Scheduler
    if spec == REAL_CLASS:
        raise UsageError(
            f"--scheduler {REAL_CLASS}: only `schedbench replay` drives vLLM's own class, and "
            "`schedbench verify` holds this project's to it; leave the option out"
        )
    if ":" not in spec:
        meant = next((each for each in (OWN_SCHEDULER, REAL_CLASS) if each == spec.lower()), None)
        hint = f"; did you mean {meant}?" if meant else ""
        raise UsageError(
            f"--scheduler: {spec!r} is neither {OWN_SCHEDULER} nor {REAL_CLASS} nor of the form "
            f"module:Class{hint}"
        )
    found = load_class(spec, "--scheduler")
    missing = [name for name in SCHEDULER_METHODS if not callable(getattr(found, name, None))]
    if missing:
        raise UsageError(f"--scheduler: {spec} has no method {missing[0]}")
    if not issubclass(found, Scheduler):
        raise UsageError(
            f"--scheduler: {spec} is no subclass of schedbench.Scheduler, whose collections the "
            "pass log is read from"
        )
    check_scheduler(found, Scheduler, spec)
    return found


@contextmanager
def blaming(option: str, spec: str | None) -> Iterator[None]:
    """Say of an error that comes out of somebody's class that it does.

    Raises:
        UsageError: in its place, naming the class, the method and the line.
    """
    try:
        yield
    except (SchedbenchError, KeyboardInterrupt) as error:
        if isinstance(error, InvariantError) and spec is not None and option == "--scheduler":
            raise UsageError(f"{option}: {spec} breaks an invariant: {error}") from error
        raise
    except Exception as error:
        place = _place_in(spec, error)
        if place is None:
            raise
        raise UsageError(
            f"{option}: {spec} fails in {place.name} ({place.filename}, line {place.lineno}): "
            f"{type(error).__name__}: {error}; --debug shows the traceback"
        ) from error


def source_digest(spec: str | None) -> str | None:
    """Names the file that a class stands in, by its content; None where there is none to read.

    A run says what a policy was called; the digest tells whether it still is the same.
    """
    path = _file_of(spec)
    if path is None:
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _place_in(spec: str | None, error: Exception) -> traceback.FrameSummary | None:
    """The innermost line of a class's own file that an error went through."""
    path = _file_of(spec)
    frames = traceback.extract_tb(error.__traceback__)
    return next((each for each in reversed(frames) if Path(each.filename) == path), None)


def _file_of(spec: str | None) -> Path | None:
    if spec is None or spec in (OWN_SCHEDULER, REAL_CLASS, DEFAULT_POLICY):
        return None
    _look_here()
    try:
        found = importlib.util.find_spec(spec.partition(":")[0])
    except (ImportError, ValueError):
        return None
    path = Path(found.origin) if found and found.origin else None
    return path if path and path.is_file() else None


def _look_here() -> None:
    """Let modules in the current folder be imported, as `python -m` does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
