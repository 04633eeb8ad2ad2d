"""What a page holds of the passes: all of them, or the peaks, the gaps and the marks."""

import pyarrow.compute as pc
from packed_columns import unpacked

from schedbench.results.report.pass_points import LABELS, NOT_SHOWN, SUMMED, pass_points
from schedbench.results.stored_run import StoredRun


def test_all_passes_are_held_with_their_whole_rows_where_there_is_room(crowded: StoredRun) -> None:
    passes = crowded.passes()
    found = pass_points(passes, most=10**6)
    columns = unpacked(found.points)
    for name in set(passes.column_names) - {*NOT_SHOWN}:
        if name in LABELS:
            held = [found.labels[name][code] for code in columns[name]]
            assert held == passes[name].to_pylist()
        else:
            assert columns[name] == passes[name].to_pylist()
    assert found.victims == [rows for rows in passes["victims"].to_pylist() if rows]


def test_marks_are_held_also_where_most_passes_are_not(crowded: StoredRun) -> None:
    passes = crowded.passes()
    found = pass_points(passes, most=3_000)
    assert found.points["rows"] < passes.num_rows
    assert found.marks_held == found.marks > 0
    assert sum(unpacked(found.points)["preempted"]) == pc.sum(passes["preempted"]).as_py()


def test_of_too_many_marks_the_heaviest_of_every_stretch_are_held(crowded: StoredRun) -> None:
    passes = crowded.passes()
    found = pass_points(passes, most=60)
    assert 0 < found.marks_held < found.marks
    assert (
        max(unpacked(found.points)["admissions_cancelled"])
        == pc.max(passes["admissions_cancelled"]).as_py()
    )


def test_slices_add_up_to_the_counters_of_the_summary(crowded: StoredRun) -> None:
    slices = unpacked(pass_points(crowded.passes(), most=60).slices)
    assert {name: sum(slices[name]) for name in SUMMED} == {
        name: crowded.summary[name] for name in SUMMED
    }
    limits = {
        name.removeprefix("limit:"): sum(values)
        for name, values in slices.items()
        if name.startswith("limit:") and sum(values)
    }
    assert limits == {
        label: part["passes"] for label, part in crowded.summary["binding_limit"].items()
    }
