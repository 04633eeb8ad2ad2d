"""Classes of somebody's own, held to how they are called and to what they may return.

A wrong signature is found before anything runs. What a policy's method returns is looked at where
it returns, because later nobody knows whose value it was.
"""

from __future__ import annotations

import functools
import inspect
import operator
from typing import TYPE_CHECKING, Any

from schedbench.errors import UsageError
from schedbench.sched.policy import HOOKS, Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from schedbench.sched.scheduler import Scheduler

    Method = Callable[..., Any]

ASKED = ("request", "state")
CALLS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(HOOKS, ASKED),
    "chunk_tokens": ("request", "granted", "state"),
    "on_blocks_short": (*ASKED, "is_running="),
    "pass_budget": ("state",),
}
"""By method of a policy: what it is called with; a name with = is given by its name."""

SCHEDULER_CALLS: Mapping[str, tuple[str, ...]] = {
    "__init__": ("config", "connector", "policy", "return_path", "counts_blocks="),
    "add_request": ("request",),
    "schedule": ("throttle_prefills=",),
    "update_from_output": ("output", "result"),
    "finish_requests": ("request_ids", "status"),
}
"""By method of a scheduler, likewise."""


def checked_policy(found: type[Policy], spec: str) -> type[Policy]:
    """The same policy, each of its own methods with a look at what it returns.

    Raises:
        UsageError: a method cannot be called as the scheduler calls it.
    """
    own = {name: getattr(found, name) for name in HOOKS if _is_own(found, Policy, name)}
    _check_calls("--policy-class", spec, own, CALLS)
    if found.__init__ is not object.__init__:
        _check_calls("--policy-class", spec, {"__init__": found.__init__}, {"__init__": ()})
    looked_at = {name: LOOKS[name](spec, own[name]) for name in own if name in LOOKS}
    return type(found.__name__, (found,), {"__module__": found.__module__, **looked_at})


def check_scheduler(found: type[Scheduler], base: type[Scheduler], spec: str) -> None:
    """Raises UsageError for a method that cannot be called as a replay calls it."""
    own = {name: getattr(found, name) for name in SCHEDULER_CALLS if _is_own(found, base, name)}
    _check_calls("--scheduler", spec, own, SCHEDULER_CALLS)


def _is_own(found: type, base: type, name: str) -> bool:
    return getattr(found, name) is not getattr(base, name)


def _check_calls(
    option: str, spec: str, own: Mapping[str, Method], calls: Mapping[str, tuple[str, ...]]
) -> None:
    for name, method in own.items():
        given = ("self", *calls[name])
        named = {each.removesuffix("="): None for each in given if each.endswith("=")}
        try:
            inspect.signature(method).bind(*given[: len(given) - len(named)], **named)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{option}: {spec} fails in {_place(name, method)}: {error}; it is called as "
                f"{name}({', '.join(f'{each}...' if '=' in each else each for each in given)})"
            ) from error


def _place(name: str, method: Method) -> str:
    code = getattr(inspect.unwrap(method), "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}, line {code.co_firstlineno})"


def _whole(spec: str, method: Method) -> Method:
    """Let whole numbers through, of whatever library."""

    @functools.wraps(method)
    def look(self: Policy, *args: Any, **more: Any) -> int:  # noqa: ANN401 - the method's own
        told = method(self, *args, **more)
        try:
            return operator.index(told)
        except TypeError:
            raise _wrong(spec, method, told, "a whole number is allowed") from None

    return look


def _yes_or_no(spec: str, method: Method) -> Method:
    @functools.wraps(method)
    def look(self: Policy, *args: Any, **more: Any) -> bool:  # noqa: ANN401
        told = method(self, *args, **more)
        if told in (True, False):
            return bool(told)
        raise _wrong(spec, method, told, "True or False is allowed")

    return look


def _key(spec: str, method: Method) -> Method:
    """Let keys through that can be compared with all before them."""
    known: set[tuple[type, ...]] = set()  # types of the keys that were looked at
    shapes: list[tuple[str, ...]] = []

    @functools.wraps(method)
    def look(self: Policy, *args: Any, **more: Any) -> Any:  # noqa: ANN401
        told = method(self, *args, **more)
        types = (tuple, *map(type, told)) if isinstance(told, tuple) else (type(told),)
        if types not in known:
            _compare(spec, method, told, shapes)
            known.add(types)
        return told

    return look


def _compare(spec: str, method: Method, told: object, shapes: list[tuple[str, ...]]) -> None:
    """Raises UsageError for what is no key, or one of another shape than those before."""
    parts = told if isinstance(told, tuple) else (told,)
    kinds = ["text" if isinstance(part, str) else _number(part) for part in parts]
    if "" in kinds:
        allowed = "a number is allowed, a text, or a tuple of them"
        raise _wrong(spec, method, told, allowed)
    shape = ("tuple" if isinstance(told, tuple) else "single", *kinds)
    if any(a != b for each in shapes for a, b in zip(shape, each, strict=False)):
        raise _wrong(spec, method, told, "keys are compared, so all have to be of one form")
    shapes.append(shape)


def _number(part: object) -> str:
    return "number" if hasattr(part, "__float__") and hasattr(part, "__lt__") else ""


def _wrong(spec: str, method: Method, told: object, allowed: str) -> UsageError:
    place = _place(method.__name__, method)
    return UsageError(f"--policy-class: {spec} fails in {place}: it returned {told!r}; {allowed}")


LOOKS: Mapping[str, Callable[[str, Method], Method]] = {
    "waiting_key": _key,
    "may_admit": _yes_or_no,
    "chunk_tokens": _whole,
    "headroom_blocks": _whole,
    "pass_budget": _whole,
}
"""By method: what looks at its result; `sched/policy.py` holds all results to the pass."""
