"""How many replays run at a time."""

from typing import Annotated

import typer

from schedbench.cli.values import parse_some

Jobs = Annotated[
    str | None,
    typer.Option("--jobs", "-j", metavar="N", help="Replays at a time.", show_default="one a core"),
]


def workers_of(jobs: str | None, *, is_torch: bool = False) -> int | None:
    """Replays at a time, None for one a core; of real passes one, for two would time each other."""
    if jobs is not None:
        return parse_some(jobs, "--jobs")
    return 1 if is_torch else None
