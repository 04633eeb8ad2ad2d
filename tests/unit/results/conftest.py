"""A made-up run: random, but with the shape of a real one."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from schedbench.results.memory_log import MemoryRun
from schedbench.results.pass_log import PASS_COLUMNS, TIMING_COLUMNS, request_columns
from schedbench.results.run_store import RunFolder

settings.register_profile("busy", deadline=None)  # a busy machine is no failure
settings.load_profile("busy")

WAITS = ("pass_in_flight", "seats_full")
PASS_NAMES = [column.name for column in PASS_COLUMNS]
REQUEST_NAMES = [column.name for column in request_columns(WAITS)]


def a_pass(index: int, start_ns: int, rng: random.Random) -> dict[str, Any]:
    stop = rng.choice(["queues_empty", "seats_full", "closed_by_preemption"])
    victims = [rng.randrange(50)] if stop == "closed_by_preemption" else []
    row = {name: rng.randrange(1000) for name in PASS_NAMES}
    prefill, decode = rng.choice([(0, 5), (100, 5), (100, 0), (0, 0)])
    return row | {
        "pass": index,
        "start_ns": start_ns,
        "duration_ns": rng.choice([0, rng.randrange(1, 10**9)]),
        "token_budget": rng.choice([0, 8192]),
        "tokens_scheduled": prefill + decode,
        "prefill_tokens": prefill,
        "decode_tokens": decode,
        "spec_tokens": 0,
        "victims": victims,
        "preempted": len(victims),
        "kv_blocks_free": 2000 - row["kv_blocks_used"],
        "running_stop": "list_done",
        "admission_stop": stop,
        "binding_limit": {"seats_full": "seats", "queues_empty": "nothing"}.get(stop, "kv_blocks"),
    }


def a_request(row: int, rng: random.Random) -> dict[str, Any]:
    values: dict[str, Any] = {name: rng.randrange(1, 1000) for name in REQUEST_NAMES}
    reason = rng.choice(["stop", "length", "length", "length", "abort", "error", None])
    served = reason in ("stop", "length")
    arrival = rng.randrange(10**12)
    values |= {
        "row": row,
        "request_id": f"r{row}",
        "client": rng.randrange(3),
        "priority": rng.randrange(-1, 2),
        "lora": rng.randrange(3),
        "group": rng.choice(["chat", "code", None]),
        "arrival_ns": arrival,
        "first_scheduled_ns": arrival + rng.randrange(10**10) if reason else None,
        "first_token_ns": arrival + 10**10 if reason else None,
        "finish_ns": arrival + 10**11 if reason else None,
        "ttft_ns": rng.randrange(10**10) if reason else None,
        "tpot_ns": rng.choice([None, rng.randrange(10**8)]) if served else None,
        "itl_max_ns": rng.choice([None, rng.randrange(10**9)]),
        "e2e_ns": rng.randrange(10**11) if served else None,
        "finish_reason": reason,
    }
    return values


class MadeUp:
    """Rows of a run as dicts, for a naive recomputation, and the same rows as tables."""

    def __init__(self, seed: int, passes: int = 40, requests: int = 50) -> None:
        rng = random.Random(seed)  # noqa: S311 (nothing secret)
        self.passes: list[dict[str, Any]] = []
        clock = 0
        for index in range(passes):
            self.passes.append(a_pass(index, clock, rng))
            clock += self.passes[-1]["duration_ns"]
            self.passes[-1]["end_ns"] = clock
            clock += rng.choice([0, 10**6])
        self.requests = [a_request(row, rng) for row in range(requests)]
        self.itl = {rng.randrange(10**8): rng.randrange(1, 50) for _ in range(20 if passes else 0)}

    def fill(self, run: MemoryRun | RunFolder) -> None:
        for row in self.passes:
            run.passes.append(tuple(row[name] for name in PASS_NAMES))
            run.timings.append((row["pass"], 1000, None, None, None)[: len(TIMING_COLUMNS)])
        for row in self.requests:
            run.requests.append(tuple(row[name] for name in REQUEST_NAMES))
        for gap in self.itl.items():
            run.itl.append(gap)

    def in_memory(self) -> MemoryRun:
        run = MemoryRun(WAITS)
        self.fill(run)
        return run

    def stored(self, out: Path, manifest: dict[str, Any], summary: dict[str, Any]) -> Path:
        with RunFolder.create(
            out, trace_name="made-up", flags_digest="0" * 8, wait_labels=WAITS
        ) as run:
            self.fill(run)
            run.write_manifest(manifest)
            run.write_summary(summary)
            run.complete()
        return run.path


@pytest.fixture(scope="session")
def made_up() -> Callable[..., MadeUp]:
    return MadeUp
