"""The program: its commands, and the one place that turns an exception into an exit code.

0 fine   1 a gate or a verification failed   2 bad usage or bad input   3 the replay stalled
4 could not write   5 vLLM's own engine ends there   70 a fault of this program
130 interrupted   143 terminated
"""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from typing import Annotated

import typer

from schedbench.cli import console, usage
from schedbench.cli.check_gpu import check_gpu
from schedbench.cli.command import of_groups
from schedbench.cli.compare import compare
from schedbench.cli.config import config
from schedbench.cli.doctor import doctor
from schedbench.cli.explain import explain
from schedbench.cli.flag_lists import SweepCommand
from schedbench.cli.gate import gate
from schedbench.cli.help import Command, Group
from schedbench.cli.profile import profile
from schedbench.cli.replay import replay
from schedbench.cli.report import report
from schedbench.cli.sweep import sweep
from schedbench.cli.trace import trace
from schedbench.cli.tune import tune
from schedbench.cli.upgrade import upgrade
from schedbench.cli.verify import verify
from schedbench.errors import InvariantError, SchedbenchError

DEBUG, QUIET = "--debug", "--quiet"
USAGE, FAULT, INTERRUPTED, TERMINATED = 2, 70, 130, 143  # 70 is EX_SOFTWARE of sysexits.h
ABOUT = "Replay traces of LLM requests through vLLM's V1 scheduler, pass by pass and exactly."

app = typer.Typer(
    name="schedbench",
    cls=Group,
    help=ABOUT,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda word: word.replace("_", "-"),  # as vLLM's own parser does
    },
)
app.command(cls=Command)(of_groups(replay))
app.command(cls=SweepCommand)(of_groups(sweep))
app.command(cls=SweepCommand)(of_groups(tune))
app.command(cls=Command)(of_groups(upgrade))
app.command(cls=Command)(of_groups(compare))
app.command(cls=Command)(of_groups(report))
app.command(cls=Command)(of_groups(explain))
app.command(cls=Command)(of_groups(gate))
app.command(cls=Command)(of_groups(config))
app.add_typer(trace, name="trace")
app.command(cls=Command)(of_groups(verify))
app.command(cls=Command)(of_groups(profile))
app.command(cls=Command)(of_groups(check_gpu))
app.command(cls=Command)(of_groups(doctor))

_tree = cache(typer.main.get_command)
"""Made once: Typer reads every signature for it, which takes longer than most commands."""


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool,
        typer.Option(DEBUG, help="Show the traceback of an unexpected error, after any command."),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(QUIET, help="Show no progress, after any command."),
    ] = False,
) -> None:
    del debug, quiet  # taken out by `main`, wherever they stand
    if version:
        from importlib.metadata import version as version_of

        console.result(f"schedbench {version_of('schedbench')}")
    elif context.invoked_subcommand is None:
        console.page(context.get_help())


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command line and leave with its exit code."""
    if "_SCHEDBENCH_COMPLETE" in os.environ:
        app(prog_name="schedbench")  # a shell asks how a word may go on
    console.write_any_text()
    given = list(sys.argv[1:] if argv is None else argv)
    debug = DEBUG in given or bool(os.environ.get("SCHEDBENCH_DEBUG"))
    signal.signal(signal.SIGTERM, _terminate)
    code = run(given, debug=debug)
    sys.exit(code)


def run(words: list[str], *, debug: bool = False) -> int:
    """Run a command line and return its exit code."""
    console.be_quiet(QUIET in words)
    words = [word for word in words if word not in (DEBUG, QUIET)]
    try:
        usage.refuse_no_text(words)
        _invoke(words)
        sys.stdout.flush()
    except typer.Exit as done:
        return done.exit_code
    except SchedbenchError as error:
        if debug:
            console.plain("".join(traceback.format_exception(error)).rstrip())
        for note in getattr(error, "__notes__", ()):
            console.warning(note)
        console.error(usage.as_typed(str(error), words))
        return FAULT if isinstance(error, InvariantError) else error.exit_code
    except usage.UsageFault as error:
        console.error(usage.as_typed(usage.explain(error, words), words))
        return USAGE
    except _TerminatedError as error:
        return _stopped(error, "terminated", TERMINATED)
    except (KeyboardInterrupt, typer.Abort) as error:
        return _stopped(error, "interrupted", INTERRUPTED)
    except BrokenPipeError:
        _close_stdout()
    except Exception as error:  # noqa: BLE001 - the last line of defence
        _report(error, debug=debug)
        return FAULT
    return 0


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: what it wrote is kept."""


def _terminate(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends it at once
    raise _TerminatedError


def _stopped(error: BaseException, how: str, code: int) -> int:
    for kept in getattr(error, "__notes__", ()):
        console.plain(kept)
    console.error(how)
    return code


def _invoke(words: list[str]) -> None:
    """Not through `app()`, which would print errors and choose exit codes itself."""
    with _tree(app).make_context("schedbench", words) as context:
        context.command.invoke(context)


def _report(error: Exception, *, debug: bool) -> None:
    """An exception that nobody foresaw."""
    if debug:
        console.plain("".join(traceback.format_exception(error)).rstrip())
    how = "report what it printed" if debug else f"run it again with {DEBUG} and report that"
    console.error(f"{type(error).__name__}: {error}. This is a fault of schedbench: {how}")


def _close_stdout() -> None:
    """Whoever read the results is gone; keep the interpreter from complaining when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
