"""Iteration details that vLLM logs become a run; what is wrong is said by line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedbench.errors import OutputError, RunStoreError, TraceError, UsageError
from schedbench.results.compare import compare
from schedbench.results.iteration_log import import_iterations
from schedbench.results.stored_run import StoredRun
from schedbench.runner.deployment import Deployment

Log = Callable[..., Path]
OLD = "INFO 07-31 14:15:03 [loggers.py:198] Engine 000: "
NEW = "(APIServer pid=71) INFO 07-31 14:15:03 [loggers.py:215] Engine 000: "


def iteration(
    index: int, context: int, generation: int, ms: str, *, dummy: bool = False, device: str = "GPU"
) -> str:
    return (
        f"Iteration({index}): {int(context > 0)} context requests, {context} context tokens, "
        f"{generation} generation requests, {generation} generation tokens, iteration elapsed "
        f"time: {ms} ms{' (dummy)' if dummy else ''}, {device} KV cache usage: 4.2%\n"
    )


@pytest.fixture
def log(tmp_path: Path) -> Log:
    def write(*lines: str) -> Path:
        path = tmp_path / "server.log"
        path.write_text("".join(lines))
        return path

    return write


@pytest.mark.parametrize(("prefix", "device"), [(OLD, "GPU"), (NEW, "CPU"), ("", "GPU")])
def test_both_releases_lines_become_passes_one_after_the_other(
    log: Log, tmp_path: Path, prefix: str, device: str
) -> None:
    lines = [
        "INFO 07-31 14:15:00 [api_server.py:12] Started\n",
        prefix + iteration(0, 512, 0, "21.37", device=device),
        "INFO 07-31 14:15:10 [loggers.py:259] Engine 000: Avg prompt throughput: 51.2 tokens/s\n",
        prefix + iteration(1, 0, 1, "9.05", device=device),
    ]
    found = import_iterations(log(*lines), tmp_path / "run")
    assert (found.passes, found.busy_ns, found.notes) == (2, 30_420_000, ())
    run = StoredRun.open(tmp_path / "run")
    rows = run.passes().to_pylist()
    assert [row["start_ns"] for row in rows] == [0, 21_370_000]
    assert [row["duration_ns"] for row in rows] == [21_370_000, 9_050_000]
    assert [row["prefill_tokens"] for row in rows] == [512, 0]
    assert [row["decode_tokens"] for row in rows] == [0, 1]
    assert [row["requests_scheduled"] for row in rows] == [1, 1]
    assert {row["running"] for row in rows} == {None}
    assert run.summary["passes"] == 2
    assert run.summary["tokens_scheduled"] == 513
    assert "preempted" not in run.summary


def test_dummy_iterations_are_left_out_and_missing_ones_counted(log: Log, tmp_path: Path) -> None:
    lines = [
        iteration(4, 8, 0, "1.00"),
        iteration(5, 0, 0, "0.50", dummy=True),
        iteration(9, 0, 1, "1.00"),
    ]
    found = import_iterations(log(*lines), tmp_path / "run")
    assert found.passes == 2
    assert found.notes == (
        "dummy iterations of a data-parallel engine, left out: 1",
        "iterations missing between the first and the last line: 3",
    )


def test_a_logged_run_is_compared_with_a_modelled_one_by_what_both_tell(
    log: Log, tmp_path: Path, made_up: Callable[..., object]
) -> None:
    import_iterations(log(iteration(0, 8, 0, "1.00")), tmp_path / "logged")
    logged = StoredRun.open(tmp_path / "logged")
    manifest = {"trace": {"digest": "other"}, "scheduler": {}}
    path = made_up(5).stored(tmp_path / "modelled", manifest, {"passes": 5})  # type: ignore[attr-defined]
    modelled = StoredRun.open(path)
    with pytest.raises(RunStoreError, match="--across-traces"):
        compare([modelled, logged])
    found = compare([modelled, logged], across_traces=True)
    apart = found.by_decisions[0]
    assert apart is not None
    assert "running" not in apart.columns
    assert [each.values for each in found.differences if each.metric.key == "passes"] == [(5, 1)]


def test_a_log_without_its_requests_is_no_source_of_time(log: Log, tmp_path: Path) -> None:
    import_iterations(log(iteration(0, 8, 0, "1.00")), tmp_path / "run")
    with pytest.raises(UsageError, match="does not say who was in them"):
        Deployment(recorded=str(tmp_path / "run")).make_runner()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["Started\n"], r"has no iteration details\. Run vllm serve with --enable-logging-iter"),
        (
            [iteration(0, 8, 0, "1.00"), "Iteration(1): 3 context req\n"],
            r"line 2: 'Iteration\(1\): 3 context req' is cut or changed\. Give the log as",
        ),
        (
            [OLD + iteration(0, 8, 0, "1.00"), "Engine 001: " + iteration(0, 8, 0, "1.00")],
            r"line 2: is of engine 1, and line 1 of engine 0\. Import one engine at a time: grep",
        ),
        (
            [iteration(3, 8, 0, "1.00"), iteration(0, 8, 0, "1.00")],
            r"line 2: iteration 0 comes after 3\. The server was started again there: cut the log",
        ),
        ([iteration(0, 0, 0, "1.00", dummy=True)], "holds dummy iterations only"),
    ],
)
def test_what_is_wrong_names_the_line_the_rule_and_the_remedy(
    log: Log, tmp_path: Path, lines: list[str], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        import_iterations(log(*lines), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_is_never_written_over_another(log: Log, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(OutputError, match="is there already"):
        import_iterations(log(iteration(0, 8, 0, "1.00")), tmp_path / "run")
