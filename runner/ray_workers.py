"""Processes of a Ray cluster that work on one trace, with the interface of `Workers`.

The trace goes into Ray's object store once, and every node maps it from there; an item of work
travels by itself. Every node needs this package, and a folder that runs are kept in has to be one
that all of them share.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import ray
from ray.exceptions import RayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from schedbench.workloads.trace import Trace

Item = TypeVar("Item")
Result = TypeVar("Result")

ATTEMPTS: Final = 3
"""So often an item is tried whose worker is killed: the fault may be the machine's, or its own."""


class RayWorkers:
    """A cluster: the one at `address` or in $RAY_ADDRESS, else one of this machine's cores.

    `before_retry` is told of an item whose worker was killed, before another one takes it up.
    """

    def __init__(
        self,
        trace: Trace,
        count: int | None = None,
        *,
        address: str | None = None,
        before_retry: Callable[[Any], object] | None = None,
    ) -> None:
        self._trace = trace
        self._count = count
        self._address = address
        self._before_retry = before_retry
        self._started = False
        self._kept_apart = redirect_stdout(sys.stderr)  # Ray prints; stdout is for results

    def __enter__(self) -> Self:
        self._kept_apart.__enter__()
        if not ray.is_initialized():
            ray.init(
                address=self._address,
                num_cpus=None if self._address else self._count,
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
            self._started = True
        self._held = ray.put(self._trace)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._started:
            ray.shutdown()  # ends what still runs, too
        self._kept_apart.__exit__(kind, error, trace)

    def each(
        self, function: Callable[[Trace, Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | None]]:
        """What the function makes of every item, as they end; None where its workers were killed.

        Raises:
            Exception: whatever the function raises.
        """
        work = ray.remote(max_retries=0, num_cpus=1)(function)
        coming = deque((item, 1) for item in items)
        running: dict[Any, tuple[Item, int]] = {}
        while coming or running:
            while coming:
                item, attempt = coming.popleft()
                running[work.remote(self._held, item)] = (item, attempt)
            (done, *_), _ = ray.wait(list(running), num_returns=1)
            item, attempt = running.pop(done)
            try:
                yield item, ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
            except RayError:  # the worker was killed, or its node went away
                if attempt == ATTEMPTS:
                    yield item, None
                    continue
                if self._before_retry is not None:
                    self._before_retry(item)
                coming.append((item, attempt + 1))
