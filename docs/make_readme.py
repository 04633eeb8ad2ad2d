"""Puts the real output of the README's command into the README.

python docs/make_readme.py
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
MARK = re.compile(r"(<!-- output of: (?P<command>.+?) -->\n```text\n).*?(```)", re.DOTALL)


def main() -> None:
    README.write_text(MARK.sub(_with_output, README.read_text(encoding="utf-8")), encoding="utf-8")


def _with_output(match: re.Match[str]) -> str:
    """The command as a user would run it, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", *match["command"].split()],
            cwd=folder,
            env={**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return match[1] + "\n".join(lines).strip() + "\n" + match[3]


if __name__ == "__main__":
    main()
