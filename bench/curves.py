"""How cost grows: with the trace's length; with running requests, block size and prefix ids."""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import TYPE_CHECKING

from cases import COST, Case, mooncake
from contest import Figures, alternate, told, whole_process
from ours_worker import fresh
from setting import SCHEDBENCH

if TYPE_CHECKING:
    from pathlib import Path

    from contest import Command
    from setting import Setting

LENGTHS = (10_000, 100_000, 1_000_000, 10_000_000)
QUICK_LENGTHS = (3_000, 10_000, 30_000)
TRAFFIC = ("--arrivals", "poisson:rate=16")  # a stable load for the linear clock

RUNNING = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
QUICK_RUNNING = (8, 64, 1024)
LENGTHS_OF_SEATS = ("--prompt", "uniform:low=64,high=192", "--output", "uniform:low=128,high=384")
BLOCKS_A_SEAT = 40  # of 16 tokens: more than 192 + 384

BLOCK_SIZES = (16, 32, 64, 128, 256, 512)
QUICK_BLOCK_SIZES = (16, 64, 512)


def measure(setting: Setting) -> list[Figures]:
    """An entry a curve."""
    return [running(setting), block_sizes(setting)]


def measure_lengths(setting: Setting) -> list[Figures]:
    """One entry."""
    return [lengths(setting)]


def lengths(setting: Setting) -> Figures:
    """Whole processes on generated traces, each length once but for the shorter ones."""
    print("  length of the trace", file=sys.stderr)
    points: Figures = {}
    for requests in QUICK_LENGTHS if setting.quick else LENGTHS:
        path = synthesize(setting, f"{requests}.parquet", "--requests", str(requests), *TRAFFIC)
        is_short = requests <= (LENGTHS[0] if setting.quick else LENGTHS[1])
        contestants = {str(requests): partial(_whole_replay, setting, path)}
        rounds = setting.rounds if is_short else 1
        points |= alternate(contestants, rounds, setting.budget_s(20))
        path.unlink()
    result = told(points)
    first, last = ("10000", "30000") if setting.quick else ("100000", "10000000")
    growth = result[last]["cpu_s"]["median"] / result[first]["cpu_s"]["median"]
    return {
        "name": "length of the trace",
        "contestants": result,
        "exponent": round(math.log(growth) / math.log(int(last) / int(first)), 3),
        "exponent_between": [int(first), int(last)],
    }


def _whole_replay(setting: Setting, path: Path) -> Figures:
    out = fresh(setting.scratch / "run")
    case = Case("generated", str(path), 30_000, max_model_len=131_072)
    command: list[str | Path] = [SCHEDBENCH, "replay", path, *case.options(), "--cost", COST]
    return whole_process([*command, "--out", out, "--json"], setting.log)


def running(setting: Setting) -> Figures:
    """Everybody there at once, so that every seat is taken nearly always."""
    print("  running requests", file=sys.stderr)
    seats = QUICK_RUNNING if setting.quick else RUNNING
    requests = 4 * max(seats) if not setting.quick else max(seats)
    path = synthesize(setting, "seats.parquet", "--requests", str(requests), *LENGTHS_OF_SEATS)
    points: Figures = {}
    with setting.ours() as worker:
        for number in seats:
            case = Case(
                f"{number} running",
                str(path),
                number * BLOCKS_A_SEAT,
                max_num_seqs=number,
                all_at_once=True,
                limit=requests,
            )
            job = setting.job(case, do="replay")
            contestants = {
                f"{number}": partial(worker.ask, **job, short_way=True),
                f"{number}, no short way": partial(worker.ask, **job, short_way=False),
            }
            points |= alternate(contestants, setting.rounds, setting.budget_s(2))
    return {"name": "running requests", "contestants": told(points)}


def block_sizes(setting: Setting) -> Figures:
    """The Mooncake conversation with its prefix ids and without, the pool's tokens the same."""
    print("  block size", file=sys.stderr)
    contestants = {}
    with setting.ours() as worker:
        for size in QUICK_BLOCK_SIZES if setting.quick else BLOCK_SIZES:
            for hash_ids in (True, False):
                case = mooncake(size, hash_ids=hash_ids)
                job = setting.job(case, do="replay", short_way=True)
                contestants[case.name.removeprefix("block size ")] = partial(worker.ask, **job)
        runs = alternate(contestants, setting.rounds, setting.budget_s(20, 1200))
    return {"name": "block size", "contestants": told(runs)}


def synthesize(setting: Setting, name: str, *options: str) -> Path:
    """A generated trace in the scratch folder."""
    path = setting.scratch / name
    command: Command = [SCHEDBENCH, "trace", "synth", *options, "--out", path, "--force"]
    whole_process(command, setting.log)
    return path
