"""Options and fixtures of all suites. `acceptance` is collected only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

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
