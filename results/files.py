"""Writing to disk: whole files only, and failures that name the path and the remedy."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from schedbench.errors import OutputError

_REMEDIES: Final = {
    errno.ENOSPC: "Free some space, or give a folder on another disk with --out",
    errno.EDQUOT: "Free some of your quota, or give a folder on another disk with --out",
    errno.EACCES: "Give a folder that you may write to with --out",
    errno.EPERM: "Give a folder that you may write to with --out",
    errno.EROFS: "Give a folder that you may write to with --out",
    errno.ENOTDIR: "Give another folder with --out",
    errno.ENAMETOOLONG: "Give a shorter name with --out",
}
_REMEDY: Final = "Check the disk, or give another folder with --out"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write `path` into an OutputError."""
    try:
        yield
    except OSError as error:  # Arrow's own are of this kind, with the errno of the system
        reason = os.strerror(error.errno) if error.errno else str(error)
        remedy = _REMEDIES.get(error.errno or 0, _REMEDY)
        raise OutputError(f"{path} cannot be written: {reason}. {remedy}.") from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """`path` holds either what it held before or all of `content`."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    temporary = path.with_name(f".{path.name}.tmp")
    with writing(path):
        temporary.write_bytes(orjson.dumps(content, option=options))
        temporary.replace(path)
