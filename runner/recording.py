"""What a recording scheduler notes while it decides: stamps, counts, and who came and went.

This is all that runs on the server's critical path. Nothing here may fail a pass: a fault ends the
recording and is logged. Nothing of vLLM is imported; its objects are only read.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from schedbench.runner.recording_writer import Added, Ended, Folded, RecordingWriter, Scheduled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from schedbench.runner.recording_settings import RecordingSettings

NO_DRAFTS: Mapping[str, Any] = {}
REASONS = {
    "FINISHED_STOPPED": "stop",
    "FINISHED_REPETITION": "stop",
    "FINISHED_LENGTH_CAPPED": "length",
    "FINISHED_ABORTED": "abort",
    "FINISHED_IGNORED": "error",
    "FINISHED_ERROR": "error",
}
log = logging.getLogger("vllm.schedbench")


def _never_fails(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a fault in the method end the recording and nothing else."""

    @functools.wraps(method)
    def guarded(self: Recording, *args: Any) -> Any:  # noqa: ANN401
        if not self.is_on:
            return None
        try:
            return method(self, *args)
        except Exception:
            self.is_on = False
            log.exception("schedbench: recording stops; the server goes on")
            self.writer.facts["stopped"] = f"a fault in {method.__name__}"
            return None

    return guarded


