"""How many replays run at a time."""

from typing import Annotated

import typer

from schedbench.bounds import Bounds
from schedbench.cli.values import parse_count

MOST_JOBS = Bounds(1, 1024)
Jobs = Annotated[
    str | None,
    typer.Option("--jobs", "-j", metavar="N", help="Replays at a time.", show_default="one a core"),
]


def workers_of(jobs: str | None, *, is_torch: bool = False) -> int | None:
    """Replays at a time, None for one a core; of real passes one, for two would time each other."""
    if jobs is not None:
        return parse_count(jobs, "--jobs", MOST_JOBS)
    return 1 if is_torch else None
