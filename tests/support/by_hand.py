"""A scheduler that is stepped by hand, with requests that share nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench import Policy, Request, Scheduler, SchedulerConfig
from schedbench.sched.kv_cache.block_table import PLACE_BITS
from schedbench.sched.output import ModelRunnerOutput, SchedulerOutput

if TYPE_CHECKING:
    from collections.abc import Iterable

PLENTY = SchedulerConfig(
    num_gpu_blocks=100, max_num_seqs=8, max_num_batched_tokens=64, max_model_len=64, block_size=4,
    async_scheduling=False,
)  # fmt: skip
TIGHT = SchedulerConfig(
    num_gpu_blocks=9, max_num_seqs=8, max_num_batched_tokens=64, max_model_len=32, block_size=4,
    async_scheduling=False, scheduler_reserve_full_isl=False,
)  # fmt: skip


class Alone:
    """Content that no other request has."""

    def __init__(self, name: str) -> None:
        self._name = name

    def block_hash(self, index: int) -> int:
        return (hash(self._name) << PLACE_BITS) + index

    def stretches(self, first: int, end: int) -> list[range]:
        return [range(self.block_hash(first), self.block_hash(end))]

    def next_input(self, num_tokens: int, num_kept: int, update: object) -> None:
        raise NotImplementedError


def make(config: SchedulerConfig, policy: Policy | None, *prompts: int) -> Scheduler:
    """A scheduler with a request a prompt, named a, b, c, which arrived in that order."""
    scheduler = Scheduler(config, policy=policy)
    for index, tokens in enumerate(prompts):
        name = chr(ord("a") + index)
        scheduler.add_request(
            Request(
                name,
                num_prompt_tokens=tokens,
                max_tokens=20,
                arrival_time=index,
                identity=Alone(name),
                client_index=index % 2,
            )
        )
    return scheduler


def step(scheduler: Scheduler) -> SchedulerOutput:
    """One whole pass, in which everybody who may gets one token."""
    output = scheduler.schedule()
    sampled = {
        request_id: 1
        for request_id in output.num_scheduled_tokens
        if not scheduler.requests[request_id].is_prefill_chunk
    }
    scheduler.update_from_output(output, ModelRunnerOutput(sampled))
    return output


def names(requests: Iterable[Request]) -> list[str]:
    return [request.request_id for request in requests]


def until_eviction(scheduler: Scheduler) -> SchedulerOutput:
    for _ in range(30):
        if (output := step(scheduler)).victims:
            return output
    raise AssertionError("nobody was evicted")
