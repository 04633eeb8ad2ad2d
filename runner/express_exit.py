"""Leaving the express way: every job becomes the request that the plain loops would have by now."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from schedbench.runner.api import PassResult
from schedbench.runner.decision_digest import ADMITTED, RESUMED, victim_changes
from schedbench.runner.express_ahead import ExpressAheadReplay
from schedbench.runner.express_batch import iter_grants
from schedbench.runner.express_ledger import VERDICTS
from schedbench.runner.in_flight import InFlight
from schedbench.runner.record import FirstHalf
from schedbench.runner.waits import NOTHING_WAITED
from schedbench.sched.express_ahead import ExpressAhead
from schedbench.sched.output import PrefillGrant, SchedulerOutput
from schedbench.sched.request import RequestStatus
from schedbench.sched.verdicts import LIMIT_OF, Limit, Verdict

if TYPE_CHECKING:
    from schedbench.runner.express import ExpressReplay
    from schedbench.runner.express_ahead import Pending
    from schedbench.runner.record import Recorder
    from schedbench.runner.requests import Row
    from schedbench.sched.express import Express, Job
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

NO_EVICTION = (0, 0, 0, 0, 0, 0, Verdict.LIST_DONE.number)  # `EVICTION_FIELDS`, but for the place


def put_back(going: ExpressReplay, scheduler: Scheduler, recorder: Recorder) -> list[InFlight]:
    """Put the state where a scheduler and a recorder keep it; the pass in flight, if there is one.

    What is still to come begins at row `going.coming.row`.
    """
    express = going.express
    in_step = _settle_counts(express, recorder.last_end_ns)
    jobs = [*express.running, *express.waiting]
    facts = going.source.of_rows([job.row for job in jobs])
    made = {job: _request(job, *each) for job, each in zip(jobs, facts, strict=True)}
    for request in sorted(made.values(), key=lambda each: each.request_id):
        scheduler.requests[request.request_id] = request
    scheduler.kv_cache.pool = express.pool
    for job, request in made.items():
        request.block_table = express.named_table(job)
        request.block_ids = request.block_table.ids
        request.num_cached_blocks = job.num_hashed
        if job.identity is not None:
            request.identity = job.identity
    for job in express.running:
        request = made[job]
        request.status = RequestStatus.RUNNING
        if job in in_step:
            request.tag.last_pass = recorder.num_passes - 1
        scheduler.running.append(request)
    before = recorder.waits.mark()
    recorder.waits.advance(going.now_ns)
    now = recorder.waits.mark()
    for job in express.waiting:
        request = made[job]
        scheduler.queues.add(request)
        if job.preemptions:
            request.status = RequestStatus.PREEMPTED
        request.tag.queue_marks = before if job.entered_step < going.next_step else now
    if not isinstance(going, ExpressAheadReplay) or going.pending is None:
        return []
    in_flight = _in_flight(going, going.pending, made, recorder)
    scheduler.in_flight.append(in_flight.output)
    return [in_flight]


def _settle_counts(express: Express, last_end_ns: int) -> set[Job]:
    """Bring the counts of the jobs that decode up to the last fold; who got a token in that one."""
    if isinstance(express, ExpressAhead):
        express.settle()
        passes = {job: express.take_back(job) for job in express.in_flight()}
    else:
        decoding = [job for job in express.running if job not in express.prompts]
        passes = {job: express.part(job) for job in decoding}
    for job, num_passes in passes.items():
        if num_passes > 0:
            job.last_token_ns = last_end_ns
    return {job for job, num_passes in passes.items() if num_passes >= 0}


def _request(job: Job, row: Row, request: Request) -> Request:
    row.arrival_ns = request.arrival_time = job.arrival_ns
    request.num_tokens = job.num_tokens
    request.num_computed_tokens = job.computed
    request.num_output_placeholders = job.placeholders
    request.is_prefill_chunk = job.is_prefill_chunk
    request.num_preemptions = job.preemptions
    _follow(job, row)
    return request


def _follow(job: Job, row: Row) -> None:
    """What is known of a request's life so far."""
    packed = job.waited_ns
    row.waited_ns = list(NOTHING_WAITED if packed is None else array("q", packed))
    row.waited_ns[0] += job.entered_ns - row.arrival_ns
    if job.first_scheduled_ns >= 0:
        row.first_scheduled_ns, row.cached_tokens = job.first_scheduled_ns, job.cached_tokens
    if job.first_token_ns >= 0:
        row.first_token_ns, row.last_token_ns = job.first_token_ns, job.last_token_ns
    if job.itl_max_ns >= 0:
        row.itl_max_ns = job.itl_max_ns
    row.emitted_tokens = job.emitted
    row.resumed_cached_tokens = job.resumed_cached_tokens
    row.preemptions, row.preempted_tokens = job.preemptions, job.preempted_tokens


