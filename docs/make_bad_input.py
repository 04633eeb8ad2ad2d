"""Writes bad-input.md: makes every bad file there is, loads it, and notes what the loader says.

Run it from anywhere: `python docs/make_bad_input.py`. A test holds page and loader together.
"""

import gzip
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from schedbench.cli.main import run
from schedbench.errors import SchedbenchError
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.registry import load_trace

PAGE = Path(__file__).with_name("bad-input.md")


@dataclass(frozen=True)
class Case:
    """One bad file. `says`: pieces of what must be said of it; `flags`: as one types them."""

    title: str
    name: str
    content: str | bytes
    says: tuple[str, ...]
    options: ImportOptions = field(default_factory=ImportOptions)
    flags: str = ""
    is_refused: bool = True


@dataclass(frozen=True)
class Run:
    """A command on a trace that is sound and yet not right for it, as `schedbench WORDS`.

    Shown are its errors and warnings, and the lines of its output that hold a piece of `says`.
    """

    title: str
    words: str
    code: int
    says: tuple[str, ...]
    files: dict[str, str] = field(default_factory=lambda: {"log.csv": LOG})


def parquet(metadata: dict[str, str] | None = None, **columns: list[object]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), sink)
    return sink.getvalue()


def one_request(**changes: object) -> bytes:
    columns = {"arrival_ns": 0, "prompt_tokens": 10, "output_tokens": 5, **changes}
    return parquet(**{name: [value] for name, value in columns.items()})


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
MOONCAKE = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
OWN = '{"arrival_ns": 0, "prompt_tokens": 10, "output_tokens": 5}\n'
MAP = {"arrival": "t:s", "prompt": "in", "output": "out"}
MAP_TYPED = "--map arrival=t:s,prompt=in,output=out"
BY_NAME = ImportOptions(mapping=MAP)
WITH_ID = ImportOptions(mapping={**MAP, "id": "id"})
WITH_ID_TYPED = f"{MAP_TYPED},id=id"
FAILED = BURST + "1,GPT-4,10,20,30,API log\n2,GPT-4,10,0,10,API log\n"

LOG = "t,in,out\n0,100,20\n1,900,20\n2,5000,20\n"
LOGICAL = f"{MAP_TYPED} --cost pass:1ms --no-store"
SAME = '{"t": 0, "in": 100, "out": 20}\n{"t": 1, "in": 900, "out": 20}\n'

