"""A scheduler stepped by hand: requests that share nothing, and a model that says one token."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from schedbench.sched.output import ModelRunnerOutput
from schedbench.sched.prefix_identity import PrefixNames
from schedbench.sched.request import Request

if TYPE_CHECKING:
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput
    from schedbench.sched.scheduler import Scheduler

_NAMES = PrefixNames(1, None)
_ARRIVALS = count()


def a_request(name: str, num_prompt_tokens: int, max_tokens: int, **facts: Any) -> Request:  # noqa: ANN401
    """A request that came after all those made before it."""
    given = {"arrival_time": next(_ARRIVALS), "identity": _NAMES.own()} | facts
    return Request(name, num_prompt_tokens=num_prompt_tokens, max_tokens=max_tokens, **given)


def sampled(scheduler: Scheduler, output: SchedulerOutput) -> dict[str, int]:
    """One token for everyone whose known tokens are all computed; drafts are all rejected."""
    return {
        request_id: 1
        for request_id in output.num_scheduled_tokens
        if not scheduler.requests[request_id].is_prefill_chunk
    }


def step(scheduler: Scheduler) -> tuple[SchedulerOutput, EngineCoreOutputs]:
    """One pass, both halves."""
    output = scheduler.schedule()
    model_output = ModelRunnerOutput(sampled(scheduler, output))
    return output, scheduler.update_from_output(output, model_output)