class Recording:
    """Between a scheduler and the writer's thread. Times are ns of the recording's clock.

    `scheduler` is vLLM's, of which only attributes and methods of its interface are read.
    """

    def __init__(
        self,
        scheduler: Any,  # noqa: ANN401 - vLLM's
        settings: RecordingSettings,
        manifest: Mapping[str, Any],
        name: str,
    ) -> None:
        self.is_on = True
        self.writer = RecordingWriter(settings, manifest, name)
        self._scheduler = scheduler
        self._pool = scheduler.kv_cache_manager.block_pool
        self._usable = self._pool.num_gpu_blocks - 1
        self._wall_ns = time.time_ns() - time.monotonic_ns()
        self._zero_ns: int | None = None
        self._last_ns = 0
        self._live: dict[str, tuple[int, int, int]] = {}  # label -> row, prompt's blocks, arrival
        self._by_arrival = str(manifest["scheduler"].get("policy")) == "priority"
        self._arrivals: Counter[int] = Counter()  # of those alive, where their order matters
        self._num_rows = 0
        self._num_passes = 0
        self._in_flight: deque[tuple[Any, int]] = deque()
        self._evicted: set[str] = set()  # and not running again yet
        self._victims: list[tuple[str, int]] = []  # of the pass under way
        self._reset_victims: list[tuple[str, int]] = []  # since the pass before
        self._lookups: dict[str, int] = {}
        self._schedules = False  # inside schedule(), inside update_from_output()
        self._update_ns: int | None = None
        self._ended: list[Ended] = []
        self._ended_waiting = self._errors = self._aborted = 0
        self._freed_preempt = self._freed_finish = 0
        self._cached = CountedBlocks(self._pool)
        self.untold: Counter[str] = Counter()
        self.writer.facts["not_in_trace"] = self.untold

    def close(self) -> None:
        self.writer.close()

    def _stamp(self) -> int:
        """A time that no other event has, so that order follows from times."""
        now = time.monotonic_ns() - (self._zero_ns or 0)
        self._last_ns = now if now > self._last_ns else self._last_ns + 1
        return self._last_ns

    @_never_fails
    def added(self, request: Any) -> None:  # noqa: ANN401
        """Note a request that the scheduler did not have."""
        arrival_ns = round(request.arrival_time * 1e9) - self._wall_ns
        if self._zero_ns is None:
            self._zero_ns = min(arrival_ns, time.monotonic_ns())
            self.writer.facts["epoch_ns"] = self._zero_ns + self._wall_ns
        added_ns = self._stamp()
        arrival_ns -= self._zero_ns
        if arrival_ns > added_ns:
            self.untold["arrivals after the scheduler had them, by a clock that was set"] += 1
            arrival_ns = added_ns
        hashes = self._prompt_hashes(request)
        row, self._num_rows = self._num_rows, self._num_rows + 1
        self._live[request.request_id] = (row, len(hashes or ()), arrival_ns)
        if self._by_arrival:
            self._note_ties(arrival_ns)
        lora = request.lora_request
        self._note_what_is_untold(request)
        self._put(
            Added(
                row,
                request.request_id,
                added_ns,
                arrival_ns,
                request.num_prompt_tokens,
                request.max_tokens,
                request.priority,
                request.client_index,
                None if lora is None else lora.lora_int_id,
                hashes,
            )
        )

    def _note_ties(self, arrival_ns: int) -> None:
        """Of equal priority and arrival, vLLM puts the smaller id first; the trace, the row."""
        if arrival_ns in self._arrivals:
            self.untold["requests that arrived at the instant of another, told apart by id"] += 1
        self._arrivals[arrival_ns] += 1

    def _forget_arrival(self, arrival_ns: int) -> None:
        self._arrivals[arrival_ns] -= 1
        if not self._arrivals[arrival_ns]:
            del self._arrivals[arrival_ns]

    def _prompt_hashes(self, request: Any) -> list[bytes] | None:  # noqa: ANN401
        """Hashes of the prompt's full blocks; None where there are none or not all."""
        hashes = list(request.block_hashes)
        full = request.num_prompt_tokens // self._scheduler.hash_block_size
        if len(hashes) == full and hashes:
            return hashes
        if hashes:
            self.untold["requests whose prefix hashes end early"] += 1
            return None
        return [] if self._scheduler.cache_config.enable_prefix_caching and not full else None

    def _note_what_is_untold(self, request: Any) -> None:  # noqa: ANN401
        if request.mm_features:
            self.untold["requests with multi-modal inputs"] += 1
        if request.structured_output_request is not None:
            self.untold["requests with structured output"] += 1
        if request.resumable:
            self.untold["requests with streaming input"] += 1
        if request.skip_reading_prefix_cache:
            self.untold["requests that do not read the prefix cache"] += 1

    @_never_fails
    def looked_up(self, request: Any, num_hit_tokens: int) -> None:  # noqa: ANN401
        self._lookups[request.request_id] = num_hit_tokens

    @_never_fails
    def evicts(self, request: Any) -> int:  # noqa: ANN401
        """Note an eviction about to happen; returns the free blocks before it."""
        victims = self._victims if self._schedules else self._reset_victims
        victims.append((request.request_id, request.num_computed_tokens))
        self._evicted.add(request.request_id)
        return int(self._pool.get_num_free_blocks())

    @_never_fails
    def evicted(self, free_before: int | None) -> None:
        if free_before is not None:
            self._freed_preempt += self._pool.get_num_free_blocks() - free_before

    @_never_fails
    def lets_go(self, request: Any) -> int:  # noqa: ANN401
        """Note a request that is over; returns the free blocks before its own are freed."""
        label = request.request_id
        row, num_prompt_hashes, arrival_ns = self._live.pop(label, (None, 0, 0))
        if self._by_arrival and row is not None:
            self._forget_arrival(arrival_ns)
        was_evicted = label in self._evicted
        self._evicted.discard(label)
        if row is None:
            return int(self._pool.get_num_free_blocks())
        reason = REASONS[request.status.name]
        inside = self._update_ns is not None
        end_ns = self._update_ns if self._update_ns is not None else self._stamp()
        hashes = request.block_hashes[num_prompt_hashes:]
        ended = Ended(row, label, end_ns, request.num_output_tokens, reason, hashes or None)
        if inside:
            self._ended.append(ended)
            self._ended_waiting += was_evicted
            self._errors += reason == "error"
        else:
            self._aborted += 1
            self._put(ended)
        return int(self._pool.get_num_free_blocks())

    @_never_fails
    def let_go(self, free_before: int | None) -> None:
        if free_before is not None:
            self._freed_finish += self._pool.get_num_free_blocks() - free_before

    @_never_fails
    def schedule_begins(self) -> int:
        self._victims = []
        self._lookups.clear()
        self._schedules = True
        return self._stamp()

    @_never_fails
    def schedule_ends(self, output: Any, start_ns: int | None) -> None:  # noqa: ANN401
        """Note what a pass decided."""
        self._schedules = False
        if start_ns is None:
            return
        index, self._num_passes = self._num_passes, self._num_passes + 1
        self._in_flight.append((output, index))
        scheduler, cached = self._scheduler, output.scheduled_cached_reqs
        resumed = self._running_again(output.num_scheduled_tokens)
        new = [
            (data.req_id, data.num_computed_tokens, _known_tokens(data))
            for data in output.scheduled_new_reqs
        ]
        first = [label for label, _, _ in new if label not in resumed]
        lookups = self._lookups
        freed, self._freed_preempt = self._freed_preempt, 0
        reset_victims, self._reset_victims = self._reset_victims, []
        free = int(self._pool.get_num_free_blocks())
        self._put(
            Scheduled(
                index,
                start_ns,
                _budget(scheduler),
                output.num_scheduled_tokens,
                cached.req_ids,
                cached.num_computed_tokens,
                cached.num_output_tokens,
                resumed,
                new,
                output.scheduled_spec_decode_tokens or NO_DRAFTS,
                reset_victims,
                self._victims,
                _queue_lengths(scheduler),
                scheduler.num_waiting_for_streaming_input,
                self._blocks_held(),
                len(first),
                len(resumed),
                (self._usable - free, free, self._cached.count()),
                freed,
                sum(self._prompt_tokens(label) for label in first if label in lookups),
                sum(lookups.get(label, 0) for label in first),
            )
        )

    def _running_again(self, scheduled: Mapping[str, int]) -> set[str]:
        if not self._evicted:
            return set()
        resumed = {label for label in self._evicted if label in scheduled}
        self._evicted -= resumed
        return resumed

    def _prompt_tokens(self, label: str) -> int:
        return int(self._scheduler.requests[label].num_prompt_tokens)

    def _blocks_held(self) -> int | None:
        scheduler = self._scheduler
        if scheduler.connector is not None or scheduler.num_waiting_for_streaming_input:
            return None
        return 0

    @_never_fails
    def update_begins(self) -> None:
        self._ended = []
        self._ended_waiting = self._errors = 0
        self._update_ns = self._stamp()

    @_never_fails
    def update_ends(self, output: Any, outputs: Mapping[int, Any]) -> None:  # noqa: ANN401
        """Note what came of a pass."""
        update_ns, self._update_ns = self._update_ns, None
        if not self._in_flight or self._in_flight[0][0] is not output:
            return  # a pass that only told the workers who had finished
        index = self._in_flight.popleft()[1]
        emitting = sum(len(each.outputs) for each in outputs.values())
        aborted, self._aborted = self._aborted, 0
        freed, self._freed_finish = self._freed_finish, 0
        assert update_ns is not None
        self._put(
            Folded(
                index,
                update_ns,
                emitting - self._errors,
                len(self._ended),
                self._ended_waiting,
                aborted,
                freed,
                self._ended,
            )
        )

    def _put(self, message: Added | Ended | Scheduled | Folded) -> None:
        self.writer.put(message, self._live)