def _in_flight(
    going: ExpressAheadReplay, pending: Pending, made: dict[Job, Request], recorder: Recorder
) -> InFlight:
    """Make the pass in flight as if the plain loops had scheduled it.

    Who was scheduled in it in vain is gone, and nothing of it is left to be folded in.
    """
    limit = LIMIT_OF[pending.stop]
    if pending.cut and pending.stop is Verdict.QUEUES_EMPTY:
        limit = Limit.BUDGET
    prompts = {job: tokens for job, _, tokens in pending.prefills}
    in_order = [job for job in going.express.running if job.placeholders or job in prompts]
    scheduled = {made[job].request_id: prompts.get(job, 1) for job in in_order}
    done = {*pending.done, *(job for job in in_order if job not in prompts)}
    sampled = {made[job].request_id: 1 for job in in_order if job in done}
    budget = going.express.config.token_budget
    return InFlight(
        _output(pending, made, scheduled, budget, limit),
        _first_half(going, pending, made, recorder, limit),
        PassResult(pending.duration_ns),
        sampled,
        pending.scheduler_ns,
    )


def _output(
    pending: Pending,
    made: dict[Job, Request],
    scheduled: dict[str, int],
    token_budget: int,
    limit: Limit,
) -> SchedulerOutput:
    """What is still asked of the pass when it is folded in; the rest is in its first half."""
    return SchedulerOutput(
        num_scheduled_tokens=scheduled,
        scheduled_new_reqs=[],
        scheduled_resumed_reqs=[],
        scheduled_running_reqs=[],
        scheduled_spec_decode_tokens={},
        scheduled_encoder_inputs={},
        new_block_ids={},
        free_encoder_mm_hashes=[],
        finished_req_ids=set(),
        token_budget=token_budget,
        num_put_aside=0,
        prefills=[PrefillGrant(made[job], *rest) for job, *rest in pending.prefills],
        decode_tokens=pending.decodes,
        context_tokens=pending.context_tokens,
        victims=[],
        reset_victims=[],
        set_aside=[],
        lookups={},
        running_stop=Verdict.LIST_DONE,
        admission_stop=pending.stop,
        binding_limit=limit,
        admissions_cancelled=0,
        admissions_cancelled_fit=0,
        budget_stranded=0,
    )


def _first_half(
    going: ExpressAheadReplay,
    pending: Pending,
    made: dict[Job, Request],
    recorder: Recorder,
    limit: Limit,
) -> FirstHalf:
    """What was decided of the pass in flight, as the recorder keeps it."""
    count, thrown, cancelled, fit, stranded, freed, running_stop = pending.eviction or NO_EVICTION
    kinds = [kind for kind, *_ in iter_grants(pending.grants)]
    hit_tokens = sum(found for kind, *_, found in iter_grants(pending.grants) if kind == ADMITTED)
    grants = list(zip(pending.prefills, kinds, strict=True))
    prefill_tokens = sum(tokens for _, _, tokens in pending.prefills)
    query_tokens = sum(
        made[job].num_prompt_tokens for (job, *_), kind in grants if kind == ADMITTED
    )
    stops = (VERDICTS[running_stop].label, pending.stop.label)
    changes = pending.grants + victim_changes(pending.victims)
    return FirstHalf(
        start_ns=pending.start_ns,
        decided=(
            *(going.express.config.token_budget, pending.decodes + prefill_tokens),
            *(prefill_tokens, pending.decodes, 0, pending.context_tokens),
            pending.decodes + len(pending.prefills),
        ),
        queues=(
            *(pending.num_running, pending.num_waiting, 0, 0, 0),
            *(kinds.count(ADMITTED), kinds.count(RESUMED)),
        ),
        evictions=(
            *(count, 0, list(pending.victims), thrown, cancelled, fit, stranded),
            *(*stops, limit.value),
        ),
        prefix=(query_tokens, hit_tokens),
        blocks=(
            going.express.config.usable_blocks - pending.num_free,
            pending.num_free,
            pending.num_cached,
        ),
        freed_preempt=freed,
        decisions=recorder.digest.changed(changes, " ".join(stops)),
    )
