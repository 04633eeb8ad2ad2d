"""Replays a trace with vLLM's own scheduler class and times its methods, and nothing else.

.venv-vllm/bin/python bench/real_class.py --traces DIR [--limit N] [CASE ...]

Timed are `add_request`, `schedule` and `update_from_output`. Import, making requests (with their
block hashes) and the loop around are not. Arrivals, the linear clock in whole nanoseconds and the
order of things are those of runner/replay.py, so passes, tokens and preemptions have to be equal.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cases import BASE_NS, PER_TOKEN_NS, REAL_CASES, Case, load
from contest import Figures, serve

from schedbench.runner.vllm_backend import (
    build_block_hasher,
    build_config,
    build_scheduler,
    prepare_environment,
)
from schedbench.workloads.transform import scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schedbench.workloads.trace import Trace

METHODS = ("add_request", "schedule", "update_from_output")
OWN_TOKENS = 1 << 20  # token ids from here on name a request, those below a shared prefix
UNUSED_FLAGS = {
    "encoder_budget": None,
    "encoder_cache_size": None,
    "kv_connector": False,
    "kv_load_failure_policy": "fail",
    "max_loras": None,
    "num_speculative_tokens": 0,
    "prefix_caching_hash_algo": "sha256",
}


@dataclass(slots=True)
class Stopwatch:
    """CPU and clock nanoseconds in one method, over all its calls."""

    method: Callable[..., Any]
    cpu_ns: int = 0
    wall_ns: int = 0

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401 - vLLM's own types
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        result = self.method(*args)
        self.cpu_ns += time.thread_time_ns() - cpu
        self.wall_ns += time.perf_counter_ns() - wall
        return result


@dataclass(slots=True)
class InFlight:
    """A scheduled pass that is not folded in yet."""

    output: Any
    samples: list[str]  # whose tokens the model will sample


class RequestMaker:
    """Rows of a trace as vLLM's requests: equal prefixes where hash ids are equal, else none."""

    def __init__(self, trace: Trace, block_hasher: Any) -> None:  # noqa: ANN401
        self._trace = trace
        self._block_hasher = block_hasher

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        columns = self._trace.table.to_pydict()
        hash_ids = columns.get("hash_ids", [()] * self._trace.num_requests)
        for row, (at_ns, prompt, output, ids) in enumerate(
            zip(
                columns["arrival_ns"],
                columns["prompt_tokens"],
                columns["output_tokens"],
                hash_ids,
                strict=True,
            )
        ):
            yield at_ns, self._request(row, at_ns, self._tokens(row, prompt, ids), output)

    def _tokens(self, row: int, length: int, hash_ids: list[int]) -> list[int]:
        """A first token that nobody else has tells a whole prompt, or hash block, apart."""
        if not hash_ids:
            return [OWN_TOKENS + row, *range(1, length)]
        size = self._trace.hash_block_tokens or 0
        tokens = [token for each in hash_ids for token in (each, *range(1, size))]
        return tokens[:length]

    def _request(self, row: int, at_ns: int, tokens: list[int], output_tokens: int) -> Any:  # noqa: ANN401
        from vllm.sampling_params import SamplingParams  # noqa: PLC0415
        from vllm.v1.request import Request  # noqa: PLC0415

        return Request(
            request_id=f"{row:09d}",
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=output_tokens),
            pooling_params=None,
            arrival_time=at_ns,
            block_hasher=self._block_hasher,
        )


@dataclass
class RealReplay:
    """One trace through one of vLLM's schedulers."""

    scheduler: Any
    arrivals: Iterator[tuple[int, Any]]
    depth: int
    now_ns: int = 0
    passes: int = 0
    tokens: int = 0
    preempted: int = 0
    _in_flight: deque[InFlight] = field(default_factory=deque)

    def __post_init__(self) -> None:
        from vllm.v1.outputs import ModelRunnerOutput  # noqa: PLC0415

        self._output_class = ModelRunnerOutput
        self._requests = self.scheduler.requests
        self.watches = {name: Stopwatch(getattr(self.scheduler, name)) for name in METHODS}
        self._add, self._schedule, self._update = self.watches.values()
        self._head = next(self.arrivals, None)

    def run(self) -> None:
        """Replay until nothing is left to come."""
        while True:
            self._take_arrivals()
            if self._requests:
                if self._one_pass():
                    continue
            elif self._in_flight:
                self._fold()
                continue
            if self._head is None:
                return
            self.now_ns = max(self.now_ns, self._head[0])

    def _take_arrivals(self) -> None:
        while self._head is not None and self._head[0] <= self.now_ns:
            self._add(self._head[1])
            self._head = next(self.arrivals, None)

    def _one_pass(self) -> bool:
        """Schedule, and fold the oldest in where the pipeline is full; False if all were empty."""
        output = self._schedule()
        self.preempted += len(output.preempted_req_ids or ())
        requests = self._requests
        samples = [
            name for name in output.num_scheduled_tokens if not requests[name].is_prefill_chunk
        ]
        self._in_flight.append(InFlight(output, samples))
        if len(self._in_flight) < self.depth:
            return True
        folded = self._fold()
        return any(
            each.total_num_scheduled_tokens
            for each in (folded, *(pending.output for pending in self._in_flight))
        )

    def _fold(self) -> Any:  # noqa: ANN401
        in_flight = self._in_flight.popleft()
        output, samples = in_flight.output, set(in_flight.samples)
        self.now_ns += BASE_NS + PER_TOKEN_NS * output.total_num_scheduled_tokens
        self.passes += 1
        self.tokens += output.total_num_scheduled_tokens
        names = list(output.num_scheduled_tokens)
        result = self._output_class(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[
                [OWN_TOKENS + int(name)] if name in samples else [] for name in names
            ],
        )
        self._update(output, result)
        return output


def replay_job(job: Figures) -> Figures:
    """Replay a case; seconds in the three methods, and what has to be equal to ours."""
    case = Case(**job["case"])
    trace = load(Path(job["path"]), case.limit, hash_ids=case.hash_ids)
    trace = scale(trace, case.speedup)
    flags = UNUSED_FLAGS | case.config().as_dict()
    config = build_config(flags, store=None)  # type: ignore[arg-type]
    replay = RealReplay(
        build_scheduler(flags, config),
        iter(RequestMaker(trace, build_block_hasher(config))),
        case.config().passes_in_flight,
    )
    gc.collect()
    gc.freeze()  # as vLLM's engine does when it has started
    try:
        replay.run()
    finally:
        gc.unfreeze()
    watches = replay.watches
    return {
        "cpu_s": sum(watch.cpu_ns for watch in watches.values()) / 1e9,
        "wall_s": sum(watch.wall_ns for watch in watches.values()) / 1e9,
        "requests": trace.num_requests,
        "passes": replay.passes,
        "tokens_scheduled": replay.tokens,
        "preempted": replay.preempted,
        "methods_cpu_s": {name: round(each.cpu_ns / 1e9, 3) for name, each in watches.items()},
    }


def main() -> None:
    """Print the figures of the cases that were named, or serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", action="store_true", help="take jobs from standard input")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("cases", nargs="*", default=[case.name for case in REAL_CASES])
    given = parser.parse_args()
    prepare_environment()
    if given.serve:
        serve(replay_job)
        return
    for case in REAL_CASES:
        if case.name in given.cases:
            told = {**case.told(), "limit": given.limit}
            print(case.name, replay_job({"case": told, "path": given.traces / case.trace}))


if __name__ == "__main__":
    main()
