"""What recording costs a server: vLLM's scheduler class with and without the recorder over it.

.venv-vllm/bin/python bench/recording_overhead.py [--rounds 9] [--passes 400] [--pause-ms 3]

Both classes, in turn, get the same traffic: so many requests at a time, each followed by another
when it ends. Timed are `add_request`, `schedule` and `update_from_output`, on the scheduler's
thread; between passes it sleeps, as a server waits for its GPU, and there the writer works. Told is
the median of the rounds with the least and the greatest, in microseconds a pass.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections import deque
from typing import Any

from schedbench.runner.lockstep import flags_for
from schedbench.runner.vllm_backend import (
    build_block_hasher,
    build_config,
    build_scheduler,
    prepare_environment,
    vllm_version,
)
from schedbench.runner.vllm_recorder import recording_class
from schedbench.sched.config import SchedulerConfig

BATCHES = (8, 64, 256)
PROMPT_TOKENS, OUTPUT_TOKENS, SHARED_TOKENS = 512, 200, 256
BLOCKS, BLOCK_TOKENS = 60_000, 16
WARM_UP_PASSES = 50


class Server:
    """A scheduler kept busy; `cpu_ns` and `wall_ns` are those of its methods."""

    def __init__(self, batch: int, pause_s: float, *, records: bool) -> None:
        config = SchedulerConfig(
            vllm_version=vllm_version(),
            max_num_seqs=batch,
            max_model_len=4096,
            num_gpu_blocks=BLOCKS,
            async_scheduling=True,
        )
        flags = flags_for(config, has_encoder=False)
        vllm_config = build_config(flags, None)  # type: ignore[arg-type]
        self.scheduler = build_scheduler(flags, vllm_config)
        if records:
            made = recording_class("RecordingAsyncScheduler")
            self.scheduler = made(
                vllm_config=vllm_config,
                kv_cache_config=self.scheduler.kv_cache_config,
                structured_output_manager=self.scheduler.structured_output_manager,
                block_size=BLOCK_TOKENS,
                hash_block_size=BLOCK_TOKENS,
            )
        self._hasher = build_block_hasher(vllm_config)
        self._pause_s = pause_s
        self._pending: deque[tuple[Any, list[str]]] = deque()
        self._added = 0
        self.cpu_ns = self.wall_ns = 0
        for _ in range(batch):
            self._timed(self.scheduler.add_request, self._request(self._added * 7 % OUTPUT_TOKENS))

    def _request(self, head_start: int = 0) -> Any:  # noqa: ANN401
        """One of a stream of requests that share their first half."""
        from vllm.sampling_params import SamplingParams  # noqa: PLC0415
        from vllm.v1.request import Request  # noqa: PLC0415

        self._added += 1
        own = range(self._added << 20, (self._added << 20) + PROMPT_TOKENS - SHARED_TOKENS)
        return Request(
            request_id=f"r{self._added}",
            prompt_token_ids=[*range(SHARED_TOKENS), *own],
            sampling_params=SamplingParams(max_tokens=OUTPUT_TOKENS - head_start, ignore_eos=True),
            pooling_params=None,
            arrival_time=time.time(),
            block_hasher=self._hasher,
        )

    def _timed(self, method: Any, *args: Any) -> Any:  # noqa: ANN401
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        result = method(*args)
        self.cpu_ns += time.thread_time_ns() - cpu
        self.wall_ns += time.perf_counter_ns() - wall
        return result

    def passes(self, count: int) -> None:
        from vllm.v1.outputs import ModelRunnerOutput  # noqa: PLC0415

        for _ in range(count):
            output = self._timed(self.scheduler.schedule)
            names = list(output.num_scheduled_tokens)
            live = self.scheduler.requests
            samples = {name for name in names if not live[name].is_prefill_chunk}
            self._pending.append((output, names, samples))  # type: ignore[arg-type]
            time.sleep(self._pause_s)
            if len(self._pending) < 2:  # noqa: PLR2004 - one pass ahead
                continue
            output, names, samples = self._pending.popleft()  # type: ignore[misc]
            result = ModelRunnerOutput(
                req_ids=names,
                req_id_to_index={name: index for index, name in enumerate(names)},
                sampled_token_ids=[[7] if name in samples else [] for name in names],
            )
            before = len(live)
            self._timed(self.scheduler.update_from_output, output, result)
            for _ in range(before - len(live)):
                self._timed(self.scheduler.add_request, self._request())

    def measure(self, count: int) -> tuple[float, float]:
        """CPU and clock microseconds a pass."""
        self.passes(WARM_UP_PASSES)
        self.cpu_ns = self.wall_ns = 0
        self.passes(count)
        self.scheduler.shutdown()
        return self.cpu_ns / count / 1000, self.wall_ns / count / 1000


def told(values: list[float]) -> str:
    return f"{statistics.median(values):7.1f} ({min(values):.1f}-{max(values):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--passes", type=int, default=400)
    parser.add_argument("--pause-ms", type=float, default=3.0)
    given = parser.parse_args()
    prepare_environment()
    print(f"vLLM {vllm_version()}, us a pass, median (least-greatest) of {given.rounds} rounds")
    print(f"{'batch':>5}  {'':9} {'plain':>24} {'recording':>24} {'added':>24}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SCHEDBENCH_RECORD_DIR"] = folder
        for batch in BATCHES:
            runs: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for number in range(given.rounds):
                for records in (False, True) if number % 2 == 0 else (True, False):
                    gc.collect()
                    server = Server(batch, given.pause_ms / 1000, records=records)
                    runs[records].append(server.measure(given.passes))
            for place, kind in enumerate(("CPU", "by clock")):
                plain, ours = ([run[place] for run in runs[each]] for each in (False, True))
                added = [b - a for a, b in zip(plain, ours, strict=True)]
                print(f"{batch:5}  {kind:9} {told(plain):>24} {told(ours):>24} {told(added):>24}")


if __name__ == "__main__":
    main()
