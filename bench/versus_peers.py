"""Whole processes, start-up included: ours and the replays that install from PyPI."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import orjson
from cases import COST, REAL_CASES, Case, load, mooncake
from contest import Figures, alternate, ratio, told, whole_process
from ours_worker import fresh
from setting import (
    DYNAMO_PYTHON,
    EDITABLE_PYTHON,
    EDITABLE_SCHEDBENCH,
    HERE,
    SCHEDBENCH,
    VIDUR_PYTHON,
)
from top_lines import top_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from contest import Command
    from setting import Setting

    from schedbench.workloads.trace import Trace

CAVEATS = {
    "dynamo": (
        "ai-dynamo-runtime 1.6.1: a compiled replay of Dynamo's model of a vLLM engine, with its "
        "own rules and its own pass times, so other passes than vLLM's; one summary, no pass log"
    ),
    "dynamo, 8 ms": "the same with passes of 8 ms, against ours with `--cost pass:8ms`",
    "vidur": (
        "vidur 0.0.26: its event loop and Sarathi scheduler with ours as clock, for its package "
        "holds no profiles; no prefix cache, no metrics written; its simulation alone is timed"
    ),
}
FIXED_MS = "8"


def measure(setting: Setting) -> list[Figures]:
    """Azure as recorded, then the Mooncake conversation."""
    return [_azure(setting), _mooncake(setting)]


def _azure(setting: Setting) -> Figures:
    print("  Azure, whole processes", file=sys.stderr)
    case = REAL_CASES[0]
    trace = load(setting.traces / case.trace, setting.limit(case), hash_ids=False)
    as_mooncake = _write_mooncake(trace, setting.scratch / "azure.jsonl")
    contestants = {
        "ours": _ours(setting, case),
        "ours, 8 ms": _ours(setting, case, "--cost", f"pass:{FIXED_MS}ms"),
    }
    if DYNAMO_PYTHON.exists():
        contestants["dynamo"] = _dynamo(setting, as_mooncake, case)
        contestants["dynamo, 8 ms"] = _dynamo(setting, as_mooncake, case, FIXED_MS)
    if VIDUR_PYTHON.exists():
        contestants["vidur"] = _vidur(setting, trace)
    pairs = (("dynamo", "ours"), ("dynamo, 8 ms", "ours, 8 ms"), ("vidur", "ours"))
    return _contest("Azure as recorded", case, contestants, pairs, setting)


def _mooncake(setting: Setting) -> Figures:
    print("  Mooncake, whole processes", file=sys.stderr)
    case = mooncake(16)
    trace = load(setting.traces / case.trace, setting.limit(case), hash_ids=True)
    path = _write_mooncake(trace, setting.scratch / "mooncake.jsonl")
    contestants, pairs = {}, []
    for size in (16, 512):
        sized = mooncake(size)
        contestants[f"ours, {size}"] = _ours(setting, sized)
        if DYNAMO_PYTHON.exists():
            contestants[f"dynamo, {size}"] = _dynamo(setting, path, sized)
            pairs.append((f"dynamo, {size}", f"ours, {size}"))
    return _contest("Mooncake conversation", case, contestants, pairs, setting)


def _contest(
    name: str,
    case: Case,
    contestants: dict[str, Callable[[], Figures]],
    pairs: list[tuple[str, str]] | tuple[tuple[str, str], ...],
    setting: Setting,
) -> Figures:
    runs = alternate(contestants, setting.rounds, setting.budget_s(15, 900))
    return {
        "name": name,
        "case": setting.job(case)["case"],
        "contestants": told(runs),
        "ratios": {f"{a} / {b}": ratio(runs, a, b) for a, b in pairs if a in runs},
        "profile": _profile(setting, case),
        "caveats": {name: text for name, text in CAVEATS.items() if name in runs},
    }


def _ours(setting: Setting, case: Case, *more: str) -> Callable[[], Figures]:
    command = [SCHEDBENCH, *_arguments(setting, case), *(more or ("--cost", COST))]

    def run() -> Figures:
        fresh(setting.scratch / "run")
        return whole_process(command, setting.log)

    return run


def _arguments(setting: Setting, case: Case) -> list[str | Path]:
    """Of our command, the run folder's name included."""
    case = replace(case, limit=setting.limit(case))
    out = fresh(setting.scratch / "run")
    trace = setting.traces / case.trace
    return ["replay", trace, *case.options(), "--out", out, "--json"]


def _profile(setting: Setting, case: Case) -> str:
    """Where our process spends its time, imports and all, with nothing compiled."""
    file = setting.scratch / "profile"
    command = [EDITABLE_PYTHON, "-m", "cProfile", "-o", file, EDITABLE_SCHEDBENCH]
    command += [*_arguments(setting, case), "--cost", COST]
    whole_process(command, setting.log)
    return top_lines(str(file))


def _dynamo(setting: Setting, path: Path, case: Case, *pass_ms: str) -> Callable[[], Figures]:
    command = [DYNAMO_PYTHON, HERE / "peer_dynamo.py", path, case.num_gpu_blocks, case.block_size]
    return partial(whole_process, [*map(str, command), *pass_ms], setting.log)


def _vidur(setting: Setting, trace: Trace) -> Callable[[], Figures]:
    path, out = setting.scratch / "vidur.csv", setting.scratch / "vidur"
    columns = trace.table.to_pydict()
    rows = zip(
        columns["arrival_ns"], columns["prompt_tokens"], columns["output_tokens"], strict=True
    )
    lines = [f"{at / 1e9!r},day,{prompt},{output}" for at, prompt, output in rows]
    path.write_text("\n".join(["Time,Date,PromptTokenCount,CompletionTokenCount", *lines]))
    log = setting.scratch / "vidur.log"
    command: Command = [VIDUR_PYTHON, HERE / "peer_vidur.py", path, out]

    def run() -> Figures:
        whole = whole_process(command, log)
        inside = json.loads(log.read_text().splitlines()[-1])
        if not inside["batches"]:
            raise SystemExit("vidur found no request in its trace")
        return {**inside, "peak_mib": whole["peak_mib"]}

    return run


def _write_mooncake(trace: Trace, path: Path) -> Path:
    """A trace in Mooncake's format; where it has no ids, no prefix is shared."""
    columns, size = trace.table.to_pydict(), trace.hash_block_tokens or 512
    own = iter(range(1 << 62))
    ids = columns.get("hash_ids") or [
        [next(own) for _ in range(-(-prompt // size))] for prompt in columns["prompt_tokens"]
    ]
    rows = zip(
        columns["arrival_ns"], columns["prompt_tokens"], columns["output_tokens"], ids, strict=True
    )
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    with path.open("wb") as file:
        for at, *rest in rows:
            file.write(orjson.dumps(dict(zip(names, (at / 1e6, *rest), strict=True))) + b"\n")
    return path
