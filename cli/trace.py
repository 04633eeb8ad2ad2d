"""`schedbench trace ...`: the commands about traces."""

import typer

from schedbench.cli import console
from schedbench.cli.command import of_groups
from schedbench.cli.help import Command, Group
from schedbench.cli.trace_check import check
from schedbench.cli.trace_describe import describe
from schedbench.cli.trace_export import export
from schedbench.cli.trace_import import import_
from schedbench.cli.trace_slice import slice_
from schedbench.cli.trace_synth import synth

trace = typer.Typer(
    cls=Group,
    help="Import, describe, check, cut, export and make traces.",
    rich_markup_mode=None,
)


@trace.callback(invoke_without_command=True)
def _alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        console.page(context.get_help())


trace.command("import", cls=Command)(of_groups(import_))
trace.command(cls=Command)(of_groups(describe))
trace.command(cls=Command)(of_groups(check))
trace.command("slice", cls=Command)(of_groups(slice_))
trace.command(cls=Command)(of_groups(export))
trace.command(cls=Command)(of_groups(synth))
