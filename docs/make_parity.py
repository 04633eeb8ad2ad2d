"""Puts what `make parity` printed into docs/parity.md: `python docs/make_parity.py`.

A block after `<!-- said: RELEASE NAME -->` holds build/parity-RELEASE/NAME.txt, which that target
writes. A block whose file is not there stays as it is, and is named. The table after
`<!-- releases -->` has a row a release, from workloads.txt and the first lines of random.txt; what
was not run stays as it is.
"""

import re
import sys
from pathlib import Path

from schedbench.sched.behaviours import MODELLED

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "parity.md"
SAID = re.compile(r"(?P<mark><!-- said: (?P<release>\S+) (?P<name>\S+) -->\n)```text\n[\s\S]*?```")
TABLE = re.compile(r"(?P<mark><!-- releases -->\n)(?P<rows>(?:\|.*\n)+)")
HEADINGS = (
    "Release",
    "Workloads",
    "Differ",
    "As both",
    "As 0.26.0 only",
    "As 0.33.0 only",
    "As neither",
    "The class fails",
    "Random cases",
    "Of them differ",
)
COUNTS = ("as 0.26.0 and 0.33.0", "as 0.26.0", "as 0.33.0", "as neither", "the class fails")
WORKLOADS = re.compile(r"(\d+) workloads on the class of vLLM \S+, (\d+) differ")
RANDOM = re.compile(r"(?:equal: (?P<all>\d+)|different: (?P<some>\d+) of (?P<of>\d+)) random cases")
NOT_RUN = "-"


def _text(release: str, name: str) -> str | None:
    path = DOCS.parent / "build" / f"parity-{release}" / f"{name}.txt"
    if not path.is_file():
        sys.stderr.write(f"{path}: not there, so what it would say stays as it is\n")
        return None
    return path.read_text(encoding="utf-8")


def _filled(match: re.Match[str]) -> str:
    text = _text(match["release"], match["name"])
    return match[0] if text is None else f"{match['mark']}```text\n{text.strip()}\n```"


def _table(match: re.Match[str]) -> str:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in match["rows"].splitlines()]
    known = {row[0]: row[1:] for row in rows}
    lines = [HEADINGS, ["---"] * len(HEADINGS)]
    for release in MODELLED[1:-1]:
        before = known.get(release, [NOT_RUN] * (len(HEADINGS) - 1))
        workloads = _workloads(_text(release, "workloads")) or before[:7]
        lines.append([release, *workloads, *(_random(_text(release, "random")) or before[7:])])
    return match["mark"] + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _workloads(text: str | None) -> list[str]:
    found = WORKLOADS.search(text or "")
    if found is None:
        return []
    said = dict(re.findall(r"^  (.*): (\d+)$", text or "", re.MULTILINE))
    return [*found.groups(), *(said.get(words, "0") for words in COUNTS)]


def _random(text: str | None) -> list[str]:
    found = RANDOM.search(text or "")
    if found is None:
        return []
    return [found["all"] or found["of"], found["some"] or "0"]


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(_table, SAID.sub(_filled, page)), encoding="utf-8")


if __name__ == "__main__":
    main()