class CountedBlocks:
    """How many blocks carry a hash, kept by watching vLLM's map from hashes to blocks.

    A walk over the pool would tell the same and cost as much as the pass. The map is replaced when
    the cache is reset, and then watched anew.
    """

    def __init__(self, pool: Any) -> None:  # noqa: ANN401 - vLLM's
        self._pool = pool
        self._watched: Any = None
        self.count()

    def count(self) -> int:
        """Blocks that carry a hash now."""
        found = self._pool.cached_block_hash_to_block
        if found is not self._watched:
            self._watched = found
            base: Any = type(found)
            found.__class__ = _counting(base)
            found.num_blocks = sum(block.block_hash is not None for block in self._pool.blocks)
        return int(found.num_blocks)


@functools.cache
def _counting(base: Any) -> type:  # noqa: ANN401 - vLLM's class
    """Give a map from hashes to blocks a count of its blocks."""

    class Counting(base):  # type: ignore[misc]
        num_blocks: int

        def insert(self, key: Any, block: Any) -> None:  # noqa: ANN401
            super().insert(key, block)
            self.num_blocks += 1

        def pop(self, key: Any, block_id: int) -> Any:  # noqa: ANN401
            found = super().pop(key, block_id)
            self.num_blocks -= found is not None
            return found

    return Counting


def _known_tokens(data: Any) -> int:  # noqa: ANN401 - vLLM's NewRequestData
    """Prompt, and the output of one that was evicted, where the runner has those sent anew."""
    known = getattr(data, "prefill_token_ids", None)
    if known is None:
        known = data.prompt_token_ids
    return len(known) if known is not None else len(data.prompt_embeds)


def _budget(scheduler: Any) -> int:  # noqa: ANN401
    paused = scheduler.pause_state.name == "PAUSED_ALL"
    return 0 if paused else int(scheduler.max_num_scheduled_tokens)


def _queue_lengths(scheduler: Any) -> tuple[int, int, int]:  # noqa: ANN401
    """Running, waiting, set aside; releases differ in where those stand that are set aside."""
    running, waiting = len(scheduler.running), len(scheduler.waiting)
    if hasattr(scheduler, "skipped_waiting"):
        return running, waiting, len(scheduler.skipped_waiting)
    deferred = len(scheduler.deferred_waiting)
    return running, waiting + len(scheduler.kv_holding_waiting) - deferred, deferred
