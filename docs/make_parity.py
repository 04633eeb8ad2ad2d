"""Puts what `make parity` printed into docs/parity.md: `python docs/make_parity.py`.

A block after `<!-- said: RELEASE NAME -->` holds build/parity-RELEASE/NAME.txt, which that target
writes. A block whose file is not there stays as it is, and is named.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "parity.md"
SAID = re.compile(r"(?P<mark><!-- said: (?P<release>\S+) (?P<name>\S+) -->\n)```text\n[\s\S]*?```")


def _filled(match: re.Match[str]) -> str:
    path = DOCS.parent / "build" / f"parity-{match['release']}" / f"{match['name']}.txt"
    if not path.is_file():
        sys.stderr.write(f"{path}: not there, so that block stays as it is\n")
        return match[0]
    return f"{match['mark']}```text\n{path.read_text(encoding='utf-8').strip()}\n```"


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(SAID.sub(_filled, page), encoding="utf-8")


if __name__ == "__main__":
    main()
