"""`schedbench_baseline`: the gate as a fixture of pytest.

    def test_scheduling_of_the_chat_trace(schedbench_baseline):
        schedbench_baseline("chat.parquet", "baselines/chat.json", max_num_seqs=128)

Paths are taken from the test's own folder. `pytest --schedbench-update` writes the baselines anew.
Nothing of schedbench is loaded before the fixture is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.workloads.trace import Trace

UPDATE = "--schedbench-update"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("schedbench").addoption(
        UPDATE, action="store_true", help="write the baselines of schedbench_baseline anew"
    )


@pytest.fixture
def schedbench_baseline(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Call it with a trace (a path, or what `load_trace` gives), a baseline and flags.

    Flags are those of SchedulerConfig; the options of a replay (`speedup`, `arrivals`,
    `deployment`) are taken too. What is not given is as the baseline has it. The test fails if
    anything differs.
    """

    def hold(trace: Trace | str | Path, baseline: str | Path, **given: Any) -> None:  # noqa: ANN401
        folder = request.path.parent
        update = bool(request.config.getoption(UPDATE))
        complaint = _complaint(trace, folder, folder / baseline, given, update=update)
        if complaint:
            pytest.fail(complaint, pytrace=False)

    return hold


def _complaint(
    trace: Trace | str | Path,
    folder: Path,
    path: Path,
    given: dict[str, Any],
    *,
    update: bool,
) -> str:
    """What there is to complain of, a refusal too; its remedies are those of pytest."""
    from schedbench.errors import SchedbenchError  # noqa: PLC0415 (not before it is used)

    try:
        return _hold(_loaded(trace, folder), path, given, update=update)
    except SchedbenchError as error:
        return f"{path.stem}: refused. {error}".replace("--update", UPDATE)


def _loaded(trace: Trace | str | Path, folder: Path) -> Trace:
    from schedbench.workloads.importers.registry import load_trace  # noqa: PLC0415 (not before)

    return load_trace(folder / trace) if isinstance(trace, str | Path) else trace


def _hold(trace: Trace, path: Path, given: dict[str, Any], *, update: bool) -> str:
    """What there is to complain of; nothing if the run equals its baseline."""
    from schedbench.results.gate_report import gate_view  # noqa: PLC0415 (not before it is used)
    from schedbench.results.tables import plain_text  # noqa: PLC0415
    from schedbench.runner import gate  # noqa: PLC0415

    if update:
        setup = gate.DEFAULTS.changed(**given)
        gate.write_baseline(path, gate.run_setup(trace, setup), setup)
        return ""
    known = gate.read_baseline(path)
    setup = gate.setup_of(known, path).changed(**given)
    result = gate.gate(path, known, gate.run_setup(trace, setup), setup)
    return "" if result.passed else plain_text(gate_view(path.stem, result))
