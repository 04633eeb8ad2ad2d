"""Law 12: nothing that is written down walks a set of names."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "support" / "hashed_rows.py"


def test_rows_do_not_depend_on_the_hash_seed() -> None:
    told = {seed: _rows_under(seed) for seed in ("0", "1", "4242")}
    assert len(set(told.values())) == 1, told
    assert int(told["0"].split()[0]) > 10_000


def _rows_under(hash_seed: str) -> str:
    """How many rows there are, and their digest."""
    done = subprocess.run(
        [sys.executable, SCRIPT],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
