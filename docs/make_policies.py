"""Puts the policies, and what their commands really print, into docs/policies.md.

    python docs/make_policies.py

A `console` block is run line by line, all in one folder; what stands there in the end is the output
of its last command. A block after `<!-- file: NAME -->` holds that file.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGE, POLICIES = DOCS / "policies.md", DOCS / "policies"
CONSOLE = re.compile(r"```console\n(?P<commands>(?:\$ .*\n)+)[\s\S]*?```")
FILE = re.compile(r"(?P<mark><!-- file: (?P<name>\S+) -->\n)```python\n[\s\S]*?```")


def main() -> None:
    text = with_files(PAGE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        text = CONSOLE.sub(lambda match: _with_output(match, folder), text)
    PAGE.write_text(text, encoding="utf-8")


def with_files(text: str) -> str:
    """The page with each policy as it stands in its file."""
    return FILE.sub(
        lambda match: f"{match['mark']}```python\n{(POLICIES / match['name']).read_text()}```",
        text,
    )


def _with_output(match: re.Match[str], folder: str) -> str:
    commands = match["commands"]
    for line in commands.splitlines():
        sys.stderr.write(f"{line}\n")
        out = _run(shlex.split(line.removeprefix("$ ")), folder)
    lines = [line.rstrip() for line in out.splitlines()]
    return f"```console\n{commands}{chr(10).join(lines).strip()}\n```"


def _run(words: list[str], folder: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "PYTHONPATH": f"{DOCS.parent}:{POLICIES}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    main()
