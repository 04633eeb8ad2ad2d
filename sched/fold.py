"""Second half of a pass: tokens into requests, stops, removals, what leaves the engine.

The loop over what the pass scheduled only collects; the running list is rebuilt once, after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched import kv_connector, spec_decode, stale_output, streaming
from schedbench.sched.output import EngineCoreOutputs
from schedbench.sched.request import FINISH_REASON, RequestStatus
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.sched.async_mode import Settle
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import ModelRunnerOutput, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

_VERDICT_OF = {
    RequestStatus.FINISHED_STOPPED: Verdict.FINISHED_STOPPED,
    RequestStatus.FINISHED_LENGTH_CAPPED: Verdict.FINISHED_LENGTH_CAPPED,
    RequestStatus.FINISHED_ERROR: Verdict.FINISHED_ERROR,
}


def fold(
    scheduler: Scheduler, scheduler_output: SchedulerOutput, model_output: ModelRunnerOutput
) -> EngineCoreOutputs:
    """Fold a pass's sampled tokens into its requests and remove those that stopped."""
    outputs = EngineCoreOutputs()
    stale_output.pass_is_back(scheduler, scheduler_output)
    failed = settle_transfers(scheduler, scheduler_output, model_output)
    sampled = model_output.num_sampled_tokens
    drafts = scheduler_output.scheduled_spec_decode_tokens
    settle = scheduler.settle
    for request_id, num_scheduled in scheduler_output.num_scheduled_tokens.items():
        request = scheduler.requests.get(request_id)
        is_stale = False
        if request is not None and request.num_stale_output_tokens:
            is_stale = True
            stale_output.drain(request, num_scheduled)
        if request_id in failed:
            outputs.verdicts.append((request_id, Verdict.LOAD_FAILED))
        elif request is None or request.is_finished:  # aborted while the pass ran
            outputs.verdicts.append((request_id, Verdict.ALREADY_FINISHED))
        else:
            num_sampled, num_drafts = sampled.get(request_id, 0), drafts.get(request_id, 0)
            if is_stale:
                fold_stale(scheduler, request, num_sampled, num_drafts, outputs)
            else:
                fold_request(scheduler, request, num_sampled, num_drafts, outputs, settle)
    remove_stopped(scheduler, outputs)
    end_with_error(scheduler, outputs, failed)
    if model_output.kv_connector_output is not None and scheduler.transfers is not None:
        kv_connector.transfers_ended(
            scheduler, scheduler.transfers, model_output.kv_connector_output
        )
    if scheduler.config.num_speculative_tokens:
        spec_decode.check_computed(scheduler, scheduler_output.num_scheduled_tokens)
    if scheduler.return_path is not None:
        outputs.by_client = scheduler.return_path.fan_out(scheduler, outputs)
    return outputs


def settle_transfers(
    scheduler: Scheduler, scheduler_output: SchedulerOutput, model_output: ModelRunnerOutput
) -> set[str]:
    """Return blocks whose last pass is done; ids whose loads failed, and are not folded."""
    transfers, report = scheduler.transfers, model_output.kv_connector_output
    if transfers is None:
        return set()
    if transfers.defer_frees and scheduler_output.num_scheduled_tokens:
        scheduler.blocks_freed_finish += kv_connector.pass_is_folded(scheduler, transfers)
    if report is None:
        return set()
    failed = kv_connector.failed_requests(scheduler, transfers, report)
    if report.invalid_block_ids:
        failed |= kv_connector.failed_loads(
            scheduler, transfers, report.invalid_block_ids, scheduler_output.num_scheduled_tokens
        )
    return failed


def fold_request(
    scheduler: Scheduler,
    request: Request,
    num_sampled: int,
    num_drafts: int,
    outputs: EngineCoreOutputs,
    settle: Settle | None,
) -> None:
    """Fold one request's tokens in; a prefill chunk has none, and stays silent."""
    if num_drafts and num_sampled and not request.num_outputs_to_discard:
        spec_decode.take_back_rejected(request, num_drafts, num_sampled)
        if scheduler.return_path is not None:
            scheduler.return_path.verified(num_drafts, num_sampled - 1)
    if request.encoder_inputs:
        scheduler.encoder_cache.free_computed(request, scheduler.config.encoder_shift)
    if not num_sampled:
        return
    if request.num_outputs_to_discard:
        stale_output.discard(request)
        outputs.verdicts.append((request, Verdict.OUTPUT_DISCARDED))
        return
    fold_tokens(scheduler, request, num_sampled, outputs, settle)


