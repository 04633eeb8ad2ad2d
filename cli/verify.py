"""`schedbench verify`: does this scheduler decide as vLLM's own class did."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedbench.cli import console
from schedbench.cli.configure import settle
from schedbench.cli.flags import Flags
from schedbench.cli.inputs import Input, replay_options, tell_if_sample
from schedbench.cli.options import Load, Speedup, Window
from schedbench.cli.reading import Reading
from schedbench.cli.serving import Serving
from schedbench.errors import TraceError, UsageError

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
    int | None,
    typer.Option("--fuzz", metavar="N", help="Compare N random cases with the installed vLLM."),
]
Seed = Annotated[int, typer.Option("--fuzz-seed", metavar="N", help="Of the first random case.")]
Features = Annotated[
    str | None,
    typer.Option("--features", metavar="A,B", help="Which features random cases may have."),
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
    fuzz_seed: Seed = 0,
    features: Features = None,
    failing: Failing = Path("failing"),
    speedup: Speedup = "1",
    skip_unsupported: SkipUnsupported = False,
    json: Json = False,
) -> None:
    """Compare this scheduler with vLLM's own class: on golden logs, on a trace, on random cases.

    schedbench verify --golden tests/golden

    schedbench verify conv.parquet --speedup 3 --num-gpu-blocks 6000

    A trace and random cases need vLLM installed beside schedbench (`make vllm-env`).
    Exit code 0 if all passes are equal; 1 after the first that is not.
    """
    if fuzz is not None:
        from schedbench.cli.live import verify_random
        from schedbench.runner.fuzz_flags import FEATURES

        chosen = features.split(",") if features else list(FEATURES)
        _exit_unless(verify_random(fuzz_seed, fuzz, chosen, failing, flags.given))
        return
    if record is not None:
        from schedbench.cli.live import record_logs

        record_logs(_paths(files or []), record)
        return
    if golden:
        _verify_golden(list(_paths(files or [])), skip_unsupported=skip_unsupported, json=json)
        return
    if files is not None and len(files) > 1:
        raise UsageError("verify takes one TRACE, or golden logs with --golden")
    from schedbench.cli.live import verify_live

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
    """`equal: N logs, M passes`, or how many are not."""
    equal = [each for each in found if each.status == "equal"]
    passes = sum(each.passes for each in equal)
    different = sum(each.status == "different" for each in found)
    if different:
        return f"different: {different} of {len(found)} logs"
    return f"equal: {len(equal)} logs, {passes} passes"


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
