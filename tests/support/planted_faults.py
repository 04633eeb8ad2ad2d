"""Faults of one line each, planted in the scheduler one at a time, to see that they are found."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from schedbench.sched import (
    admission_loop,
    async_mode,
    encoder_cache,
    fold,
    kv_connector,
    lora,
    running_loop,
    spec_decode,
    token_demand,
)
from schedbench.sched.kv_cache.free_queue import FreeBlockQueue
from schedbench.sched.kv_cache.manager import KVCacheManager
from schedbench.sched.one_queue import OneQueue
from schedbench.sched.skipped_first import SkippedFirst

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Fault:
    """`make` turns the function `name` of `owner` into a faulty one.

    `features` are those of random cases that it shows in; `log` is a golden log that it breaks.
    """

    says: str
    owner: Any  # several, where each release has its own
    name: str
    make: Callable[[Callable[..., Any]], Callable[..., Any]]
    log: str
    features: frozenset[str]

    @contextmanager
    def planted(self) -> Iterator[None]:
        owners = self.owner if isinstance(self.owner, tuple) else (self.owner,)
        with ExitStack() as patches:
            for owner in owners:
                faulty = self.make(getattr(owner, self.name))
                patches.enter_context(patch.object(owner, self.name, faulty))
            yield


def _first_victim(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda scheduler, _pass, _request: scheduler.running[0]


def _always_headroom(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda scheduler, _pass, _request: scheduler.config.watermark_blocks


def _no_position_limit(_right: Callable[..., Any]) -> Callable[..., Any]:
    def of_running(request: Any, this_pass: Any, _config: Any) -> int:  # noqa: ANN401
        known = request.num_tokens + request.num_spec_tokens + request.num_output_placeholders
        wanted = known - request.num_computed_tokens
        if 0 < this_pass.threshold < wanted:
            wanted = this_pass.threshold
        return int(min(wanted, this_pass.token_budget))

    return of_running


def _chunks_all(_right: Callable[..., Any]) -> Callable[..., Any]:
    def of_waiting(wanted: int, this_pass: Any, _config: Any) -> int:  # noqa: ANN401
        if 0 < this_pass.threshold < wanted:
            wanted = this_pass.threshold
        return int(min(wanted, this_pass.token_budget))

    return of_waiting


def _free_seats(right: Callable[..., Any]) -> Callable[..., Any]:
    def limit_reached(scheduler: Any, this_pass: Any) -> Any:  # noqa: ANN401
        with patch.object(scheduler, "num_waiting_for_streaming_input", 0):
            return right(scheduler, this_pass)

    return limit_reached


def _index_stays(right: Callable[..., Any]) -> Callable[..., Any]:
    def evict(scheduler: Any, this_pass: Any, victim: Any, index: int) -> int:  # noqa: ANN401
        right(scheduler, this_pass, victim, index)
        return index

    return evict


def _to_the_back(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda queues, request: queues.add(request)


def _always(value: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda _right: lambda *_args, **_kwargs: value


def _any_encoder_budget(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda cache, request, chunk, _budget, config: right(
        cache, request, chunk, 1 << 30, config
    )


def _one_hit_less(right: Callable[..., Any]) -> Callable[..., Any]:
    def get_computed_blocks(manager: Any, request: Any) -> Any:  # noqa: ANN401
        hit = right(manager, request)
        if hit:
            hit.drop_last()
        return hit

    return get_computed_blocks


def _from_the_front(right: Callable[..., Any]) -> Callable[..., Any]:
    def append(queue: Any, table: Any, spans: Any) -> Any:  # noqa: ANN401
        for low, high in spans:
            for index in range(low, high):
                right(queue, table, [(index, index + 1)])

    return append


def _one_token_late(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda request, max_model_len: right(request, max_model_len + 1)


PRESSED: Final = frozenset({"pressure", "no_full_isl"})
FAULTS: Final = (
    Fault(
        "the first one running is evicted, not the last",
        running_loop,
        "pick_victim",
        _first_victim,
        "preempt_fcfs.0",
        PRESSED,
    ),
    Fault(
        "the running loop does not step back after an eviction",
        running_loop,
        "evict",
        _index_stays,
        "unwind_budget.0",
        PRESSED | {"priority"},
    ),
    Fault(
        "a victim goes to the back of the queue",
        (SkippedFirst, OneQueue),
        "add_evicted",
        _to_the_back,
        "preempt_many.0",
        PRESSED,
    ),
    Fault(
        "the watermark is forgotten",
        admission_loop,
        "headroom_blocks",
        _always(0),
        "watermark.0",
        PRESSED | {"watermark"},
    ),
    Fault(
        "the watermark holds while nothing is running",
        admission_loop,
        "headroom_blocks",
        _always_headroom,
        "watermark_edges.0",
        PRESSED | {"watermark"},
    ),
    Fault(
        "drafts run past max_model_len",
        token_demand,
        "of_running",
        _no_position_limit,
        "fuzz.0",
        frozenset({"speculation"}),
    ),
    Fault(
        "prompts are chunked although chunked prefill is off",
        token_demand,
        "of_waiting",
        _chunks_all,
        "no_chunking.0",
        frozenset({"no_chunking"}),
    ),
    Fault(
        "a session waiting for input keeps no seat",
        admission_loop,
        "limit_reached",
        _free_seats,
        "streaming.0",
        frozenset({"streaming"}),
    ),
    Fault(
        "adapters are not counted",
        lora,
        "slots_full",
        _always(value=False),
        "lora.0",
        frozenset({"lora"}),
    ),
    Fault(
        "a request whose cap is in flight is scheduled once more",
        async_mode,
        "cap_is_in_flight",
        _always(value=False),
        "async_basic.0",
        frozenset({"async"}),
    ),
    Fault(
        "one-token admissions are not padded with drafts",
        spec_decode,
        "padding",
        _always(0),
        "spec_pad.0",
        frozenset({"speculation", "async", "prefix", "remote_kv"}),
    ),
    Fault(
        "a load may take what unfinished prefills need",
        kv_connector,
        "reserved_blocks",
        _always(0),
        "remote_kv_reservation.0",
        frozenset({"remote_kv", "pressure"}),
    ),
    Fault(
        "the encoder has no budget",
        encoder_cache,
        "fit_inputs",
        _any_encoder_budget,
        "encoder.0",
        frozenset({"encoder"}),
    ),
    Fault(
        "the last block of a prefix hit is computed again",
        KVCacheManager,
        "get_computed_blocks",
        _one_hit_less,
        "prefix_shared.0",
        frozenset({"prefix"}),
    ),
    Fault(
        "freed blocks are used again from the front",
        FreeBlockQueue,
        "append",
        _from_the_front,
        "prefix_evict.0",
        frozenset({"prefix", "pressure"}),
    ),
    Fault(
        "a request stops one token after max_model_len",
        fold,
        "stop_status",
        _one_token_late,
        "model_len_stop.0",
        frozenset({"budget"}),
    ),
)
