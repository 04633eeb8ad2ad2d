"""Runs a golden scenario against a scheduler and yields its pass rows.

    arrivals -> events -> schedule -> [pipeline full: oldest pass] -> update -> drafts

Where the scheduler ends the engine, the last row says so: `ends` names how, `i` and `during` say
where, and `open` holds the first halves of the passes in flight.

The clock is integer: one tick a pass, or microseconds with a linear cost. The first half
of a row is taken after schedule(), the second after the update of the same pass, so with
several passes in flight it shows the queues as later passes left them.
"""

import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from schedbench.errors import EngineEndsError
from schedbench.runner.golden_backend import Backend, Emission, PassReport, Scheduled
from schedbench.runner.golden_log import GoldenLog, Row
from schedbench.runner.golden_world import GrammarCompiler, Model, RemoteStore

MAX_CACHED_POOL_BLOCKS = 4096  # larger pools are not searched for hashed blocks
DEFAULT_MAX_IDLE = 200
REPORTED_EVENTS = ("kv_invalid", "kv_failed")  # part of what the workers report of a pass
Event = Row


@dataclass(slots=True)
class InFlight:
    """A pass that was scheduled and not yet updated; `row` holds its first half."""

    row: Row
    scheduled: Scheduled
    sampled: dict[str, int]


