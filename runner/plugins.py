"""Classes that people name as `module:Class`, importable from the current folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from schedbench.errors import UsageError
from schedbench.sched.policy import HOOKS, Policy, overridden
from schedbench.sched.scheduler import Scheduler

OWN_SCHEDULER = "schedbench"
SCHEDULER_METHODS = ("add_request", "schedule", "update_from_output", "finish_requests")


def load_class(spec: str, option: str) -> type[object]:
    """Import `module:Class`.

    Raises:
        UsageError: not of that form, no such module or class, or its import fails.
    """
    module_name, _, class_name = spec.partition(":")
    if not module_name or not class_name:
        raise UsageError(f"{option}: {spec!r} is not of the form module:Class")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
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


def load_policy(spec: str) -> Policy:
    """Make a policy of one's own.

    Raises:
        UsageError: no subclass of `schedbench.Policy`, or one that overrides nothing.
    """
    found = load_class(spec, "--policy-class")
    if not issubclass(found, Policy):
        raise UsageError(f"--policy-class: {spec} is no subclass of schedbench.Policy")
    policy = found()
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
    found = load_class(spec, "--scheduler")
    missing = [name for name in SCHEDULER_METHODS if not callable(getattr(found, name, None))]
    if missing:
        raise UsageError(f"--scheduler: {spec} has no method {missing[0]}")
    if not issubclass(found, Scheduler):
        raise UsageError(
            f"--scheduler: {spec} is no subclass of schedbench.Scheduler, whose collections the "
            "pass log is read from"
        )
    return found
