"""The command that made a sweep or a search, so that it can be given again with --resume."""

import shlex
from pathlib import Path

PLACES = ("--out", "--resume")


def again(folder: Path) -> str:
    """That command with `--resume FOLDER`; empty where the folder keeps none."""
    import orjson

    from schedbench.results.report.sweep_folder import SWEEP

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
