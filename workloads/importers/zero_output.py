"""Requests that generated nothing: failures in the source, never generations."""

import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.arrays import required
from schedbench.workloads.importers.columns_of import replaced
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.place import Place

_ZEROS = "requests without output tokens, which failed"


def without_zero_outputs(
    table: pa.Table, options: ImportOptions, place: Place, report: Report
) -> pa.Table:
    """Refused, dropped or given one token, as `on_zero_output` says; always counted."""
    zero = required(table, "output_tokens") == 0
    rows = int(zero.sum())
    if options.on_zero_output == "error":
        place.refuse_where(
            zero,
            "output_tokens",
            lambda _row: "0 output tokens, a failed request",
            "Choose --on-zero-output drop, or one to give each a single token",
        )
    if not rows:
        return table
    if options.on_zero_output == "one":
        report.change(rows, f"{_ZEROS}, given one token")
        one = pa.scalar(1, pa.int32())
        counts = pc.if_else(pa.array(zero), one, table.column("output_tokens"))
        return replaced(table, "output_tokens", counts)
    if rows == table.num_rows:
        raise place.refuse_input("has no row with output tokens", "Check the columns")
    report.drop(rows, f"{_ZEROS}, dropped")
    return table.filter(pa.array(~zero))
