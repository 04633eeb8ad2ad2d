"""The command that made a sweep or a search, so that it can be given again with --resume."""

import shlex
from pathlib import Path

from schedbench.errors import RunStoreError

PLACES = ("--out", "--resume")


def refuse_what_is_none(resume: Path | None, command: str) -> None:
    """Before anything else is said of `--resume DIR`. Raises RunStoreError where none is."""
    from schedbench.results.run_store import SWEEP

    if resume is None or (resume / SWEEP).is_file():
        return
    found = f"has no {SWEEP}, so it is none" if resume.exists() else "is not there"
    raise RunStoreError(
        f"--resume {resume}: that folder {found}. Name one that `schedbench {command}` made, or "
        "leave --resume out to begin anew"
    )


def again(folder: Path) -> str:
    """That command with `--resume FOLDER`; empty where the folder keeps none."""
    import orjson

    from schedbench.results.run_store import SWEEP

    try:
        words = orjson.loads((folder / SWEEP).read_bytes())["command_line"]
        kept = _without_places([str(word) for word in words])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return ""
    return shlex.join([*kept, "--resume", str(folder)])


def _without_places(words: list[str]) -> list[str]:
    kept: list[str] = []
    skips = False
    for word in words:
        if not skips and word.partition("=")[0] not in PLACES:
            kept.append(word)
        skips = word in PLACES
    return kept


def hint(resume: Path | None) -> str:
    """What to add to a refusal of a command that lacks its flags; empty without --resume."""
    command = again(resume) if resume is not None else ""
    return f". --resume goes on with the same command: {command}" if command else ""