class GoldenDriver:
    """One run of one scenario; `stats` is complete when `passes()` is exhausted."""

    def __init__(self, log: GoldenLog, backend: Backend, store: RemoteStore) -> None:
        header, config = log.header, log.config
        self.stats: Row = dict.fromkeys(
            ("added", "end_clock", "max_running", "max_waiting"), 0
        ) | dict.fromkeys(("passes", "preemptions", "running_sum", "tokens"), 0)
        self._backend, self._store = backend, store
        self._model = Model(config["num_speculative_tokens"])
        self._grammars = GrammarCompiler()
        self._clock_spec = header["clock"]
        self._depth = config["pipeline_depth"] or (2 if config["async_scheduling"] else 1)
        self._takes_drafts = (
            bool(config["num_speculative_tokens"]) and not config["async_scheduling"]
        )
        self._throttle_interval = config["throttle_interval"]
        self._logs_cached = config["num_gpu_blocks"] <= MAX_CACHED_POOL_BLOCKS
        self._logs_queues = log.has_queue_contents
        self._max_idle = header.get("max_idle", DEFAULT_MAX_IDLE)
        self._max_passes = header.get("max_passes")
        self._flushes = header.get("flush_pass", False)
        self._arrivals = deque(sorted(log.requests, key=lambda row: row["arrival"]))
        self._events: list[Event] = list(header.get("events", ()))
        self._in_flight: deque[InFlight] = deque()
        self._clock = self._index = self._num_idle = 0
        self._during = ""  # what the scheduler is asked to do
        self._skips_dead_inputs = header.get("skips_dead_inputs", False)
        self._logs_tables = header.get("block_tables", False)
        self._ids: dict[str, None] = {}  # of requests, in the order in which they came

    def passes(self) -> Iterator[Row]:
        try:
            yield from self._passes()
        except EngineEndsError as ended:
            still_open = [in_flight.row for in_flight in self._in_flight]
            where = {"i": self._index, "during": self._during, "open": still_open}
            yield {"ends": ended.ending} | where
            self._close_stats()

    def _passes(self) -> Iterator[Row]:
        while self._index != self._max_passes and self._num_idle <= self._max_idle:
            self._add_arrivals()
            self._act_on_events(self._index, "before_schedule")
            if self._has_work():
                self._in_flight.append(self._schedule())
                if len(self._in_flight) == self._depth:
                    yield self._update()
            elif self._in_flight:
                yield self._update()
            elif self._arrivals:
                self._clock = self._arrivals[0]["arrival"]
            else:
                break
        while self._in_flight:
            yield self._update()
        self._close_stats()

    def _has_work(self) -> bool:
        if self._backend.num_unfinished() or self._events:
            return True
        return bool(self._flushes and self._backend.has_finished_to_report())

    def _close_stats(self) -> None:
        self.stats["end_clock"] = self._clock
        self.stats["passes"] = self._index
        if self._num_idle > self._max_idle:
            self.stats["stuck"] = self._backend.num_unfinished()
        self.stats = dict(sorted(self.stats.items()))

    def _add_arrivals(self) -> None:
        while self._arrivals and self._arrivals[0]["arrival"] <= self._clock:
            request = self._arrivals.popleft()
            if self._is_dead(request["id"]):
                continue
            self._during = "arrival"
            self._ids[request["id"]] = None
            self._model.add_request(request)
            self._store.add_request(request)
            self._grammars.add_request(request, self._index)
            self._backend.add_request(request)
            self.stats["added"] += 1

    def _is_dead(self, request_id: str) -> bool:
        """Whether it is the next input of a session that has ended: no client sends that."""
        known = self._skips_dead_inputs and request_id in self._ids
        return known and not self._backend.is_live(request_id)

    def _act_on_events(self, index: int, when: str) -> None:
        due = [
            event
            for event in self._events
            if event["pass"] == index
            and event["op"] not in REPORTED_EVENTS
            and event.get("when", "before_schedule") == when
        ]
        for event in due:
            self._events.remove(event)
            self._act_on(event)

    def _act_on(self, event: Event) -> None:
        self._during = "event"
        match event["op"]:
            case "abort":
                for request_id in event["ids"]:
                    self._backend.finish_requests([request_id])
            case "pause":
                self._backend.set_pause_state(event["state"])
            case "reset_prefix_cache":
                self._backend.reset_prefix_cache(preempt=event.get("preempt", False))
            case op:
                raise ValueError(f"unknown event {op!r}")

    def _schedule(self) -> InFlight:
        for request_id, failed in self._grammars.take_ready(self._index):
            self._backend.compile_grammar(request_id, failed=failed)
        self._store.now = self._index
        evicted_before = self._backend.take_evictions()
        self._backend.take_lookups()
        self._during = "schedule"
        throttled = self._index % self._throttle_interval != 0
        scheduled = self._backend.schedule(throttle_prefills=throttled)
        row = self._first_half(scheduled, evicted_before)
        self._count(row)
        self._index += 1
        return InFlight(row, scheduled, self._model.sample(scheduled))

    def _first_half(self, scheduled: Scheduled, evicted_before: list[str]) -> Row:
        backend = self._backend
        admitted = scheduled.new + scheduled.resumed
        lookups = backend.take_lookups()
        row: Row = {
            "i": self._index,
            "clock": self._clock,
            "budget": backend.token_budget,
            "spent": sum(scheduled.tokens.values()),
            "ids": list(scheduled.tokens),
            "tok": list(scheduled.tokens.values()),
            "new": scheduled.new,
            "resumed": scheduled.resumed,
            "computed": [scheduled.computed[request_id] for request_id in admitted],
            "preempted": backend.take_evictions(),
            "q1": backend.queue_lengths(),
            "free1": backend.num_free_blocks(),
            "hit": [lookups.pop(request_id, 0) for request_id in admitted],
        }
        optional = {
            "probed": [list(lookup) for lookup in lookups.items()],
            "evicted_before": evicted_before,
            "spec": scheduled.drafts,
            "enc": scheduled.encoder_inputs,
            "enc_freed": scheduled.encoder_freed,
        }
        row |= {column: value for column, value in optional.items() if value}
        return row | self._queues(1)

    def _tables(self) -> int:
        """The block tables of all requests, as one number."""
        tables = ((name, self._backend.block_ids(name)) for name in self._ids)
        text = ";".join(f"{name}:{ids}" for name, ids in tables if ids)
        return zlib.crc32(text.encode())

    def _count(self, row: Row) -> None:
        running, num_waiting = row["q1"][0], self._backend.num_waiting()
        self.stats["max_running"] = max(self.stats["max_running"], running)
        self.stats["max_waiting"] = max(self.stats["max_waiting"], num_waiting)
        self.stats["preemptions"] += len(row["preempted"])
        self.stats["running_sum"] += running
        self.stats["tokens"] += row["spent"]
        self._num_idle = 0 if row["spent"] else self._num_idle + 1

    def _update(self) -> Row:
        in_flight = self._in_flight[0]
        row, index = in_flight.row, in_flight.row["i"]
        self._clock += self._cost(row["spent"])
        self._act_on_events(index, "before_update")
        report = self._report(in_flight, index)
        self._during = "update"
        emissions = self._backend.update(in_flight.scheduled, report)
        self._in_flight.popleft()
        row |= self._second_half(emissions)
        if self._takes_drafts and row["spent"]:
            self._backend.set_drafts(self._model.propose(in_flight.scheduled))
        return row

    def _report(self, in_flight: InFlight, index: int) -> PassReport:
        failures = [event for event in self._events if event["pass"] == index]
        self._events = [event for event in self._events if event["pass"] != index]
        return PassReport(
            in_flight.sampled,
            loaded=self._store.take_loaded(index),
            sent=self._store.take_sent(index),
            invalid_blocks=[
                block
                for event in failures
                if event["op"] == "kv_invalid"
                for block in self._backend.block_ids(event["id"])[event["block"] :][:1]
            ],
            failed_loads=[event["id"] for event in failures if event["op"] == "kv_failed"],
        )

    def _cost(self, num_tokens: int) -> int:
        if self._clock_spec["mode"] == "pass":
            return 1
        spec = self._clock_spec
        cost: int = spec["base_us"] + spec["per_token_us"] * num_tokens
        return cost

    def _second_half(self, emissions: list[Emission]) -> Row:
        backend = self._backend
        row: Row = {}
        sampled = {e.request_id: e.num_tokens for e in emissions if e.num_tokens != 1}
        finished = [e for e in emissions if e.finish_reason is not None]
        reasons = [e.finish_reason for e in finished]
        if sampled:
            row["sampled"] = sampled
        row["emit"] = [e.request_id for e in emissions if e.num_tokens]
        row["finished"] = [e.request_id for e in finished]
        if any(reason != "length" for reason in reasons):
            row["reason"] = reasons
        row["q2"] = backend.queue_lengths()
        row["free2"] = backend.num_free_blocks()
        if self._logs_cached:
            row["cached2"] = backend.num_cached_blocks()
        if self._logs_tables:
            row["tables"] = self._tables()
        return row | self._queues(2)

    def _queues(self, half: int) -> Row:
        if not self._logs_queues:
            return {}
        contents = self._backend.queue_contents()
        row: Row = {f"wait{half}": contents.waiting, f"skip{half}": contents.skipped}
        if half == 2:  # noqa: PLR2004
            ids = ",".join(map(str, self._backend.free_queue()))
            row["freeq2"] = zlib.crc32(ids.encode())
        if contents.holding:
            row[f"hold{half}"] = contents.holding
        return row
