"""Who replays the points of a sweep."""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedbench.cli.jobs import Jobs
from schedbench.errors import UnsupportedError, UsageError
from schedbench.results.extras import remedy

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.runner.workers import Pool
    from schedbench.workloads.trace import Trace


class ExecutorName(StrEnum):
    """Who replays the points."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True)
class Executing:
    """Who replays the points, and how many at a time."""

    jobs: Jobs = None
    executor: Annotated[
        ExecutorName,
        typer.Option(
            help="local: processes of this machine. ray: a Ray cluster, whose nodes have this "
            "package and share the folder that runs are kept in.",
        ),
    ] = ExecutorName.LOCAL
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Of the cluster, if not in $RAY_ADDRESS; without both, Ray is started here.",
            show_default=False,
        ),
    ] = None

    def check(self) -> None:
        """Raises UsageError for options that would have no effect."""
        if self.ray_address is None:
            return
        if self.executor is ExecutorName.LOCAL:
            raise UsageError("--ray-address is of --executor ray: give that too")
        if self.jobs is not None:
            raise UsageError("--jobs: a cluster says itself how many run at a time; leave it out")

    def seen(self, folder: Path | None) -> Path | None:
        """The folder as processes see it that stand elsewhere."""
        return folder.resolve() if folder and self.executor is ExecutorName.RAY else folder

    def pool(self) -> "Callable[[Trace, int], Pool]":
        """What makes the pool. Raises UnsupportedError where Ray is not installed."""
        from schedbench.runner.workers import Workers

        if self.executor is ExecutorName.LOCAL:
            return Workers
        try:
            from schedbench.runner.ray_workers import RayWorkers
        except ImportError as error:
            raise UnsupportedError(
                f"--executor ray needs Ray, which is not installed: {remedy('ray')}"
            ) from error
        from schedbench.runner.sweep import reuse

        return partial(RayWorkers, address=self.ray_address, before_retry=reuse)
