"""Puts what a script of bench/ prints into a page, between marks: for the scripts that make pages.

<!-- output of: python bench/x.py -->
```text
(here)
```
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def renew(page: Path, command: str) -> None:
    """Run the command from the root, and put what it prints where the page says so.

    Raises SystemExit if the page has no one place for it, or if the command ends with an error; the
    page holds its output even so.
    """
    mark = re.compile(rf"(<!-- output of: {re.escape(command)} -->\n```text\n).*?(```)", re.DOTALL)
    done = subprocess.run(
        [sys.executable, *command.split()[1:]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    text, places = mark.subn(
        lambda match: match[1] + done.stdout + match[2], page.read_text(encoding="utf-8")
    )
    if places != 1:
        raise SystemExit(f"{page.name} has {places} places for the output of `{command}`, not 1")
    page.write_text(text, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"`{command}` ended with exit code {done.returncode}; see {page.name}")
