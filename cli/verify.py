"""`schedbench verify`: does this scheduler decide as vLLM's own class did."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedbench.bounds import SEED, SOME
from schedbench.cli import console
from schedbench.cli.configure import settle
from schedbench.cli.flags import Flags
from schedbench.cli.inputs import Input, replay_options, tell_if_sample
from schedbench.cli.options import Load, Speedup, Window
from schedbench.cli.reading import Reading
from schedbench.cli.serving import Serving
from schedbench.cli.values import parse_count
from schedbench.cli.verify_modes import GOLDEN, RANDOM, RECORD, mode_of
from schedbench.errors import TraceError, UsageError
from schedbench.runner.fuzz_flags import FEATURES, read_features

if TYPE_CHECKING:
    from schedbench.runner.golden_log import Row
    from schedbench.runner.verify import Parting, Verified

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[TRACE|FILE...]",
        help="A trace; with --golden or --record, golden logs or folders of them (*.jsonl.gz).",
    ),
]
Golden = Annotated[bool, typer.Option("--golden", help="FILEs are golden logs of the real class.")]
Fuzz = Annotated[
    str | None,
    typer.Option(
        "--fuzz",
        metavar="N",
        help="Compare N random cases with the installed vLLM; --seed is that of the first.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="A,B",
        help=f"Which features random cases may have: {', '.join(FEATURES)}.",
    ),
]
Failing = Annotated[
    Path,
    typer.Option("--failing", metavar="DIR", help="Where shrunk cases that differ are written."),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record", metavar="DIR", help="Run FILEs on the installed vLLM, write its logs to DIR."
    ),
]
SkipUnsupported = Annotated[
    bool,
    typer.Option(
        "--skip-unsupported",
        help="Do not fail because of logs whose features are not there yet; they are listed still.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the outcome of every log as JSON.")]
SHOWN_CHARACTERS = 60
GLOB = "*.jsonl.gz"


def verify(
    context: typer.Context,
    *,
    flags: Flags,
    window: Window,
    load: Load,
    serving: Serving,
    reading: Reading,
    files: Files = None,
    golden: Golden = False,
    record: Record = None,
    fuzz: Fuzz = None,
    features: Features = None,
    failing: Failing = Path("failing"),
    speedup: Speedup = "1",
    skip_unsupported: SkipUnsupported = False,
    json: Json = False,
) -> None:
    """Compare this scheduler with vLLM's own class: on golden logs, on a trace, on random cases.

    schedbench verify --golden tests/golden

    schedbench verify conv.parquet --speedup 3 --num-gpu-blocks 6000

    schedbench verify --fuzz 200 --seed 1000 --features async,speculation

    A trace and random cases need vLLM installed beside schedbench (`make vllm-env`).
    Exit code 0 if all passes are equal; 1 after the first that is not.
    """
    del golden
    mode = mode_of(*_typed(context))
    if mode is RANDOM:
        _verify_random(fuzz or "", load.seed, features, failing, flags.given)
    elif mode is RECORD:
        from schedbench.cli.live import record_logs

        record_logs(_paths(files or []), record or Path())
    elif mode is GOLDEN:
        _verify_golden(_paths(files or []), skip_unsupported=skip_unsupported, json=json)
    else:
        _verify_trace(flags, window, load, serving, reading, files or [], speedup)


def _typed(context: typer.Context) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters that stand on the command line: their values, and how each is called."""
    values, spelled = {}, {}
    for each in context.command.params:
        name = each.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            values[name] = context.params[name]
            is_option = each.param_type_name == "option"
            spelled[name] = each.opts[0] if is_option else str(context.params[name][0])
    return values, spelled


def _verify_random(
    fuzz: str, seed: str, features: str | None, failing: Path, flags: dict[str, Any]
) -> None:
    from schedbench.cli.live import verify_random

    count = parse_count(fuzz, "--fuzz", SOME)
    chosen = list(FEATURES) if features is None else read_features(features)
    _exit_unless(verify_random(parse_count(seed, "--seed", SEED), count, chosen, failing, flags))


