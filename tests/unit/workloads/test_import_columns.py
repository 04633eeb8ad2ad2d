"""Any file by column names: the carrier makes no difference, and every unit is stated."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedbench.errors import TraceError, UsageError
from schedbench.workloads.importers.mapping import parse_mapping
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.registry import import_trace, load_trace
from schedbench.workloads.trace import Trace

Write = Callable[[str, str | bytes], Path]

MAP = "arrival=ts:ms,prompt=isl,output=osl"
EVERYTHING = (
    f"{MAP},id=name,session=chat,priority=prio,group=model,hash_ids=ids,"
    "observed.e2e=took:s,abort_after=patience:us"
)


def load(path: Path, mapping: str, **options: Any) -> Trace:  # noqa: ANN401 - any option
    return load_trace(path, options=ImportOptions(mapping=parse_mapping(mapping), **options))


@st.composite
def logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of a home-made log; optional values may be missing."""
    chains = [[7, 8], [7, 9], [5]]

    def maybe(values: st.SearchStrategy[Any]) -> Any:  # noqa: ANN401 - any value
        return draw(st.none() | values)

    def row(number: int) -> dict[str, Any]:
        ids = maybe(st.sampled_from(chains))
        return {
            "ts": draw(st.integers(0, 10**6)) / 1000,
            "isl": 16 * len(ids) if ids else draw(st.integers(1, 10**6)),
            "osl": draw(st.integers(1, 10**6)),
            "name": f"r{number}",
            "chat": maybe(st.integers(0, 3)),
            "prio": maybe(st.integers(-3, 3)),
            "model": maybe(st.sampled_from(["a", "b, c", 'd "e"', "ü"])),
            "ids": ids,
            "took": maybe(st.integers(0, 10**6)),
            "patience": maybe(st.integers(0, 10**6)),
        }

    return [row(number) for number in range(draw(st.integers(1, 8)))]


def write_carriers(folder: Path, log: list[dict[str, Any]]) -> list[Path]:
    table = pa.Table.from_pylist(log)
    table = table.set_column(7, "ids", table.column("ids").cast(pa.list_(pa.int64())))
    paths = [folder / name for name in ("log.csv", "log.jsonl", "log.parquet")]
    texts = [None if ids is None else json.dumps(ids) for ids in table.column("ids").to_pylist()]
    flat = table.set_column(7, "ids", pa.array(texts, pa.string()))
    pa.csv.write_csv(flat, paths[0])
    paths[1].write_text("".join(json.dumps(row) + "\n" for row in log))
    pq.write_table(table, paths[2])
    return paths


@given(logs())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_csv_json_lines_and_parquet_of_one_log_give_one_digest(
    tmp_path: Path, log: list[dict[str, Any]]
) -> None:
    traces = [
        load(path, EVERYTHING, hash_block_tokens=16) for path in write_carriers(tmp_path, log)
    ]
    assert [t.table.to_pylist() for t in traces] == [traces[0].table.to_pylist()] * 3
    assert {t.digest for t in traces} == {traces[0].digest}


