"""Puts what its commands really print into docs/upgrade.md.

python docs/make_upgrade.py [TRACES]     TRACES: a folder with the public traces

Without TRACES the outputs on them stay as they are. They hold figures and no rows.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

from consoles import DOCS, WIDTH, with_outputs

from schedbench.workloads.store import write_trace
from schedbench.workloads.trace import Trace

PAGE = DOCS / "upgrade.md"
PUBLIC = re.compile(r"(?P<mark><!-- public: (?P<words>.*) -->\n)```text\n[\s\S]*?```")
ROWS, SEED = 200, 7


def mixed_trace(folder: Path) -> None:
    """Write `mixed.parquet`: requests of three priorities, some with an adapter or a grammar."""
    rng, clock_ns = random.Random(SEED), 0  # noqa: S311
    names = ("arrival_ns", "prompt_tokens", "output_tokens", "priority", "lora", "grammar")
    rows = []
    for _ in range(ROWS):
        prompt = min(int(rng.lognormvariate(5.8, 0.8)) + 1, 4000)
        output = min(int(rng.lognormvariate(5.0, 0.7)) + 1, 800)
        priority, lora = rng.choice((0, 0, 5, 5, 9)), rng.choice((None, None, 1, 2, 3, 4, 5, 6))
        waits = {"delay_ns": rng.randrange(200_000_000), "ok": True, "rejects_at": None}
        grammar = waits if rng.random() < 0.3 else None  # noqa: PLR2004
        rows.append((clock_ns, prompt, output, priority, lora, grammar))
        clock_ns += int(rng.expovariate(30) * 1e9)
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    write_trace(Trace.from_columns(columns), folder / "mixed.parquet")


def with_public(text: str, traces: Path) -> str:
    """The page with what the public traces give, made anew."""
    return PUBLIC.sub(
        lambda match: f"{match['mark']}```text\n{_said(match['words'], traces)}\n```", text
    )


def _said(words: str, traces: Path) -> str:
    sys.stderr.write(f"{words}\n")
    done = subprocess.run(
        [sys.executable, "-m", "schedbench", *words.split()],
        cwd=traces,
        env={**os.environ, "COLUMNS": WIDTH, "PYTHONPATH": str(DOCS.parent)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip()


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    if sys.argv[1:]:
        page = with_public(page, Path(sys.argv[1]))
    PAGE.write_text(with_outputs(page, prepare=mixed_trace), encoding="utf-8")
