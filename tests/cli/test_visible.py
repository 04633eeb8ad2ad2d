"""Nothing from outside commands a terminal or a page, whatever command it came through."""

import ast
import os
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from cli_runs import Cli, Ran

import schedbench
from schedbench.cli.main import app

CONTROLS = "\x1b[31m\x1b]0;t\x07\x9b1m\r\b\x7f\u202a\u202e\u2066\u2069\u200b\u2060\ufeff\u2028"
MARKUP = "[red]x[/][link=http://e]y[/link]<script>alert(1)</script>|`*"
HOSTILE = f"h{CONTROLS}{MARKUP}"
NO_UTF_8 = "\udcff\udcfe"
NO_ROOM = {"/", "\0"}  # what no name of a file holds
NAME = "".join(each for each in HOSTILE if each not in NO_ROOM)
TIMES = ("--cost", "pass:1ms")


def commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    found = getattr(command, "commands", None)
    if found is None:
        yield path, command
        return
    for name, each in found.items():
        yield from commands(each, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
OPTIONS = {
    (each.opts[0], each.help): (words, each.opts[0])
    for words, command in COMMANDS.items()
    for each in command.params
    if each.param_type_name == "option" and not each.is_flag and "--help" not in each.opts
}
"""One that several commands share is the same object of a group, and is tried in one of them."""


def obeyed(text: str) -> set[str]:
    """The characters that a terminal or a page would act on."""
    bad = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {each for each in text if unicodedata.category(each) in bad} - {"\n", "\t"}


def is_harmless(ran: Ran) -> bool:
    assert ran.code != 70, ran.err
    assert not obeyed(ran.out + ran.err), ascii(ran.out + ran.err)
    return True


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Traces, recorded files, runs and sweeps whose every text is hostile."""
    rows = 'arrival_ns":{},"prompt_tokens":5,"output_tokens":3,"request_id":{}'
    trace = tmp_path / f"{NAME}.jsonl"
    lines = [
        '{"' + rows.format(at, orjson.dumps(f"{HOSTILE}{at}").decode()) + "}\n" for at in range(3)
    ]
    trace.write_text("".join(lines), encoding="utf-8")
    header = tmp_path / f"{NAME}.csv"
    header.write_text(f'"{HOSTILE}",b\n{HOSTILE},2\n', encoding="utf-8")
    table = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({HOSTILE: [1], "t": [HOSTILE]}).replace_schema_metadata({HOSTILE: HOSTILE}), table
    )
    binary = tmp_path / "b.jsonl.gz"
    binary.write_bytes(CONTROLS.encode() * 20)
    return {"trace": trace, "header": header, "table": table, "binary": binary}


def hostile(data: object) -> object:
    """Every text replaced, but what a reader must find to go on."""
    match data:
        case dict():
            kept = ("schema_version", "cache_salt", "digest", "decisions")
            return {
                name: value if name in kept or name.endswith("_class") else hostile(value)
                for name, value in data.items()
            }
        case list():
            return [hostile(each) for each in data]
        case str():
            return HOSTILE
        case _:
            return data


def make_hostile(path: Path) -> None:
    path.write_bytes(orjson.dumps(hostile(orjson.loads(path.read_bytes()))))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_of_every_command_shows_a_hostile_value_as_escapes(
    cli: Cli, files: dict[str, Path], words: tuple[str, ...]
) -> None:
    for command, option in OPTIONS.values():
        if command == words:
            assert is_harmless(cli(*words, files["header"], option, HOSTILE)), option
    assert is_harmless(cli(*words, f"--{HOSTILE}"))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_shows_hostile_files_and_names_as_escapes(
    cli: Cli, files: dict[str, Path], words: tuple[str, ...]
) -> None:
    for path in (*files.values(), Path(NAME), Path(NAME + NO_UTF_8)):
        assert is_harmless(cli(*words, path))


def test_a_sweep_of_hostile_requests_is_shown_as_escapes(cli: Cli, files: dict[str, Path]) -> None:
    words = ("--max-num-seqs", "1,2", "-j", "1", "--out", NAME)
    ran = cli("sweep", files["trace"], *TIMES, *words)
    assert is_harmless(ran)
    assert ran.code == 0, ran.err


EXPLAINED = {
    "table": ("--request", f"{HOSTILE}1"),
    "json": ("--pass", "0"),
    "csv": ("--pass", "0"),
    "md": ("--waiting",),
}
"""A part in each form: about a request and about waiting much is replayed."""


@pytest.mark.parametrize("form", EXPLAINED)
def test_results_about_hostile_requests_are_shown_in_every_form(
    cli: Cli, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr("schedbench.runner.workers.cores", lambda: 1)  # none to start
    trace, out = files["trace"], Path(NAME)
    assert cli("replay", trace, *TIMES, "--out", out, "--format", form).code == 0
    shown = [
        cli("replay", trace, *TIMES, "--no-store", "--format", form),
        cli("explain", out, *EXPLAINED[form], "--format", form),
        cli("compare", out, out, "--format", form),
        cli("trace", "describe", trace, "--format", form),
        cli("trace", "check", trace, "--format", form),
    ]
    assert all(map(is_harmless, shown))
    assert [ran.code for ran in shown] == [0] * len(shown), [ran.err for ran in shown]
    if form == "json":
        assert orjson.loads(shown[0].out)


def test_pages_timelines_and_xml_of_hostile_runs_hold_no_command(
    cli: Cli, files: dict[str, Path], tmp_path: Path
) -> None:
    pytest.importorskip("jinja2")
    trace, run, base = files["trace"], tmp_path / NAME, tmp_path / "base.json"
    assert cli("replay", trace, *TIMES, "--out", run).code == 0
    assert cli("gate", trace, *TIMES, "--baseline", base, "--update").code == 0
    make_hostile(run / "manifest.json")
    make_hostile(base)
    page, timeline, junit, markdown = (tmp_path / name for name in ("p", "t", "j", "m"))
    runs = [
        cli("report", run, "-o", page, "--perfetto", timeline),
        cli("explain", run),
        cli("compare", run, run),
        cli("gate", trace, "--baseline", base, "--junit", junit, "--markdown", markdown),
    ]
    assert all(map(is_harmless, runs))
    for path in (page, timeline, junit, markdown):
        if path.exists():
            assert not obeyed(path.read_text()), path.name
    assert runs[0].code == 0, runs[0].err
    assert "<script>alert" not in page.read_text()
    assert "\\u001b" not in page.read_text().replace("\\\\u001b", "")
    names = [
        each["args"].get("name", "") for each in orjson.loads(timeline.read_bytes())["traceEvents"]
    ]
    assert not obeyed("".join(names))
    ET.fromstring(junit.read_text())  # noqa: S314 - written here


ENCODINGS = """
import io, json, sys
from schedbench.cli import console
from schedbench.cli.main import run

REPLAY = ["replay", "t.jsonl", "--no-store"]
real = sys.stdout, sys.stderr
for encoding in ("ascii", "latin-1", "utf-8", None):  # None: that of the locale
    for words in (["config"], REPLAY, [*REPLAY, "--json"]):
        shown = io.BytesIO()
        if encoding is not None:
            sys.stdout = io.TextIOWrapper(shown, encoding=encoding)
            sys.stderr = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        console.write_any_text()
        assert run(words, debug=False) == 0, (encoding, words)
        if encoding is not None and "--json" in words:
            json.loads(shown.getvalue().decode(encoding))
        sys.stdout, sys.stderr = real
"""


def test_no_encoding_of_a_terminal_ends_a_command(tmp_path: Path) -> None:
    """Also that of the locale C, where Python is told not to prefer UTF-8."""
    row = b'{"arrival_ns":0,"prompt_tokens":5,"output_tokens":3,"id":"\xc3\xa9\xe6\xbc\xa2"}\n'
    (tmp_path / "t.jsonl").write_bytes(row)
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", ENCODINGS],
        cwd=tmp_path,
        env={**os.environ, **settings, "PYTHONIOENCODING": ""},
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_text_leaves_through_a_few_files_only() -> None:
    root = Path(schedbench.__file__).parent
    ways = {"stdout.write", "stderr.write", "console.print", "print", "typer.echo"}
    found = {
        path.relative_to(root).as_posix()
        for folder in ("cli", "runner", "results", "workloads", "sched")
        for path in sorted((root / folder).rglob("*.py"))
        if any(f"{way}(" in path.read_text() for way in ways)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and any(ast.unparse(node.func).removeprefix("sys.") == way for way in ways)
    }
    of_developers = {"runner/record_golden.py", "workloads/samples/make_sample.py"}
    assert found - of_developers == {
        "cli/console.py",
        "cli/progress.py",
        "results/tables.py",
    }
