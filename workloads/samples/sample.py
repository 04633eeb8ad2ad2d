"""The shipped trace."""

from importlib.resources import files
from pathlib import Path

from schedbench.workloads.store import read_trace
from schedbench.workloads.trace import Trace


def sample_path() -> Path:
    """Where the installed sample lies."""
    return Path(str(files("schedbench.workloads.samples").joinpath("sample.parquet")))


def load_sample() -> Trace:
    return read_trace(sample_path())
