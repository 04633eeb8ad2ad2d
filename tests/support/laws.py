"""The laws of docs/invariants.md that can be read off a scheduler or a pass, by number.

Each is a function that yields what breaks it, in words; nothing is yielded while it holds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from schedbench.sched.kv_cache.block_pool import Row
from schedbench.sched.kv_cache.block_table import PLACE_BITS
from schedbench.sched.request import RequestStatus
from schedbench.sched.scheduler import PauseState
from schedbench.sched.verdicts import LIMIT_OF, Kind, Limit, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from schedbench.sched.kv_cache.block_table import BlockTable, Stretch
    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

Complaints = "Iterator[str]"


class LawBrokenError(AssertionError):
    """A law does not hold; the message begins with its number."""


def one_collection(scheduler: Scheduler) -> Iterator[str]:
    where: dict[Request, list[str]] = defaultdict(list)
    for name, members in _collections(scheduler).items():
        for request in members:
            where[request].append(name)
            if scheduler.requests.get(request.request_id) is not request:
                yield f"{request} is in {name} and not in requests"
    set_aside = set(scheduler.queues.split()[1])
    for request in scheduler.requests.values():
        places, status = where[request], request.status
        if (
            len(places) != (not request.is_finished)
            or ("running" in places) != (status is RequestStatus.RUNNING)
            or (request.is_blocked and request not in set_aside)
        ):
            yield f"{request} is in {places}"
    if scheduler.queues._aside:
        yield "a request is still set aside between two passes"


def seats(scheduler: Scheduler) -> Iterator[str]:
    paused = sum(
        request.status is RequestStatus.WAITING_FOR_STREAMING_REQ
        for request in scheduler.requests.values()
    )
    if paused != scheduler.num_waiting_for_streaming_input:
        yield f"{paused} sessions wait, {scheduler.num_waiting_for_streaming_input} are counted"
    if len(scheduler.running) + paused > scheduler.config.max_num_seqs:
        yield f"{len(scheduler.running)} run and {paused} sessions wait for input"


def blocks(scheduler: Scheduler) -> Iterator[str]:
    pool = scheduler.kv_cache.pool
    free, held = list(pool.free_queue), set[int]()
    for table in _tables(scheduler):
        if len(set(table.ids)) < len(table.ids):
            yield f"a table holds a block twice: {table.ids}"
        held |= set(table.ids)
    if len(set(free)) < len(free):
        yield f"the free queue holds a block twice: {free}"
    if both := held & set(free):
        yield f"blocks {both} are held and free"
    if held | set(free) != set(range(1, pool.num_gpu_blocks)):
        yield f"free {free} and held {held} are not all blocks but the null block"
    if pool.num_free != len(free):
        yield f"{pool.num_free} free blocks are counted, {len(free)} are queued"
    for request in scheduler.requests.values():
        yield from _owned(scheduler, request)
        yield from _in_its_table(request)


def _owned(scheduler: Scheduler, request: Request) -> Iterator[str]:
    room = len(request.block_ids) * scheduler.config.block_size
    if request.num_computed_tokens > room and not request.is_finished:
        yield f"{request} has room for {room} tokens"
    was_evicted = request.status is RequestStatus.PREEMPTED and scheduler.transfers is None
    if was_evicted and (request.block_ids or request.num_computed_tokens):
        yield f"{request} was evicted and holds {request.block_ids}"


def _in_its_table(request: Request) -> Iterator[str]:
    table = request.block_table
    if table is None:
        if request.block_ids:
            yield f"the blocks of {request} are in no table"
        return
    if table.ids is not request.block_ids:
        yield f"the blocks of {request} are not those of its table"
    if table.num_named != request.num_cached_blocks:
        yield f"{request}: {request.num_cached_blocks} hashed blocks, its table: {table.num_named}"
    if table.num_borrowed != sum(length for _, _, length in table.borrowed):
        yield f"{request} has borrowed {table.num_borrowed} blocks: {table.borrowed}"


def reference_counts(scheduler: Scheduler) -> Iterator[str]:
    """Of own blocks: one of the table that took it, if it is held, and those of others."""
    holders = Counter(block_id for table in _tables(scheduler) for block_id in table.ids)
    for table in _known_tables(scheduler):
        for index in range(table.num_borrowed, len(table.ids)):
            told = table.num_references(index)
            if (table.is_held or told) and told != holders[table.ids[index]]:
                yield f"block {table.ids[index]} counts {told} references, tables: {holders}"
    for table in _tables(scheduler):
        for index in range(table.num_borrowed):
            owner, at = table.owner(index)
            if owner.ids[at] != table.ids[index] or not owner.holds.count(at):
                yield f"block {table.ids[index]} is borrowed, its owner has {owner.ids[at]}"


def hashes(scheduler: Scheduler) -> Iterator[str]:
    pool = scheduler.kv_cache.pool
    carried = dict(_named_blocks(scheduler))
    names = [key << PLACE_BITS | at for key, row in pool._rows.items() for at in _places(row)]
    runs = [(run, name) for name in names for run in pool.carriers(name)]
    found = [(table.ids[first], name) for (table, first, _), name in runs]
    if dict(found) != carried or len(found) != len(carried):
        yield f"blocks carry {carried}, a lookup finds {found}"
    if pool.num_cached != len(carried):
        yield f"{pool.num_cached} cached blocks are counted, {len(carried)} carry a hash"
    if not all(_places(row) for row in pool._rows.values()):
        yield f"a key is kept that no block has: {pool._rows}"
    bare = [block_id for block_id in pool.free_queue if block_id not in carried]
    if bare != list(islice(pool.free_queue, pool.num_bare)):
        yield f"free blocks without a hash are {bare}, {pool.num_bare} are in front"
    if carried and not scheduler.config.enable_prefix_caching:
        yield "there are hashes without prefix caching"
    for request in scheduler.requests.values():
        for index in range(request.num_cached_blocks if not request.is_finished else 0):
            if carried.get(request.block_ids[index]) != request.identity.block_hash(index):
                yield f"block {index} of {request} does not carry the name of its content"


def _named_blocks(scheduler: Scheduler) -> Iterator[tuple[int, int]]:
    """Blocks with their names, as the tables know them."""
    for table in _known_tables(scheduler):
        held = range(table.num_borrowed, table.num_named) if table.is_held else _lent(table)
        queued = [i for segment in table.segments for span in segment.spans for i in range(*span)]
        for index in {*held, *queued}.intersection(range(table.num_named)) - table.forgotten:
            (stretch,) = table.stretches(index, index + 1)
            yield table.ids[index], stretch.name + index - stretch.first


def _places(row: Stretch | Row) -> range:
    return range(len(row) if isinstance(row, Row) else row.num_cached)


def encoder_cache(scheduler: Scheduler) -> Iterator[str]:
    cache = scheduler.encoder_cache
    sizes = dict(cache._freeable)
    for identifier, users in cache._users.items():
        if bool(users) == (identifier in cache._freeable):
            yield f"{identifier} has users {users}, and is freeable: {not users}"
        for request_id in users:
            items = scheduler.requests[request_id].encoder_inputs
            mine = [items[index] for index in cache._items[request_id]]
            sizes |= {item.identifier: item.num_embeds for item in mine}
    if sizes.keys() != cache._users.keys():
        yield f"entries {cache._users.keys()}, known {sizes.keys()}"
    size = scheduler.config.encoder_cache_embeds
    if not 0 <= cache.num_free == size - sum(sizes.values()):
        yield f"{cache.num_free} of {size} embeddings are free beside {sizes}"
    if cache.num_freeable != cache.num_free + sum(cache._freeable.values()):
        yield f"{cache.num_freeable} embeddings count as freeable"


def budget(scheduler: Scheduler, output: SchedulerOutput) -> Iterator[str]:
    tokens = output.num_scheduled_tokens
    spent = output.total_num_scheduled_tokens
    if spent > output.token_budget:
        yield f"{spent} tokens spent of {output.token_budget}"
    if any(count < 1 for count in tokens.values()):
        yield f"somebody is scheduled without tokens: {tokens}"
    lone = scheduler.config.behaviour.threshold_lone and len(scheduler.requests) == 1
    if not lone and 0 < scheduler.config.threshold < max(tokens.values(), default=0):
        yield f"a request has more tokens than the threshold: {tokens}"
    parts = sum(grant.num_new_tokens for grant in output.prefills), output.decode_tokens
    if spent != sum(parts) + sum(output.scheduled_spec_decode_tokens.values()):
        yield f"prefill and decode tokens {parts} and drafts are not the {spent} spent"
    if output.decode_tokens != len(tokens) - len(output.prefills):
        yield f"{output.decode_tokens} decode tokens, scheduled {tokens}, {output.prefills}"
    loras = {scheduler.requests[each].lora_id for each in tokens} - {0}
    if scheduler.config.max_loras is not None and len(loras) > scheduler.config.max_loras:
        yield f"adapters {loras} run together"


def order(scheduler: Scheduler, output: SchedulerOutput) -> Iterator[str]:
    scheduled = list(output.num_scheduled_tokens)
    running = [request.request_id for request in scheduler.running]
    if scheduled != [request_id for request_id in running if request_id in scheduled]:
        yield f"scheduled {scheduled}, running {running}"
    granted = [
        *output.scheduled_running_reqs,
        *output.scheduled_new_reqs,
        *output.scheduled_resumed_reqs,
    ]
    if sorted(request.request_id for request in granted) != sorted(scheduled):
        yield f"granted {granted}, scheduled {scheduled}"


def verdicts(scheduler: Scheduler, output: SchedulerOutput) -> Iterator[str]:
    """Each stop is true to its name."""
    left = _left(scheduler, output, output.num_scheduled_tokens)
    paused = scheduler.pause_state
    queued = len(scheduler.queues)
    seats_taken = len(scheduler.running) + scheduler.num_waiting_for_streaming_input
    facts = {
        Verdict.QUEUES_EMPTY: queued == len(output.set_aside),
        Verdict.BUDGET_SPENT: left == 0 and queued > len(output.set_aside),
        Verdict.SEATS_FULL: seats_taken >= scheduler.config.max_num_seqs,
        Verdict.PAUSED_ALL: paused is PauseState.PAUSED_ALL and output.token_budget == 0,
        Verdict.PAUSED_NEW: paused is PauseState.PAUSED_NEW,
        Verdict.CLOSED_BY_PREEMPTION: bool(output.victims) and paused is not PauseState.PAUSED_ALL,
    }
    stop = output.admission_stop
    if stop.kind is not Kind.STOP:
        yield f"{stop} ended admission and is no stop"
    if not facts.get(stop, queued > len(output.set_aside)):
        yield f"{stop} ended admission with {left} tokens left, {queued} queued, {paused}"
    if output.victims and stop not in (Verdict.CLOSED_BY_PREEMPTION, Verdict.PAUSED_NEW):
        yield f"{stop} ended admission after an eviction"
    if any(verdict.kind is not Kind.ASIDE for _, verdict in output.set_aside):
        yield f"set aside: {output.set_aside}"
    yield from _running_stop(scheduler, output)
    yield from _binding_limit(scheduler, output)


def _running_stop(scheduler: Scheduler, output: SchedulerOutput) -> Iterator[str]:
    stop = output.running_stop
    evicted = {victim.request for victim in output.victims}
    if evicted & set(scheduler.running) and stop is Verdict.PREEMPTED_SELF:
        yield f"{evicted} were evicted and run"
    if stop is Verdict.PREEMPTED_SELF and not evicted:
        yield "a request evicted itself, and there are no victims"
    granted = [request.request_id for request in output.scheduled_running_reqs]
    if stop is Verdict.BUDGET_SPENT and _left(scheduler, output, granted):
        yield f"the running loop ended on its budget having granted to {granted} only"


def _binding_limit(scheduler: Scheduler, output: SchedulerOutput) -> Iterator[str]:
    expected = LIMIT_OF[output.admission_stop]
    if output.victims:
        expected = Limit.KV_BLOCKS
    elif expected is Limit.NOTHING and output.binding_limit is Limit.BUDGET:
        expected = Limit.BUDGET  # the last running request was cut by what was left
        if _left(scheduler, output, output.num_scheduled_tokens):
            yield "the budget bound and was not spent"
    elif expected is Limit.NOTHING and output.binding_limit is Limit.ENCODER:
        expected = Limit.ENCODER  # no room for an item of a request that was in turn
        if not any(request.encoder_inputs for request in scheduler.requests.values()):
            yield "the encoder bound and there is nothing to encode"
    if output.binding_limit is not expected:
        yield f"{output.binding_limit} bound a pass that {output.admission_stop} ended"


def cancelled(scheduler: Scheduler, output: SchedulerOutput) -> Iterator[str]:
    """What a preemption that closed the admission loop cost."""
    told = (output.admissions_cancelled, output.admissions_cancelled_fit, output.budget_stranded)
    if output.admission_stop is not Verdict.CLOSED_BY_PREEMPTION:
        if told != (0, 0, 0):
            yield f"admissions cancelled, fitting, budget stranded are {told} on an open pass"
        return
    left = _left(scheduler, output, output.num_scheduled_tokens)
    if told[0] != len(scheduler.queues) - len(output.victims) or told[2] != left:
        yield f"{told}: {len(scheduler.queues)} queued, {left} tokens left"
    if not 0 <= told[1] <= told[0]:
        yield f"{told[1]} of {told[0]} cancelled admissions would fit"


def _left(scheduler: Scheduler, output: SchedulerOutput, granted: Collection[str]) -> int:
    """Budget for the next request, after these; 0.33.0 has a second budget, of rows."""
    config = scheduler.config
    spent = sum(output.num_scheduled_tokens[request_id] for request_id in granted)
    left = output.token_budget - spent
    if config.input_budget is not None:
        rows = config.draft_rows * (len(granted) + 1)
        left = min(left, config.input_budget - spent - rows)
    return max(left, 0)


def _collections(scheduler: Scheduler) -> dict[str, list[Request]]:
    """Where a live request can be: 0.33.0 has another second queue than 0.26.0."""
    queues = scheduler.queues
    second = "skipped_waiting" if hasattr(queues, "skipped_waiting") else "kv_holding_waiting"
    return {
        "running": list(scheduler.running),
        "waiting": list(queues.waiting),
        second: list(getattr(queues, second)),
    }


def _lent(table: BlockTable) -> list[int]:
    """Indices of own blocks that other tables hold."""
    own = range(table.num_borrowed, len(table.ids))
    return [index for index in own if table.holds.count(index)]


def _tables(scheduler: Scheduler) -> Iterator[BlockTable]:
    """All that hold blocks: those of requests, and frees put off."""
    for request in scheduler.requests.values():
        if request.block_table is not None:
            yield request.block_table
    if scheduler.transfers is not None:
        yield from (table for _, table in scheduler.transfers.deferred)


def _known_tables(scheduler: Scheduler) -> set[BlockTable]:
    """Those, and tables that were given back of which something is cached or held."""
    held = set(_tables(scheduler))
    lenders = {owner for table in held for owner, _, _ in table.borrowed}
    return held | lenders | {segment.table for segment in scheduler.kv_cache.pool.free_queue.back}


STATE_LAWS: dict[int, Callable[[Scheduler], Iterator[str]]] = {
    1: one_collection,
    4: seats,
    5: blocks,
    6: reference_counts,
    7: hashes,
    8: encoder_cache,
}
PASS_LAWS: dict[int, Callable[[Scheduler, SchedulerOutput], Iterator[str]]] = {
    2: budget,
    3: order,
    13: verdicts,
    14: cancelled,
}


def hold_to_state_laws(scheduler: Scheduler) -> None:
    for number, law in STATE_LAWS.items():
        for complaint in law(scheduler):
            raise LawBrokenError(f"law {number}, {law.__name__}: {complaint}")


def hold_to_pass_laws(scheduler: Scheduler, output: SchedulerOutput) -> None:
    for number, law in PASS_LAWS.items():
        for complaint in law(scheduler, output):
            raise LawBrokenError(f"law {number}, {law.__name__}: {complaint}")