def _verify_trace(
    flags: Flags,
    window: Window,
    load: Load,
    serving: Serving,
    reading: Reading,
    files: list[Path],
    speedup: str,
) -> None:
    from schedbench.cli.live import verify_live

    if len(files) > 1:
        raise UsageError("verify takes one TRACE, or golden logs with --golden")
    trace = str(files[0]) if files else None
    settings = settle(flags.given, flags.serve_args, serving.given, is_sample=trace is None)
    tell_if_sample(trace, "verify", settings.standing_in)
    options = replay_options(load, deployment=settings.deployment, speedup=speedup)
    loaded = Input(trace, reading, window).load()
    _exit_unless(verify_live(loaded, settings.config(), options))


def _exit_unless(equal: bool) -> None:
    if not equal:
        raise typer.Exit(1)


def _verify_golden(paths: list[Path], *, skip_unsupported: bool, json: bool) -> None:
    """Run golden logs through this scheduler and compare every column of every pass."""
    from schedbench.cli.progress import LiveLine
    from schedbench.runner.verify import verify as verify_log

    line = LiveLine()
    found: list[Verified] = []
    for number, path in enumerate(paths, 1):
        line.show(f"{number} of {len(paths)}  {path.name}")
        found.append(verify_log(path))
        line.clear()
        if not json:
            _tell(found[-1])
    if json:
        _print_json(found)
    else:
        console.result(last_line(found))
    failing = {"different"} if skip_unsupported else {"different", "unsupported"}
    if any(each.status in failing for each in found):
        raise typer.Exit(1)


def _paths(files: list[Path]) -> list[Path]:
    paths: list[Path] = []
    for file in files:
        inside = sorted(file.glob(GLOB)) if file.is_dir() else [file]
        if not inside:
            raise TraceError(f"{file} holds no golden log ({GLOB}). Name a folder that does")
        paths += inside
    if missing := [path for path in paths if not path.is_file()]:
        raise TraceError(f"{missing[0]}: there is no such file. Check the path")
    return paths


def last_line(found: list["Verified"]) -> str:
    """`equal: N logs, M passes`, or how many are not; then whose decisions the logs hold."""
    different = sum(each.status == "different" for each in found)
    compared = [each for each in found if each.status != "unsupported"]
    equal = [each for each in found if each.status == "equal"]
    passes = sum(each.passes for each in equal)
    outcome = (
        f"different: {different} of {len(found)} logs"
        if different
        else f"equal: {len(equal)} logs, {passes} passes"
    )
    releases = sorted({each.release for each in compared})
    whose = f" of vLLM {' and '.join(releases)}" if releases else ""
    return f"{outcome}; golden logs{whose}, whose class itself was not run"


def _tell(found: "Verified") -> None:
    if found.status == "unsupported":
        console.result(f"not supported: {found.path.name} needs {', '.join(found.missing)}")
    if found.parting is not None:
        console.result("\n".join(parting_lines(found.path.name, found.parting)))


def parting_lines(name: str, parting: "Parting") -> list[str]:
    """The first difference: which columns, both rows, and the pass before."""
    lines = [f"{name}: first difference in pass {parting.index}: {', '.join(parting.columns)}"]
    for column in parting.columns:
        golden, ours = (_value(row, column) for row in (parting.golden or {}, parting.ours or {}))
        if golden or ours:
            lines.append(f"  {column}: golden {golden or 'nothing'}, ours {ours or 'nothing'}")
    lines.append(f"  before  {_row(parting.before)}")
    lines.append(f"  golden  {_row(parting.golden)}")
    lines.append(f"  ours    {_row(parting.ours)}")
    return lines


def _value(row: "Row", column: str) -> str:
    import orjson

    text = orjson.dumps(row[column]).decode() if column in row else ""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def _row(row: "Row | None") -> str:
    import orjson

    return "(there is none)" if row is None else orjson.dumps(row).decode()


def _print_json(found: list["Verified"]) -> None:
    from dataclasses import asdict

    import orjson

    data: list[dict[str, Any]] = [{**asdict(each), "path": str(each.path)} for each in found]
    console.result(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())
