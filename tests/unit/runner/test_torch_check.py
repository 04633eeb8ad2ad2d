"""The GPU check and the profiler, rehearsed on a CPU; of their times nothing is asked."""

from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")

from schedbench.errors import OutputError, UsageError  # noqa: E402
from schedbench.runner.latency.grid import Limits, profiling_grid  # noqa: E402
from schedbench.runner.latency.hardware import find_gpu  # noqa: E402
from schedbench.runner.latency.select import make_runner  # noqa: E402
from schedbench.runner.latency.work import WorkModel  # noqa: E402
from schedbench.runner.models import BUILT_IN  # noqa: E402
from schedbench.runner.torch.build import EngineOptions, build_engine  # noqa: E402
from schedbench.runner.torch.check import check_gpu  # noqa: E402
from schedbench.runner.torch.check_table import CheckRow, CheckTable, line_of  # noqa: E402
from schedbench.runner.torch.profile import profile_engine  # noqa: E402
from schedbench.runner.torch.trace_passes import held_out_passes  # noqa: E402
from schedbench.sched.config import SchedulerConfig  # noqa: E402

torch.set_num_threads(1)
CONFIG = SchedulerConfig(
    max_num_batched_tokens=128, max_num_seqs=8, max_model_len=512, num_gpu_blocks=300
)


def quiet(_: str) -> None:
    pass


def test_every_row_of_the_check_is_answered_in_a_rehearsal(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    table = check_gpu(tmp_path, device="cpu", rehearsal=True, say=quiet)
    content = orjson.loads((tmp_path / "check.json").read_bytes())
    rows = content["rows"]
    assert not table.has_failed, [row for row in rows if row["verdict"] == "failed"]
    answered = {row["id"] for row in rows if row["verdict"] != "skipped"}
    wanted = "C0 C1a C1b C1c C2a C2b C2c C2d C2e C3a C3b C3c C3d C4 C5 C6 C7 C8"
    assert answered >= set(wanted.split())
    assert pq.read_table(tmp_path / "check.parquet").num_rows == len(rows)
    assert content["facts"]["rehearsal"] is True
    order = [row["id"] for row in rows]
    assert order.index("C2a") < order.index("C3a") < order.index("C5") < order.index("C2b")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_check_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a CUDA GPU"):
        check_gpu(tmp_path)


def _table(folder: Path, limit_s: float = 100.0) -> CheckTable:
    return CheckTable(folder, limit_s, say=quiet)


def test_a_question_that_would_not_fit_in_the_time_left_is_skipped_and_says_so(
    tmp_path: Path,
) -> None:
    table = _table(tmp_path, limit_s=1.0)
    table.ask("C6", "fit", 100, lambda: pytest.fail("it was asked"))
    assert table.rows[0].verdict == "skipped"
    assert "needs about 100 s" in table.rows[0].note


def test_a_question_that_fails_is_a_failed_row_and_the_next_one_is_asked(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.ask("C1a", "kernels", 1, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    table.ask("C2a", "decode", 1, lambda: CheckRow("C2a", "decode", 4.0, "ms", 4.4))
    assert [row.verdict for row in table.rows] == ["failed", "passed"]
    assert "ZeroDivisionError" in table.rows[0].note
    assert table.has_failed


def test_each_row_is_on_disk_before_the_next_is_asked(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.ask("C0", "copy", 1, lambda: CheckRow("C0", "copy", 4.2, "TB/s", 4.0, at_least=True))

    def second() -> CheckRow:
        rows = orjson.loads((tmp_path / "check.json").read_bytes())["rows"]
        assert [row["id"] for row in rows] == ["C0"]
        return CheckRow("C1a", "kernels", 0.001, "relative", 0.01)

    assert table.ask("C1a", "kernels", 1, second)[0].verdict == "passed"


@pytest.mark.parametrize(
    ("value", "bound", "options", "verdict"),
    [
        (5.0, 4.4, {}, "missed"),
        (5.0, 4.4, {"is_correctness": True}, "failed"),
        (float("nan"), 4.4, {"is_correctness": True}, "failed"),
        (3.9, 4.0, {"at_least": True}, "missed"),
        (3.9, None, {}, "shown"),
        (None, 4.0, {}, "skipped"),
    ],
)
def test_a_row_about_speed_misses_and_one_about_correctness_fails(
    value: float | None, bound: float | None, options: dict[str, bool], verdict: str
) -> None:
    row = CheckRow("C", "what", value, "ms", bound, **options)  # type: ignore[arg-type]
    assert row.verdict == verdict
    assert verdict in line_of(row)


def test_a_folder_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        _table(tmp_path / "file" / "folder")


def test_profiling_writes_a_profile_that_the_replay_takes_and_the_passes_behind_it(
    tmp_path: Path,
) -> None:
    engine, details = build_engine(EngineOptions("tiny", device="cpu"), CONFIG)
    limits = Limits(128, 8, 512, 16, 300)
    grid = profiling_grid(limits)[::5]
    measured = profile_engine(
        engine, CONFIG, tmp_path, details=details, grid=grid, num_held_out=5, warm_s=0, say=quiet
    )
    found = measured.profile
    assert (found.model, found.dtype, found.attention) == (BUILT_IN["tiny"], "float32", "sdpa")
    assert found.fit.num_passes == len(grid)
    assert found.held_out is not None
    assert found.held_out.num_passes == 5
    assert found.ranges["num_tokens"][1] == max(each.shape.num_tokens for each in grid)
    table = pq.read_table(measured.passes)
    assert table.num_rows == len(grid) + 5
    assert min(table.column("device_ns_min").to_pylist()) > 0
    runner = make_runner(profile=measured.path)
    assert runner.open(CONFIG).description.startswith("profile of tiny on ")


def test_held_out_passes_come_from_a_replay_and_fit_the_machine() -> None:
    work = WorkModel(BUILT_IN["llama-3.1-8b"], find_gpu("H200"))
    config = SchedulerConfig(max_num_seqs=256, max_model_len=8192)
    limits = Limits(8192, 256, 8192, 16, config.num_gpu_blocks)
    passes = held_out_passes(work, config, limits, 300)
    assert len(passes) == 300
    assert all(limits.allow(each.rows) for each in passes)
    kinds = [(each.shape.num_chunks > 0, each.shape.num_seqs > 16) for each in passes]
    assert kinds.count((False, True)) > 30
    assert kinds.count((True, True)) > 10