SECTIONS: dict[str, tuple[Case, ...]] = {
    "Lines that are no rows": (
        Case(
            "B1: a line that is not JSON",
            "mooncake.jsonl",
            MOONCAKE + '{"timestamp": 1, "input_length": 9, "output_length":2748 610}\n',
            ("row 1 (line 2)", "not JSON", "2748 610"),
        ),
        Case(
            "B1: two objects on one line",
            "mooncake.jsonl",
            MOONCAKE + MOONCAKE.strip() + MOONCAKE,
            ("row 1 (line 2)", "Extra data"),
        ),
        Case(
            "B1: one field twice",
            "mooncake.jsonl",
            MOONCAKE + MOONCAKE.replace("{", '{"timestamp": 7, '),
            ("row 1 (line 2)", "names 'timestamp' twice"),
        ),
        Case(
            "B1: a null for a row",
            "mooncake.jsonl",
            MOONCAKE + "null\n",
            ("row 1 (line 2)", "not an object: None"),
        ),
        Case(
            "B1: text that is not UTF-8",
            "burstgpt.csv",
            FAILED.replace("GPT-4", "GPT-é", 1).encode("latin-1"),
            ("row 0 (line 2) is not UTF-8 text",),
        ),
        Case(
            "B1: a CSV row of the wrong width",
            "azure.csv",
            AZURE + "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:47.0000000,374\r\n",
            ("row 1 (line 3)", "2 values where the header has 3", "18:15:47.0000000,374"),
        ),
        Case(
            "A JSON array instead of lines",
            "trace.json",
            "[" + OWN.strip() + "]",
            ("one JSON array", "jq -c"),
        ),
    ),
    "Requests that cannot be": (
        Case(
            "B2: no output tokens, a failed request",
            "burstgpt.csv",
            FAILED,
            ("row 1 (line 3)", "Response tokens", "--on-zero-output drop"),
        ),
        Case(
            "B2: the same, dropped on request",
            "burstgpt.csv",
            FAILED,
            ("failed, dropped: 1", "1 request;"),
            ImportOptions(on_zero_output="drop"),
            "--on-zero-output drop",
            is_refused=False,
        ),
        Case(
            "B2: the same, each given one token",
            "burstgpt.csv",
            FAILED,
            ("given one token: 1", "2 requests"),
            ImportOptions(on_zero_output="one"),
            "--on-zero-output one",
            is_refused=False,
        ),
        Case(
            "B3: no prompt tokens",
            "azure.csv",
            AZURE + "2023-11-16 18:15:46.6805900,0,44\r\n",
            ("row 0 (line 2)", "ContextTokens", "at least one"),
        ),
        Case(
            "B4: a negative count",
            "azure.csv",
            AZURE + "2023-11-16 18:15:46.6805900,9,-1\r\n",
            ("row 0 (line 2)", "GeneratedTokens", "-1", "never negative"),
        ),
        Case(
            "B4: a negative time",
            "log.csv",
            "t,in,out\n-0.5,1,1\n",
            ("row 0 (line 2)", "'-0.5' is negative"),
            BY_NAME,
            MAP_TYPED,
        ),
        Case(
            "B4: a negative time in a trace of our own",
            "trace.jsonl",
            OWN.replace("0", "-5", 1),
            ("row 0", "arrival_ns", "-5"),
        ),
    ),
    "Times": (
        Case(
            "B5: no time",
            "mooncake.jsonl",
            MOONCAKE + '{"input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n',
            ("row 1 (line 2)", "timestamp: is missing"),
        ),
        Case(
            "B5: a time that is not a number",
            "log.csv",
            "t,in,out\n0,1,1\nnan,1,1\n",
            ("row 1 (line 3)", "'nan' is not a finite number of s"),
            BY_NAME,
            MAP_TYPED,
        ),
        Case(
            "B5: an infinite time",
            "log.parquet",
            parquet(t=[0.0, float("inf")], **{"in": [1, 1]}, out=[1, 1]),
            ("row 1", "inf is not a finite number of s"),
            BY_NAME,
            MAP_TYPED,
        ),
        Case(
            "B6: one row in Unix time, the others since the start",
            "log.csv",
            "t,in,out\n0,1,1\n1,1,1\n1700000000,1,1\n",
            ("row 2 (line 4)", "one clock", "over a year"),
            BY_NAME,
            MAP_TYPED,
        ),
        Case(
            "B6: dates with a zone, and then without",
            "azure.csv",
            AZURE + "2024-05-12 00:00:00+00:00,9,9\r\n2024-05-12 00:00:01.5,9,9\r\n",
            ("row 1 (line 3)", "states no zone, rows before it one"),
        ),
        Case(
            "B7: a time column without a unit",
            "log.csv",
            "t,in,out\n0,1,1\n",
            ("state the unit of 't'", "t:s, :ms"),
            ImportOptions(mapping={**MAP, "arrival": "t"}),
            "--map arrival=t,prompt=in,output=out",
        ),
        Case(
            "B7: Unix seconds read as milliseconds are doubted",
            "log.csv",
            "t,in,out\n1700000000,1,1\n1700000010,1,1\n1700000020,1,1\n",
            ("over 0.02 s; times read as milliseconds", "they are likely s"),
            ImportOptions(mapping={**MAP, "arrival": "t:ms"}),
            "--map arrival=t:ms,prompt=in,output=out",
            is_refused=False,
        ),
        Case(
            "B8: dates of seven decimals, no zone, CRLF and no final newline are read exactly",
            "azure.csv",
            AZURE + "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951691,3,1",
            ("without a zone, in UTC (assumed; see --tz)",),
            is_refused=False,
        ),
        Case(
            "B8: a moment that a zone does not have",
            "azure.csv",
            AZURE + "2024-03-31 02:30:00.0,374,44\r\n",
            ("row 0 (line 2)", "no single moment in Europe/Berlin"),
            ImportOptions(tz="Europe/Berlin"),
            "--tz Europe/Berlin",
        ),
        Case(
            "B9: a zone for times that are plain numbers",
            "burstgpt.csv",
            FAILED,
            ("--tz has no effect on the format burstgpt",),
            ImportOptions(tz="Europe/Berlin"),
            "--tz Europe/Berlin",
        ),
        Case(
            "B10: rows out of order",
            "log.csv",
            "t,in,out\n5,1,1\n3,1,1\n4,1,1\n",
            ("rows out of order, sorted with ties in the file's order: 2",),
            BY_NAME,
            MAP_TYPED,
            is_refused=False,
        ),
        Case(
            "B10: the same, refused on request",
            "log.csv",
            "t,in,out\n5,1,1\n3,1,1\n4,1,1\n",
            ("row 1 (line 3)", "comes after"),
            ImportOptions(mapping=MAP, strict_order=True),
            f"{MAP_TYPED} --strict-order",
        ),
        Case(
            "B10: a trace of our own out of order",
            "trace.jsonl",
            OWN + OWN.replace("0", "7", 1) + OWN.replace("0", "6", 1),
            ("row 2", "6 comes after 7", "Sort the rows"),
        ),
        Case(
            "B11: many requests at one instant keep the file's order, and are reported",
            "mooncake.jsonl",
            "".join(MOONCAKE.replace("0", str(3000 * (row // 4)), 1) for row in range(12)),
            ("3 instants, 3 s apart, up to 4 at once", "--spread"),
            is_refused=False,
        ),
    ),
    "Labels": (
        Case(
            "B12: one id twice",
            "log.csv",
            "t,in,out,id\n0,1,1,a\n1,1,1,b\n2,1,1,a\n",
            ("row 2", "'a' is also the id of row 0", "--dedupe-ids suffix"),
            WITH_ID,
            WITH_ID_TYPED,
        ),
        Case(
            "B12: the same, told apart on request",
            "log.csv",
            "t,in,out,id\n0,1,1,a\n1,1,1,b\n2,1,1,a\n",
            ("told apart by a suffix: 1",),
            ImportOptions(mapping={**MAP, "id": "id"}, dedupe_ids="suffix"),
            f"{WITH_ID_TYPED} --dedupe-ids suffix",
            is_refused=False,
        ),
        Case(
            "B13: ids of two types",
            "log.jsonl",
            '{"t": 0, "in": 1, "out": 1, "id": 7}\n{"t": 0, "in": 1, "out": 1, "id": "7"}\n',
            ("row 1 (line 2)", "'7' is a text, rows before hold a number"),
            WITH_ID,
            WITH_ID_TYPED,
        ),
    ),
    "Prefix ids": (
        Case(
            "B17: fewer ids than the prompt has blocks",
            "mooncake.jsonl",
            MOONCAKE
            + '{"timestamp": 9, "input_length": 600, "output_length": 5, "hash_ids": []}\n',
            ("row 1", "0 ids for a prompt of 600 tokens", "has 1 or 2"),
        ),
        Case(
            "B17: the wrong block size",
            "mooncake.jsonl",
            MOONCAKE,
            ("2 ids for a prompt of 600 tokens, which at 16 tokens a block has 37 or 38", "512"),
            ImportOptions(hash_block_tokens=16),
            "--hash-block-tokens 16",
        ),
        Case(
            "B17: ids of blocks instead of prefixes",
            "mooncake.jsonl",
            MOONCAKE + MOONCAKE.replace("[0, 1]", "[7, 1]"),
            ("row 1", "id 1 stands at block 1 after id 7 in row 1", "after id 0 in row 0"),
        ),
    ),
    "How many rows": (
        Case(
            "B18: more rows asked for than there are, after dropping",
            "burstgpt.csv",
            FAILED,
            ("holds 1 request, and 2 were asked for",),
            ImportOptions(on_zero_output="drop", limit=2),
            "--on-zero-output drop --limit 2",
        ),
        Case(
            "B19: a null far down",
            "mooncake.jsonl",
            MOONCAKE * 20 + MOONCAKE.replace("600", "null"),
            ("row 20 (line 21)", "input_length: is missing"),
        ),
        Case("B31: an empty file", "trace.csv", "", ("is empty (0 bytes)",)),
        Case("B31: a header and no rows", "azure.csv", AZURE, ("holds no requests",)),
        Case(
            "B31: a file of no known format",
            "data.csv",
            "a,b\n1,2\n",
            ("no format known here", "a, b", "--map"),
        ),
        Case(
            "B31: no header",
            "log.csv",
            "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951691,3,1\n",
            ("has no header", "46.6805900,374,44", "a line of names", "arrival=ts:datetime"),
        ),
        Case(
            "B31: no header, and columns that are named",
            "log.csv",
            "0,12,1\n1,12,1\n",
            ("has no header", "0,12,1", "a line of names", "arrival=ts:s"),
            BY_NAME,
            MAP_TYPED,
        ),
        Case(
            "B31: a header of numbers",
            "log.csv",
            "0,1,2\n5,12,1\n9,12,1\n",
            ("2 requests",),
            ImportOptions(mapping={"arrival": "0:s", "prompt": "1", "output": "2"}),
            "--map arrival=0:s,prompt=1,output=2",
            is_refused=False,
        ),
        Case(
            "B31: a column that is not there",
            "log.csv",
            "t,in\n0,1\n",
            ("has no column 'out'", "its columns are t, in"),
            BY_NAME,
            MAP_TYPED,
        ),
    ),
    "Numbers": (
        Case(
            "B20: half a token",
            "log.csv",
            "t,in,out\n0,12.0,1\n1,12.5,1\n",
            ("row 1 (line 3)", "'12.5' is not a whole number"),
            BY_NAME,
            MAP_TYPED,
        ),
        Case(
            "B20: too large for a count of tokens",
            "log.jsonl",
            '{"t": 0, "in": 3000000000, "out": 1}\n',
            ("row 0 (line 1)", "3000000000 is not a whole number that fits int32"),
            BY_NAME,
            MAP_TYPED,
        ),
        Case(
            "B20: NaN for a number in a trace of our own",
            "trace.parquet",
            one_request(prompt_tokens=float("nan")),
            ("row 0", "prompt_tokens", "nan is not a whole number"),
        ),
        Case(
            "B20: truth values for numbers",
            "trace.parquet",
            one_request(prompt_tokens=True),
            ("prompt_tokens", "holds bool, not int32"),
        ),
        Case(
            "B20: 12.0, '12' and a decimal are 12",
            "log.parquet",
            parquet(t=["0", "1.5"], **{"in": [12.0, 13.0]}, out=["12", " 13.0 "]),
            ("2 requests",),
            BY_NAME,
            MAP_TYPED,
            is_refused=False,
        ),
    ),
    "Files": (
        Case(
            "B22: Parquet cut short",
            "trace.parquet",
            one_request()[:-20],
            ("is cut short",),
        ),
        Case(
            "B22: gzip cut short",
            "mooncake.jsonl.gz",
            gzip.compress((MOONCAKE * 500).encode(), mtime=0)[:-30],
            ("cannot be read", "Truncated", "cut short"),
        ),
        Case(
            "B30: a trace of another major version",
            "trace.parquet",
            parquet({"schedbench.schema": "trace", "schedbench.schema_version": "0.4"}, x=[1]),
            ("schema version 0.4", "reads version 1", "Import its source again"),
        ),
        Case("A file that is not there", "", "", ("there is no such file",)),
    ),
    "Closed loops and sessions": (
        Case(
            "A request that waits for a later one",
            "trace.jsonl",
            OWN.replace("}", ', "after": 1}') + OWN,
            ("row 0", "row 1 is not before row 0"),
        ),
        Case(
            "B29: a think time without the request it follows",
            "trace.jsonl",
            OWN + OWN.replace("}", ', "think_ns": 9}'),
            ("row 1", "think_ns", "after no other"),
        ),
        Case(
            "Turns that go back",
            "trace.jsonl",
            OWN.replace("}", ', "session": 3, "turn": 1}') * 2,
            ("row 1", "turn 1 of session 3 comes after 1"),
        ),
    ),
}

RUNS = (
    Run(
        "B14: a prompt that the context cannot hold",
        f"replay log.csv {LOGICAL} --max-model-len 1024",
        2,
        ("row 2", "5000 leaves no room", "--too-long drop|truncate"),
    ),
    Run(
        "B14: the same, dropped on request",
        f"replay log.csv {LOGICAL} --max-model-len 1024 --too-long drop",
        0,
        (
            "2 of 2 finished",
            "1 of 3 requests dropped, which are longer than 1,024 tokens with their output",
        ),
    ),
    Run(
        "B14: the same, cut on request",
        f"replay log.csv {LOGICAL} --max-model-len 1024 --too-long truncate",
        0,
        ("3 of 3 finished", "1 of 3 prompts cut to 1,023 tokens, by 3,977 in all"),
    ),
    Run(
        "B15: prompts that the whole KV pool cannot hold",
        f"replay log.csv {LOGICAL} --num-gpu-blocks 40 --max-model-len 8192",
        2,
        ("2 prompts are longer than the whole KV pool", "rows 1 (900 tokens), 2 (5000 tokens)"),
    ),
    Run(
        "B18, B31: more requests asked for than the window holds",
        f"replay log.csv {LOGICAL} --from 1s --limit 9",
        2,
        ("limit 9: the window holds 2 requests",),
    ),
    Run(
        "B21: one content as CSV and as JSON Lines is one trace",
        f"trace import log.csv {MAP_TYPED} -o a.parquet",
        0,
        ("digest",),
        {"log.csv": "t,in,out\n0,100,20\n1,900,20\n"},
    ),
    Run(
        "B21: its digest again",
        f"trace import log.jsonl {MAP_TYPED} -o b.parquet",
        0,
        ("digest",),
        {"log.jsonl": SAME},
    ),
    Run(
        "B23: traffic under which no flag makes a difference",
        f"replay log.csv {LOGICAL}",
        0,
        ("no limit was ever binding, so a comparison of limits on this trace means nothing",),
    ),
    Run(
        "B24: a speedup that is none",
        f"replay log.csv {LOGICAL} --speedup 0",
        2,
        ("--speedup is 0: it must be from 0.000001 to 1000000; 2 means twice as fast",),
    ),
    Run(
        "B25: a window with nothing in it",
        f"replay log.csv {LOGICAL} --from 5s",
        2,
        ("no request arrives from 5s on", "take a window within"),
    ),
    Run(
        "B25: a window takes its start in and leaves its end out",
        f"replay log.csv {LOGICAL} --from 1s --to 2s",
        0,
        ("1 of 1 finished",),
    ),
)

KINDS_ELSEWHERE = {
    "B16": "lengths are never changed on import or in a replay but by an option that says so: B14",
    "B26": "arrivals lie on a clock of whole nanoseconds, and nothing sleeps: law 11 of "
    "[invariants.md](invariants.md)",
    "B27": "latencies count from the trace's arrival, queueing included: [metrics.md](metrics.md)",
    "B28": "outputs are as long as the trace says: law 15",
    "B32": "the same input and seed give the same rows, under any hash seed: law 12",
}

INTRO = """# Bad input

Made by `docs/make_bad_input.py`: every file below was written and loaded, and the loader's answer
stands under it. A file is refused, or read as an option says; nothing is clipped, repaired or
skipped in silence, and what an option dropped or changed is counted in the trace's provenance and
in everything made from it. Rows count from 0, lines of text files from 1.

Every row is checked, not the first few. Lengths are never changed on import: prompts longer than
the model's context are the replay's business (`--too-long`). Ties in time keep the file's order.
The scheduler breaks ties of priority by comparing ids as strings; it sees the row number in nine
digits, so that `"10" < "9"` cannot happen, whatever a source calls its requests.
"""


@contextmanager
def standing_in(folder: str) -> Iterator[None]:
    """Names in messages are short, as they are for somebody in the file's folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def answer(case: Case) -> tuple[bool, str]:
    """Whether the file is refused, and what is printed of it."""
    with tempfile.TemporaryDirectory() as folder, standing_in(folder):
        if case.name:
            content = case.content
            Path(case.name).write_bytes(content.encode() if isinstance(content, str) else content)
        try:
            trace = load_trace(case.name or "no-such-trace.parquet", options=case.options)
        except SchedbenchError as error:
            return True, f"error: {error}"
        doubts = (f"warning: {doubt}" for doubt in trace.provenance.get("doubts", ()))
        return False, "\n".join([*trace.provenance["notes"], *doubts])


def ran(case: Run) -> tuple[int, str]:
    """Exit code of the command, and what is shown of what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, standing_in(folder):
        for name, content in case.files.items():
            Path(name).write_text(content, encoding="utf-8")
        here = {"COLUMNS": "100", "CUDA_VISIBLE_DEVICES": ""}  # the same words on every machine
        with patch.dict(os.environ, here), redirect_stdout(out), redirect_stderr(err):
            code = run(case.words.split())
    told = [line for line in out.getvalue().splitlines() if any(each in line for each in case.says)]
    return code, "\n".join([*err.getvalue().splitlines(), *told])


def shown_run(case: Run) -> list[str]:
    files = [f"$ cat {name}\n{content}" for name, content in case.files.items()]
    return [
        f"### {case.title}", "", "```", "".join(files) + f"$ schedbench {case.words}", ran(case)[1],
        "```", "",
    ]  # fmt: skip


def shown_file(case: Case) -> list[str]:
    """The lines of a text file, or what a binary one is."""
    if not case.name:
        return []
    if isinstance(case.content, bytes):
        return [f"A binary file, `{case.name}`.", ""]
    lines = case.content.splitlines()
    cut = [*lines[:2], "...", lines[-1]] if len(lines) > 12 else lines  # noqa: PLR2004
    return [f"```\n$ cat {case.name}", *cut, "```", ""]


def section(title: str, cases: tuple[Case, ...], say: Callable[[Case], str]) -> list[str]:
    page = [f"## {title}", ""]
    for case in cases:
        flags = f" with `{case.flags}`" if case.flags else ""
        page += [f"### {case.title}", "", *shown_file(case)]
        page += [f"{'Refused' if case.is_refused else 'Read'}{flags}:", "", "```", say(case), "```"]
        page += [""]
    return page


def page() -> str:
    lines = [INTRO]
    for title, cases in SECTIONS.items():
        lines += section(title, cases, lambda case: answer(case)[1])
    lines += ["## What a replay refuses or says", ""]
    for each in RUNS:
        lines += shown_run(each)
    lines += ["## What cannot happen", ""]
    lines += [f"- {kind}: {why}." for kind, why in KINDS_ELSEWHERE.items()]
    lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
