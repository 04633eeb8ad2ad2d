"""Options and fixtures of all suites. `acceptance` and `parity` are collected only if asked for."""

from __future__ import annotations

import importlib.util
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=False,
)
settings.register_profile(
    "thorough", settings.get_profile("ci"), derandomize=False, max_examples=5000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell that runs the tests in the background lets them ignore Ctrl-C, which some are about.
signal.signal(signal.SIGINT, signal.default_int_handler)

# minutes, and the public traces or vLLM: `make acceptance TRACES=DIR`, `make parity`
collect_ignore = ["acceptance", "parity"]

TORCH_CHECKS = ("torch", "triton", "transformers", "scipy", "safetensors")


def pytest_configure() -> None:
    """`SCHEDBENCH_TORCH=required`: without what the torch checks need, nothing runs."""
    absent = [name for name in TORCH_CHECKS if importlib.util.find_spec(name) is None]
    if absent and os.environ.get("SCHEDBENCH_TORCH") == "required":
        raise pytest.UsageError(
            f"SCHEDBENCH_TORCH=required, and {', '.join(absent)} cannot be imported: "
            "pip install -c constraints.txt -e '.[dev,torch,torch-test]'"
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--traces",
        default=None,
        metavar="DIR",
        help="folder with the public traces, for tests/acceptance",
    )
    parser.addoption(
        "--golden-logs",
        default=None,
        metavar="DIR",
        help="folder with golden logs of public traces; by default `golden` beside --traces",
    )
    parser.addoption(
        "--vllm-python",
        default=None,
        metavar="PYTHON",
        help="interpreter with vLLM beside this project, for tests/parity; that of `make vllm-env`",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what this project's decisions were held against."""
    passed = [each.nodeid for each in terminalreporter.stats.get("passed", ())]
    logs = sum("class_logged_it" in nodeid for nodeid in passed)
    if any("tests/parity/test_real_class.py" in nodeid for nodeid in passed):
        terminalreporter.write_line("parity: the real class of the installed vLLM was run")
    elif logs:
        terminalreporter.write_line(
            f"parity: {logs} golden logs of vLLM's own class stood in for it; `make parity` runs it"
        )
