"""A run folder has one writer, says what it is, and is complete or refused."""

from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from schedbench.errors import OutputError, RunStoreError
from schedbench.results.pass_log import SCHEMA_VERSION
from schedbench.results.run_store import RunFolder
from schedbench.results.stored_run import StoredRun, newest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.chdir(tmp_path)
    return a_run()


def a_run(out: Path | None = None) -> RunFolder:
    return RunFolder.create(
        out, trace_name="azure conv/é", flags_digest="0123456789", wait_labels=("seats_full",)
    )


def test_a_complete_run_reads_back_as_written(folder: RunFolder) -> None:
    folder.write_manifest({"seed": 7})
    folder.itl.append((5, 2))
    folder.write_summary({"passes": 0})
    folder.complete()
    run = StoredRun.open(folder.path)
    began = run.manifest.pop("began")
    assert datetime.fromisoformat(began) <= datetime.now(UTC)
    assert run.manifest == {"schema_version": SCHEMA_VERSION, "complete": True, "seed": 7}
    assert run.summary == {"passes": 0}
    assert run.itl().to_pylist() == [{"interval_ns": 5, "count": 2}]
    assert run.passes(["pass", "victims"]).column_names == ["pass", "victims"]
    assert run.requests().column_names[-1] == "wait_seats_full_ns"


def test_the_default_folder_names_time_trace_and_flags_and_is_never_shared(
    folder: RunFolder,
) -> None:
    others = {a_run().path for _ in range(5)}
    assert len(others | {folder.path}) == 6
    assert folder.path.parent == Path("runs")
    assert folder.path.match("*T*Z-azure_conv_-01234567")


def test_a_folder_that_holds_anything_is_refused(tmp_path: Path) -> None:
    a_run(tmp_path / "mine")
    with pytest.raises(OutputError, match=r"mine holds files already.*--out"):
        a_run(tmp_path / "mine")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file is a file.*--out"):
        a_run(tmp_path / "file")


def test_an_incomplete_run_is_refused_unless_asked_for(folder: RunFolder) -> None:
    folder.write_manifest({})
    with pytest.raises(RunStoreError, match=r"incomplete.*kept in"):
        StoredRun.open(folder.path)
    run = StoredRun.open(folder.path, allow_incomplete=True)
    assert not run.is_complete
    assert run.passes().num_rows == 0


def test_a_stalled_run_is_not_asked_for_again_but_said_to_stall(folder: RunFolder) -> None:
    folder.write_manifest({"stalled": "stalled: give more --num-gpu-blocks"})
    with pytest.raises(RunStoreError, match=r"stalled, and would again.*give more") as refused:
        StoredRun.open(folder.path)
    assert "Run it again" not in str(refused.value)


def test_what_is_no_run_or_of_another_version_is_refused(folder: RunFolder) -> None:
    with pytest.raises(RunStoreError, match="is not a run"):
        StoredRun.open(folder.path)
    (folder.path / "manifest.json").write_bytes(orjson.dumps({"schema_version": 99}))
    with pytest.raises(RunStoreError, match="schema version 99"):
        StoredRun.open(folder.path)
    (folder.path / "manifest.json").write_text("{")
    with pytest.raises(RunStoreError, match="cannot be read"):
        StoredRun.open(folder.path)


def test_the_newest_complete_run_is_found(folder: RunFolder) -> None:
    with pytest.raises(RunStoreError, match="schedbench replay"):
        newest()
    first, second, third = folder, a_run(), a_run()
    for run in (first, second, third):
        run.write_manifest({})
    first.complete()
    second.complete()
    assert newest().path == second.path


@pytest.mark.parametrize("name", ["0", "base", "~", "99990101T000000Z-x-0"])
def test_the_newest_run_is_the_one_that_began_last_whatever_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def replayed(out: Path | None) -> RunFolder:
        run = RunFolder.create(out, trace_name="t", flags_digest="f")
        run.write_manifest({})
        run.complete()
        return run

    replayed(Path("runs") / name)
    later = replayed(None)
    assert newest().path == later.path
    again = replayed(Path("runs") / f"{name}2")
    later.write_manifest({})  # what is written again began when it did
    assert newest().path == again.path


def test_a_full_disk_is_an_error_that_names_the_file_and_the_remedy() -> None:
    run = RunFolder(Path("/dev/null"))
    with pytest.raises(OutputError, match=r"/dev/null/summary.json.*--out"):
        run.write_summary({})
