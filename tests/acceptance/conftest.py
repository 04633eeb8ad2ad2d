"""Where the public traces and their golden logs are. What is missing fails; nothing is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "public_log" in metafunc.fixturenames:
        found = sorted(_golden_folder(metafunc.config).glob("*.jsonl.gz"))
        logs = [path for path in found if path.name.startswith(("azure_", "mooncake_"))]
        metafunc.parametrize("public_log", logs or [None], ids=lambda path: path and path.name)


@pytest.fixture
def traces(request: pytest.FixtureRequest) -> Path:
    folder = request.config.getoption("--traces")
    if folder is None or not Path(folder).is_dir():
        pytest.fail(f"give --traces DIR, a folder with the public traces; not a folder: {folder!r}")
    return Path(folder)


def _golden_folder(config: pytest.Config) -> Path:
    given = config.getoption("--golden-logs")
    if given is not None:
        return Path(given)
    return Path(config.getoption("--traces") or "missing").parent / "golden"
