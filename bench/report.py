"""What a report of many passes costs: seconds, megabytes, and how quick it is in a browser.

python bench/report.py [PASSES]

The run is made up: queues that wander, prompts that come in bursts, evictions in one pass of a
hundred. It is harder to pack than a replay's, whose decode passes resemble one another.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from schedbench.results.metrics import summarize
from schedbench.results.pass_log import PASS_COLUMNS, VICTIMS, request_columns
from schedbench.results.report.output import whole_file
from schedbench.results.report.run_page import held_text, run_page
from schedbench.results.report.subject import Subject
from schedbench.results.report.timeline import write_timeline
from schedbench.results.run_store import RunFolder
from schedbench.results.stored_run import StoredRun

PASSES = 1_000_000
PASSES_A_REQUEST = 50
POOL, SEATS, BUDGET = 20_000, 256, 8192
PREFILLS, EVICTIONS, SHORT = 0.1, 0.01, 0.3  # shares of the passes
STOPS = ("queues_empty", "kv_blocks_short", "closed_by_preemption")
LIMITS = ("nothing", "kv_blocks", "kv_blocks")
WAITS = ("pass_in_flight", "kv_blocks_short")
CHROMIUM = "/usr/bin/chromium"


def main() -> None:
    """Make a run, then measure everything that is made of it."""
    passes = int(sys.argv[1]) if len(sys.argv) > 1 else PASSES
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        run = _timed("make the run", lambda: made_up(root / "run", passes))
        page = _timed("make the page", lambda: run_page([Subject(run)]))
        path = root / "report.html"
        path.write_text(page.html)
        print(f"  {path.stat().st_size / 1e6:.2f} MB, {held_text(page)}")
        timeline = root / "timeline.json"
        with whole_file(timeline) as file:
            events = _timed("write the timeline", lambda: write_timeline([run], file))
        print(f"  {timeline.stat().st_size / 1e6:.0f} MB, {events:,} events")
        print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
        _browse(path)


def _timed(what: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it gives
    began = time.perf_counter()
    result = work()
    print(f"{what}: {time.perf_counter() - began:.2f} s")
    return result


def made_up(folder: Path, passes: int) -> StoredRun:
    """A run folder with so many passes, and a request for every fifty of them."""
    rng = np.random.default_rng(1)
    with RunFolder.create(
        folder, trace_name="made-up", flags_digest="0" * 8, wait_labels=WAITS
    ) as run:
        table, evicted = _passes(passes, rng)
        run.passes.extend_columns(passes, [table[column.name] for column in PASS_COLUMNS])
        requests = _requests(max(1, passes // PASSES_A_REQUEST), table, evicted, rng)
        names = [column.name for column in request_columns(WAITS)]
        for row in zip(*(requests[name] for name in names), strict=True):
            run.requests.append(row)
        for gap, count in zip(*np.unique(table["duration_ns"], return_counts=True), strict=True):
            run.itl.append((int(gap), int(count)))
        run.write_manifest({"trace": {"path": "made-up", "digest": ""}, "scheduler": {}})
        run.close()
        stored = StoredRun.open(folder, allow_incomplete=True)
        run.write_summary(summarize(stored.passes(), stored.requests(), stored.itl()))
        run.complete()
    return StoredRun.open(folder)


def _passes(n: int, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Columns of the pass log, and which passes evict."""
    zero = np.zeros(n, dtype=np.int64)
    running = _wander(n, SEATS, rng)
    prefill = np.where(rng.random(n) < PREFILLS, rng.lognormal(6, 1, n).astype(np.int64), 0)
    evicted = rng.random(n) < EVICTIONS
    tokens = np.minimum(running + prefill, BUDGET)
    duration = 8_000_000 + 30_000 * tokens
    stop = np.where(evicted, 2, rng.random(n) < SHORT).astype(np.int64)
    used, waiting = _wander(n, POOL, rng), _wander(n, 2000, rng)
    columns: dict[str, Any] = {column.name: zero for column in PASS_COLUMNS} | {
        "pass": np.arange(n),
        "start_ns": np.cumsum(duration) - duration,
        "duration_ns": duration,
        "end_ns": np.cumsum(duration),
        "token_budget": BUDGET,
        "tokens_scheduled": tokens,
        "prefill_tokens": tokens - np.minimum(running, tokens),
        "decode_tokens": np.minimum(running, tokens),
        "context_tokens": running * 700 + prefill,
        "requests_scheduled": running,
        "requests_emitting": running,
        "running": running,
        "waiting": waiting,
        "preempted": evicted.astype(np.int64),
        "preempted_tokens": evicted * 900,
        "admissions_cancelled": np.where(evicted, waiting, 0),
        "budget_stranded": np.where(evicted, BUDGET - tokens, 0),
        "kv_blocks_used": used,
        "kv_blocks_free": POOL - used,
        "kv_blocks_cached": np.minimum(POOL, used + 500),
        "running_stop": "list_done",
        "decisions": rng.integers(0, 2**63, n, dtype=np.uint64),
    }
    columns["admission_stop"] = pa.array([STOPS[code] for code in stop]).dictionary_encode()
    columns["binding_limit"] = pa.array([LIMITS[code] for code in stop]).dictionary_encode()
    rows = np.where(evicted, np.arange(n) // PASSES_A_REQUEST, -1)
    columns["victims"] = pa.array([[row] if row >= 0 else [] for row in rows.tolist()], VICTIMS)
    return columns, evicted


def _wander(n: int, top: int, rng: np.random.Generator) -> np.ndarray:
    """A walk between 1 and `top`, reflected at both."""
    walk = np.cumsum(rng.integers(-2, 3, n)) * max(1, top // 256)
    return np.abs((walk + top // 3) % (2 * top) - top).clip(1)


def _requests(
    n: int, passes: dict[str, Any], evicted: np.ndarray, rng: np.random.Generator
) -> dict[str, list[Any]]:
    """One request for every fifty passes, served in order."""
    starts = passes["start_ns"][::PASSES_A_REQUEST][:n]
    arrival = np.maximum(starts - rng.exponential(2e9, n).astype(np.int64), 0)
    first_token = starts + 50_000_000
    finish = first_token + rng.lognormal(22, 1, n).astype(np.int64)
    evictions = np.add.reduceat(evicted, np.arange(0, n * PASSES_A_REQUEST, PASSES_A_REQUEST))
    constant = dict.fromkeys((column.name for column in request_columns(WAITS)), [0] * n)
    return constant | {
        "row": list(range(n)),
        "request_id": [f"request-{row}" for row in range(n)],
        "group": [None] * n,
        "session": [None] * n,
        "prompt_tokens": [512] * n,
        "output_tokens": [200] * n,
        "arrival_ns": arrival.tolist(),
        "first_scheduled_ns": starts.tolist(),
        "first_token_ns": first_token.tolist(),
        "finish_ns": finish.tolist(),
        "ttft_ns": (first_token - arrival).tolist(),
        "tpot_ns": ((finish - first_token) // 199).tolist(),
        "itl_max_ns": [60_000_000] * n,
        "e2e_ns": (finish - arrival).tolist(),
        "preemptions": evictions.tolist(),
        "finish_reason": ["length"] * n,
        "wait_kv_blocks_short_ns": (starts - arrival).tolist(),
    }


def _browse(path: Path) -> None:
    """How long a headless Chromium takes to open the page, and to zoom in and out again."""
    if not Path(CHROMIUM).exists():
        print(f"not opened: there is no {CHROMIUM}")
        return
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (where there is a browser)

    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as profile:
        browser = driver.chromium.launch_persistent_context(
            profile, executable_path=CHROMIUM, headless=True, args=options
        )
        page = browser.pages[0]
        page.goto(path.as_uri())
        _timed("open it in a browser", lambda: page.wait_for_selector("body[data-ready]"))
        for button in ("in", "in", "in", "right", "out", "whole"):
            took = page.evaluate(
                """async (button) => {
                    const began = performance.now();
                    document.querySelector(`[data-zoom=${button}]`).click();
                    const ran = performance.now();
                    await new Promise(requestAnimationFrame);
                    await new Promise(requestAnimationFrame);
                    return [ran - began, performance.now() - began];
                }""",
                button,
            )
            detail = page.inner_text("#detail")
            print(f"  zoom {button}: script {took[0]:.0f} ms, on screen {took[1]:.0f} ms {detail}")
        browser.close()


if __name__ == "__main__":
    main()
