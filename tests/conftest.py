"""Options and fixtures of all suites. `acceptance` is collected only when it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

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

collect_ignore = ["acceptance"]  # minutes, and the public traces: `make acceptance TRACES=DIR`


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