@given(st.lists(st.integers(0, 10**7), min_size=1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rows_are_sorted_by_time_then_place_in_the_file(tmp_path: Path, times: list[int]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,isl,osl\n" + "".join(f"{t},1,1\n" for t in times))
    trace = load(path, MAP.replace("ms", "us"))
    expected = sorted(range(len(times)), key=lambda row: (times[row], row))
    assert trace.table.column("source_row").to_pylist() == expected
    assert trace.table.column("arrival_ns").to_pylist() == [
        1000 * (times[row] - min(times)) for row in expected
    ]
    late = sum(time < max(times[:row], default=0) for row, time in enumerate(times))
    assert sum(trace.provenance["changed"].values()) == late


def test_after_follows_its_row_through_sorting_and_dropping(write: Write) -> None:
    path = write("log.csv", "ts,isl,osl,dep\n9,1,1,2\n1,1,0,\n2,1,1,1\n3,1,1,2\n")
    trace = load(path, f"{MAP},after=dep", on_zero_output="drop")
    table = trace.table.select(["source_row", "after"]).to_pydict()
    assert table == {"source_row": [2, 3, 0], "after": [None, 0, 0]}
    with pytest.raises(TraceError, match="names row 9, but the file has 1 row"):
        load(write("log.csv", "ts,isl,osl,dep\n9,1,1,9\n"), f"{MAP},after=dep")


def test_dates_in_parquet_need_no_unit_and_text_dates_do(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    stamps = pa.array([1_000_000, 2_500_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": stamps, "isl": [1, 1], "osl": [1, 1]}), path)
    trace = load(path, "arrival=ts,prompt=isl,output=osl")
    assert trace.table.column("arrival_ns").to_pylist() == [0, 1_500_000_000]
    assert trace.epoch_ns == 1_000_000_000
    with pytest.raises(UsageError, match="holds dates, not ms"):
        load(path, MAP)


def test_every_digit_of_a_json_time_counts(write: Write) -> None:
    rows = '{"ts": 1700000000.123456789, "isl": 1, "osl": 1}\n'
    late = '{"ts": 1700000000.123456790, "isl": 1.0, "osl": 1}\n'
    trace = load(write("log.jsonl", rows + late), MAP.replace("ms", "s"))
    assert trace.table.column("arrival_ns").to_pylist() == [0, 1]
    assert (
        Decimal(trace.provenance["clock"]["origin_ns"]) == Decimal("1700000000.123456789") * 10**9
    )


@pytest.mark.parametrize(
    ("mapping", "complaint"),
    [
        ("arrival=ts:ms,prompt=isl", "lacks output_tokens"),
        (f"{MAP},speed=x", "'speed' is no column of a trace"),
        (f"{MAP},prompt_tokens=x", "names prompt_tokens twice"),
        (f"{MAP},priority=x:s", "priority is no time"),
        (f"{MAP},think=x:datetime", "a duration, not a date"),
        (f"{MAP},added=x:datetime", "on one clock"),
        (f"{MAP},hash_ids=isl", "needs --hash-block-tokens"),
        ("arrival", "'arrival' is not COLUMN=NAME"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused(write: Write, mapping: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load(write("log.csv", "ts,isl,osl\n0,1,1\n"), mapping)


def test_a_spread_stays_within_its_tick_and_depends_on_its_seed_alone(write: Write) -> None:
    times = [second for second in range(20) for _ in range(5)]
    path = write("log.csv", "ts,isl,osl\n" + "".join(f"{t},1,1\n" for t in times))
    mapping = MAP.replace("ms", "s")
    first, again, other = (load(path, mapping, spread=True, seed=seed) for seed in (1, 1, 2))
    assert first.digest == again.digest != other.digest
    shift = first.provenance["clock"]["origin_ns"]
    spread = [ns + shift for ns in first.table.column("arrival_ns").to_pylist()]
    assert [ns // 10**9 for ns in spread] == times
    assert spread == sorted(set(spread))


def test_a_rule_broken_by_a_row_that_moved_names_both_its_places(write: Write) -> None:
    path = write("log.csv", "ts,isl,osl,cap,in\n9,1,1,1,9\n2,1,5,4,3\n")
    with pytest.raises(TraceError, match=r"row 0 \(source row 1\), column max_tokens: 4 is below"):
        load(path, f"{MAP},max_tokens=cap,added=in:ms")


def test_options_that_cannot_be_are_refused() -> None:
    for option, wrong in {
        "--on-zero-output": {"on_zero_output": "skip"},
        "--time-unit": {"time_unit": "min"},
        "--limit": {"limit": 0},
        "--hash-block-tokens": {"hash_block_tokens": 0},
        "--spread-seed": {"seed": 3},
    }.items():
        with pytest.raises(UsageError, match=option):
            ImportOptions(**wrong)


def test_options_that_would_do_nothing_are_refused(write: Write) -> None:
    log = write("log.csv", "ts,isl,osl\n0,1,1\n")
    with pytest.raises(UsageError, match="zones are for dates"):
        load(log, MAP, tz="Europe/Berlin")
    own = write("t.jsonl", '{"arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 1}\n')
    with pytest.raises(UsageError, match="--spread is for imports"):
        load_trace(own, options=ImportOptions(spread=True))
    with pytest.raises(UsageError, match="there is no importer 'wildebeest'"):
        load_trace(own, fmt="wildebeest")
    with pytest.raises(UsageError, match="nothing to import"):
        import_trace(own)
