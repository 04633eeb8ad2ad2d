"""Puts the real output of its commands into docs/gpu.md.

python docs/make_gpu.py [WORD...]     all commands, or those with one of these words in them

Needs the extras torch and torch-test, and some minutes of one quiet core: clock times are noisy.
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

    def renew(match: re.Match[str]) -> str:
        if words and not any(word in match["command"] for word in words):
            return match[0]
        return match[1] + _output(match["command"]) + match[3]

    PAGE.write_text(MARK.sub(renew, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _output(commands: str) -> str:
    """What the last of some commands prints, each run as a user would, in one folder."""
    with tempfile.TemporaryDirectory() as folder:
        for command in commands.split(" && "):
            program, *rest = command.split()
            start = ["-m", "schedbench"] if program == "schedbench" else [str(ROOT / rest.pop(0))]
            done = subprocess.run(
                [sys.executable, *start, *rest],
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
    return "\n".join(lines).strip() + "\n"


if __name__ == "__main__":
    main()
