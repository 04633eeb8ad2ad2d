"""Puts the real output of its commands into docs/gpu.md.

python docs/make_gpu.py [WORD...]     all commands, or those with one of these words in them

Needs the extras torch and torch-test, in the versions of constraints.txt, and half an hour of one
core: the sample is replayed in the time that its passes take. Clock times are noisy.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gpu.md"
MARK = re.compile(r"(<!-- output of: (?P<command>.+?) -->\n```text\n).*?(```)", re.DOTALL)


def main() -> None:
    words = sys.argv[1:]
    for command in [match["command"] for match in MARK.finditer(_page())]:
        if not words or any(word in command for word in words):
            renewed = _output(command)
            PAGE.write_text(_put(_page(), command, renewed), encoding="utf-8")


def _page() -> str:
    return PAGE.read_text(encoding="utf-8")


def _put(page: str, command: str, output: str) -> str:
    """The page with this output of this command, whatever else became of it meanwhile."""
    return MARK.sub(
        lambda match: match[1] + output + match[3] if match["command"] == command else match[0],
        page,
    )


def _output(command: str) -> str:
    """What a command prints, run as a user would, in a folder of its own."""
    _, script, *rest = command.split()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(ROOT / script), *rest],
            cwd=folder,
            env={
                **os.environ,
                "COLUMNS": "100",
                "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}",
            },
            capture_output=True,
            text=True,
            check=True,
        )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


if __name__ == "__main__":
    main()
