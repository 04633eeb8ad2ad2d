"""The shipped trace is what its script makes, and shows what it is shipped to show."""

import subprocess
import sys
from pathlib import Path

from schedbench.workloads.describe import describe
from schedbench.workloads.samples.make_sample import SAMPLE
from schedbench.workloads.samples.sample import load_sample, sample_path
from schedbench.workloads.store import read_trace


def test_the_script_makes_the_shipped_file_again(tmp_path: Path) -> None:
    again = tmp_path / "again.parquet"
    module = "schedbench.workloads.samples.make_sample"
    subprocess.run([sys.executable, "-m", module, str(again)], check=True, cwd=tmp_path)
    shipped, made = load_sample(), read_trace(again)
    assert shipped.digest == shipped.stored_digest == made.digest
    assert shipped.provenance == made.provenance == SAMPLE.provenance()


def test_the_sample_is_small_and_rich() -> None:
    sample = load_sample()
    found = describe(sample, max_model_len=8_192)
    assert sample_path().stat().st_size < 300_000
    assert sample.num_requests == 2_000
    assert set(sample.table.column("client").to_pylist()) == {0, 1}
    assert found.sessions is not None
    assert found.sessions.closed_loop > 500
    assert found.reuse is not None
    assert found.reuse.distinct_roots > 1
    assert found.arrivals.gap_cv is not None
    assert found.arrivals.gap_cv > 1.5
    assert found.findings == ()
