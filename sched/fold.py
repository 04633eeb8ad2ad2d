"""Second half of a pass: tokens into requests, stops, removals.

The loop over what the pass scheduled only collects; the running list is rebuilt once, after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.output import EngineCoreOutputs
from schedbench.sched.request import FINISH_REASON, RequestStatus
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.sched.output import ModelRunnerOutput, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

_VERDICT_OF = {
    RequestStatus.FINISHED_STOPPED: Verdict.FINISHED_STOPPED,
    RequestStatus.FINISHED_LENGTH_CAPPED: Verdict.FINISHED_LENGTH_CAPPED,
}


def fold(
    scheduler: Scheduler, scheduler_output: SchedulerOutput, model_output: ModelRunnerOutput
) -> EngineCoreOutputs:
    """Fold a pass's sampled tokens into its requests and remove those that stopped."""
    outputs = EngineCoreOutputs()
    sampled = model_output.num_sampled_tokens
    max_model_len = scheduler.config.max_model_len
    for request_id in scheduler_output.num_scheduled_tokens:
        request = scheduler.requests.get(request_id)
        if request is None:  # aborted while the pass ran
            outputs.verdicts.append((request_id, Verdict.ALREADY_FINISHED))
            continue
        if request_id not in sampled:
            continue
        request.num_tokens += 1
        outputs.emitted.append(request)
        status = stop_status(request, max_model_len)
        if status is not None:
            request.status = status
            outputs.verdicts.append((request, _VERDICT_OF[status]))
            outputs.finished.append((request, FINISH_REASON[status]))
            scheduler.free_request(request)
    if outputs.finished:
        scheduler.remove_running({request for request, _ in outputs.finished})
    return outputs


def stop_status(request: Request, max_model_len: int) -> RequestStatus | None:
    """Say how the newest token ends the request: the model's own end comes before any cap."""
    num_output_tokens = request.num_tokens - request.num_prompt_tokens
    if num_output_tokens == request.eos_after:
        return RequestStatus.FINISHED_STOPPED
    if request.num_tokens >= max_model_len or num_output_tokens >= request.max_tokens:
        return RequestStatus.FINISHED_LENGTH_CAPPED
    return None
