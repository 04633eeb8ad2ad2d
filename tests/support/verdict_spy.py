"""Every verdict that is really returned while a scheduler runs, noted where it is returned."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from schedbench.sched import admission_loop, running_loop
from schedbench.sched import scheduler as scheduler_module
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RETURNING = (  # all functions of the two loops that return one, and the second half
    (running_loop, "make_room"),
    (running_loop, "schedule_one"),
    (scheduler_module, "schedule_running"),
    (admission_loop, "consider"),
    (scheduler_module, "admit_waiting"),
    (scheduler_module.Scheduler, "admit"),
    (scheduler_module, "fold"),
)


@contextmanager
def seen_verdicts() -> Iterator[set[Verdict]]:
    """The verdicts returned inside the block; dry runs of the admission loop are left out."""
    seen: set[Verdict] = set()

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever it returns
            returned = function(*args, **kwargs)
            seen.update(_verdicts_in(returned))
            return returned

        return wrapped

    with ExitStack() as patches:
        for owner, name in RETURNING:
            patches.enter_context(patch.object(owner, name, noting(getattr(owner, name))))
        patches.enter_context(patch.object(scheduler_module, "admissions_that_fit", _no_dry_run))
        yield seen


def _no_dry_run(scheduler: object, this_pass: object) -> int:
    del scheduler, this_pass
    return 0


def _verdicts_in(returned: Any) -> Iterator[Verdict]:  # noqa: ANN401
    if isinstance(returned, Verdict):
        yield returned
    elif isinstance(returned, tuple):
        yield from (each for each in returned if isinstance(each, Verdict))
    else:
        yield from (verdict for _, verdict in returned.verdicts)