def fold_stale(
    scheduler: Scheduler,
    request: Request,
    num_sampled: int,
    num_drafts: int,
    outputs: EngineCoreOutputs,
) -> None:
    """Deliver the tokens of a request that lost its place since, or drop them.

    They change no count of computed ones.
    """
    if request.drops_stale_output:
        outputs.verdicts.append((request, Verdict.OUTPUT_DISCARDED))
        return
    if num_drafts and num_sampled and scheduler.return_path is not None:
        scheduler.return_path.verified(num_drafts, num_sampled - 1)
    if request.encoder_inputs:
        scheduler.encoder_cache.free_computed(request, scheduler.config.encoder_shift)
    if num_sampled:
        fold_tokens(scheduler, request, num_sampled, outputs, None)


def fold_tokens(
    scheduler: Scheduler,
    request: Request,
    num_sampled: int,
    outputs: EngineCoreOutputs,
    settle: Settle | None,
) -> None:
    """Append a request's tokens, advance its grammar, and see whether it stops."""
    was_running = request.status is RequestStatus.RUNNING
    taken, status = append_tokens(request, num_sampled, scheduler.config)
    outputs.emitted.append(request)
    if taken != 1:
        outputs.num_new_tokens[request.request_id] = taken
    if status is not None:
        request.status = status
    if settle is not None:
        settle(scheduler, request, num_sampled, taken, was_running)
    if request.grammar is not None and not request.grammar.accept_tokens(taken):
        request.status = RequestStatus.FINISHED_ERROR
        request.resumable = False
    if request.is_finished:
        stop(scheduler, request, outputs, was_running=was_running)


def append_tokens(
    request: Request, num_sampled: int, config: SchedulerConfig
) -> tuple[int, RequestStatus | None]:
    """Append tokens until one stops the request; how many were taken, and the final status."""
    max_model_len = config.max_model_len
    for taken in range(1, num_sampled + 1):
        request.num_tokens += 1
        if request.min_tokens and waits_for_more(request, config):
            continue
        status = stop_status(request, max_model_len)
        if status is not None:
            return taken, status
    return num_sampled, None


def waits_for_more(request: Request, config: SchedulerConfig) -> bool:
    """Whether nothing may end the request yet; a later release lets every cap end it."""
    is_below = request.num_output_tokens < request.min_tokens
    return is_below and not config.behaviour.min_tokens


def stop_status(request: Request, max_model_len: int) -> RequestStatus | None:
    """Say how the newest token ends the request: the model's own end comes before any cap."""
    num_output_tokens = request.num_tokens - request.output_start
    if num_output_tokens == request.eos_after:
        return RequestStatus.FINISHED_STOPPED
    if request.num_tokens >= max_model_len or num_output_tokens >= request.max_tokens:
        return RequestStatus.FINISHED_LENGTH_CAPPED
    return None


def stop(
    scheduler: Scheduler, request: Request, outputs: EngineCoreOutputs, *, was_running: bool
) -> None:
    """Free a request that stopped, or let its session go on; it leaves its list after the loop."""
    status = request.status
    outputs.reasons[request] = FINISH_REASON[status]
    outputs.verdicts.append((request, _VERDICT_OF[status]))
    if streaming.segment_is_done(scheduler, request):
        outputs.segments_done.append(request)
        outputs.verdicts.append((request, Verdict.SEGMENT_DONE))
        if not scheduler.config.behaviour.streaming_frontier:
            scheduler.queues.add(request)
    else:
        outputs.finished.append((request, FINISH_REASON[status]))
        scheduler.free_request(request)
    (outputs.stopped_running if was_running else outputs.stopped_waiting).append(request)


def remove_stopped(scheduler: Scheduler, outputs: EngineCoreOutputs) -> None:
    """Take what stopped off its collection; an evicted request stopped in the waiting queue.

    vLLM 0.26.0 queues a session that goes on before that, and so loses one that was evicted.
    """
    if outputs.stopped_running:
        scheduler.remove_running(set(outputs.stopped_running))
    if outputs.stopped_waiting:
        scheduler.queues.remove_stopped(set(outputs.stopped_waiting))
    if scheduler.config.behaviour.streaming_frontier:
        for session in outputs.segments_done:
            scheduler.queues.add(session)


def end_with_error(
    scheduler: Scheduler, outputs: EngineCoreOutputs, failed_loads: Iterable[str]
) -> None:
    """End requests that an error was seen of, or whose load failed under policy fail."""
    ids = scheduler.request_errors
    scheduler.request_errors = set()
    if scheduler.transfers is not None and not scheduler.transfers.recompute_failures:
        ids |= set(failed_loads)
    if not ids:
        return
    in_order = [request_id for request_id in scheduler.requests if request_id in ids]
    for request in scheduler.finish_requests(in_order, RequestStatus.FINISHED_ERROR):
        outputs.finished.append((request, "error"))
        outputs.errors.append(request)
        outputs.verdicts.append((request, Verdict.FINISHED_ERROR))
