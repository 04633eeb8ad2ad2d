"""What the `console` blocks of a page really print: for the scripts that make the pages.

A block is run line by line, all of a page's in one folder; what stands there in the end is the
output of its last command. An exit code that is to be another than 0 stands behind the command:
`$ schedbench replay x.csv  # exit code 2`, and what went to stderr is shown then.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent
CONSOLE = re.compile(r"```console\n(?P<commands>(?:\$ .*\n)+)[\s\S]*?```")
EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")
WIDTH = "100"


def with_outputs(
    text: str, *paths: Path, prepare: Callable[[Path], None] = lambda _folder: None
) -> str:
    """The page with every block run anew; `paths` are where Python finds more modules.

    `prepare` puts into the folder what the commands read.
    """
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        return CONSOLE.sub(lambda match: _with_output(match, folder, paths), text)


def _with_output(match: re.Match[str], folder: str, paths: tuple[Path, ...]) -> str:
    commands, out = match["commands"], ""
    for line in commands.splitlines():
        sys.stderr.write(f"{line}\n")
        out = _run(line.removeprefix("$ "), folder, paths)
    lines = [line.rstrip() for line in out.splitlines()]
    return f"```console\n{commands}{chr(10).join(lines).strip()}\n```"


def _run(line: str, folder: str, paths: tuple[Path, ...]) -> str:
    wanted = EXIT_CODE.search(line)
    words = shlex.split(EXIT_CODE.sub("", line))
    env = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={
            **os.environ,
            "COLUMNS": WIDTH,
            "PYTHONPATH": ":".join(map(str, (DOCS.parent, *paths))),
            **env,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if wanted else None,
        text=True,
        check=False,
    )
    if done.returncode != (int(wanted[1]) if wanted else 0):
        raise SystemExit(f"{line}\nended with exit code {done.returncode}")
    return done.stdout
