"""The pass log of a golden scenario, and its columns recomputed from what the real class logged.

`pass_log_of` drives this project's scheduler and recorder through the scenario. `recomputed` knows
neither: it walks the log's rows in the order in which the driver made them,

    schedule i -> [pipeline full: update of the oldest] -> events -> [nothing to do: update] -> ...

and keeps, for each request, what the rows say of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from schedbench.results.memory_log import MemoryRun
from schedbench.runner.api import PassResult
from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_sched import SchedBackend, version_of
from schedbench.runner.golden_world import RemoteStore
from schedbench.runner.record import Recorder
from schedbench.runner.requests import Row as TraceRow
from schedbench.runner.waits import NOTHING_WAITED, WAIT_LABELS
from schedbench.sched.request import RequestStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from schedbench.runner.golden_backend import Emission, PassReport, Scheduled
    from schedbench.runner.golden_log import GoldenLog
    from schedbench.runner.record import FirstHalf
    from schedbench.sched.output import EngineCoreOutputs

Row = dict[str, Any]

NOT_IN_THE_LOG = {
    "running_stop": "vLLM's class does not say why a loop ended",
    "admission_stop": "vLLM's class does not say why a loop ended",
    "binding_limit": "vLLM's class does not say why a loop ended",
    "decisions": "a digest over verdicts, which vLLM's class does not have",
    "admissions_cancelled_fit": "a dry run: law 14 holds it to the loop itself",
    "kv_blocks_held_waiting": "block tables are not logged; 0 without loads and sessions",
    "kv_blocks_freed_preempt": "the class takes and gives back blocks in one call",
}
"""Columns that no log can give, each with its reason."""

ONLY_ALONE = {
    "kv_blocks_cached": "logged after the update, which then comes after the next `schedule()`"
}
"""Columns that a log gives with one pass in flight at a time only."""


class LoggedBackend(SchedBackend):
    """The scheduler under a scenario, with a recorder as a replay has it."""

    def __init__(self, log: GoldenLog, store: RemoteStore) -> None:
        super().__init__(log, store)
        self.sink = MemoryRun(WAIT_LABELS)
        self.recorder = Recorder(self.scheduler, self.sink.passes, self.sink.requests)
        self.driver: GoldenDriver | None = None
        self._halves: deque[tuple[FirstHalf, int]] = deque()
        self._rows: dict[str, TraceRow] = {}

    @property
    def now(self) -> int:
        assert self.driver is not None
        return self.driver._clock

    def add_request(self, request: Row) -> None:
        request_id = request["id"]
        session = self.scheduler.requests.get(request_id)
        super().add_request(request)
        if session is None:
            row = TraceRow(
                len(self._rows),
                request_id,
                arrival_ns=request["arrival"],
                added_ns=request["arrival"],
                prompt_tokens=sum(length for _, length in request["prompt"]),
                output_tokens=request["max_tokens"],
                max_tokens=request["max_tokens"],
            )
            row.waited_ns = list(NOTHING_WAITED)
            self._rows[request_id] = self.scheduler.requests[request_id].tag = row
            self.recorder.arrived(row, self.now)
        elif session.is_finished:
            self.recorder.closed(session, self.now)

    def schedule(self, *, throttle_prefills: bool) -> Scheduled:
        scheduled = super().schedule(throttle_prefills=throttle_prefills)
        half = self.recorder.scheduled(scheduled.output, self.now)
        self._halves.append((half, sum(scheduled.tokens.values())))
        return scheduled

    def update(self, scheduled: Scheduled, report: PassReport) -> list[Emission]:
        outputs: list[EngineCoreOutputs] = []
        update = self.scheduler.update_from_output

        def noted(*args: Any) -> EngineCoreOutputs:  # noqa: ANN401 - whatever it is given
            outputs.append(update(*args))
            return outputs[0]

        with patch.object(self.scheduler, "update_from_output", noted):
            emissions = super().update(scheduled, report)
        half, tokens = self._halves.popleft()
        assert self.driver is not None
        self.recorder.folded(half, PassResult(self.driver._cost(tokens)), outputs[0], self.now)
        return emissions

    def finish_requests(self, request_ids: Sequence[str]) -> None:
        ended = self.scheduler.finish_requests(request_ids, RequestStatus.FINISHED_ABORTED)
        self.recorder.aborted(ended, self.now)

    def reset_prefix_cache(self, *, preempt: bool) -> None:
        super().reset_prefix_cache(preempt=preempt)
        self.recorder.evicted(self.scheduler.reset_victims)


def pass_log_of(log: GoldenLog) -> list[Row]:
    """The rows that a replay of the scenario would write; times in the log's clock."""
    store = RemoteStore(log.config.get("hold_frees"))
    backend = LoggedBackend(log, store)
    backend.driver = GoldenDriver(log, backend, store)
    for _ in backend.driver.passes():
        pass
    backend.recorder.flush()
    rows: list[Row] = backend.sink.passes.table().to_pylist()
    return rows


@dataclass
class Seen:
    """What a request's rows have said of it so far."""

    computed: int | None = 0  # None: a failed load cut it back, and no row says to where
    scheduled_in: int = -1
    is_evicted: bool = False
    is_hidden: bool = False  # a reset dropped what was in flight, so that no row says what came
    is_alive: bool = True


@dataclass
class Walk:
    """One walk over a log; `found` has a row a pass, None where the log cannot say."""

    log: GoldenLog
    seen: dict[str, Seen] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)  # numbers in order of arrival
    found: list[Row] = field(default_factory=list)
    clock: int = 0
    paused: str = "UNPAUSED"
    aborted: int = 0  # since the update before
    frees_apart: bool = False  # an abort freed blocks that no row counts apart
    free: int = 0  # blocks, when a row said so last
    is_doubled: bool = False  # a session was queued twice

    def __post_init__(self) -> None:
        config = self.log.config
        self.depth = config["pipeline_depth"] or (2 if config["async_scheduling"] else 1)
        self.has_sessions = any("resumable" in each for each in self.log.requests)
        self.has_transfers = bool(config["kv_connector"])
        events = self.log.header.get("events", ())
        self.loads_fail = any(each["op"].startswith("kv_") for each in events)
        self.has_drafts = bool(config["num_speculative_tokens"])
        self.is_0_26 = version_of(self.log) == "0.26.0"
        self.aborted_in = {
            (each, event["pass"]) for event in events for each in event.get("ids", ())
        }
        self.free = config["num_gpu_blocks"] - 1
        for request in sorted(self.log.requests, key=lambda each: each["arrival"]):
            self.rows.setdefault(request["id"], len(self.rows))
            self.seen.setdefault(request["id"], Seen())

    def run(self) -> list[Row]:
        passes = [row for row in self.log.passes if "ends" not in row]  # the engine ended there
        in_flight = deque[int]()
        for index, row in enumerate(passes):
            self._act(index, "before_schedule")
            while in_flight and self.clock < row["clock"]:
                self._update(in_flight.popleft())
            self.clock = row["clock"]
            self.found.append(self._schedule(row))
            in_flight.append(index)
            if len(in_flight) == self.depth:
                self._update(in_flight.popleft())
        while in_flight:
            self._update(in_flight.popleft())
        return self.found

    def _act(self, index: int, when: str) -> None:
        for event in self.log.header.get("events", ()):
            if event["pass"] != index or event.get("when", "before_schedule") != when:
                continue
            if event["op"] == "pause":
                self.paused = event["state"]
            elif event["op"] == "abort":
                self._abort(event["ids"], when)

    def _abort(self, request_ids: Sequence[str], when: str) -> None:
        for request_id in request_ids:
            arrived = any(
                each["id"] == request_id and each["arrival"] <= self.clock
                for each in self.log.requests
            )
            if arrived and self.seen[request_id].is_alive:
                self.seen[request_id].is_alive = False
                self.aborted += 1
                self.frees_apart |= when == "before_schedule"

    def _schedule(self, row: Row) -> Row:
        reset, preempted = row.get("evicted_before", []), row["preempted"]
        thrown = [self._evict(each) for each in (*reset, *preempted)]
        for each in reset:
            self.seen[each].is_hidden = self.is_0_26 and self.depth > 1
        admitted = [*row["new"], *row["resumed"]]
        for request_id, computed in zip(admitted, row["computed"], strict=True):
            self.seen[request_id].computed = computed
            self.seen[request_id].is_evicted = False
        drafts = row.get("spec", {})
        kinds = [
            self._is_prefill(request_id, tokens - drafts.get(request_id, 0), admitted)
            for request_id, tokens in zip(row["ids"], row["tok"], strict=True)
        ]
        known = [
            tokens - drafts.get(request_id, 0)
            for request_id, tokens in zip(row["ids"], row["tok"], strict=True)
        ]
        context = [self.seen[request_id].computed for request_id in row["ids"]]
        usable = self.log.config["num_gpu_blocks"] - 1
        goes_on = self.paused == "UNPAUSED" or (self.paused == "PAUSED_NEW" and not self.is_0_26)
        closed = bool(preempted) and goes_on
        found = {
            "pass": row["i"],
            "start_ns": row["clock"],
            "token_budget": row["budget"],
            "tokens_scheduled": row["spent"],
            "prefill_tokens": _sum_where(known, kinds, chosen=True),
            "decode_tokens": _sum_where(known, kinds, chosen=False),
            "spec_tokens": sum(drafts.values()),
            "context_tokens": None if None in context else sum(context),
            "requests_scheduled": len(row["ids"]),
            **dict(zip(("running", "waiting", "skipped_waiting"), row["q1"], strict=True)),
            "seats_held_by_sessions": self._seats_held(row),
            "kv_blocks_held_waiting": None if self.has_transfers or self.has_sessions else 0,
            "admitted": len(row["new"]),
            "resumed": len(row["resumed"]),
            "preempted": len(thrown),
            "preempted_by_reset": len(reset),
            "victims": [self.rows[each] for each in (*reset, *preempted)],
            "preempted_tokens": None if None in thrown else sum(thrown),
            "admissions_cancelled": sum(row["q1"][1:]) - len(preempted) if closed else 0,
            "budget_stranded": self._stranded(row) if closed else 0,
            "kv_blocks_used": usable - row["free1"],
            "kv_blocks_free": row["free1"],
            "kv_blocks_cached": self._cached(row),
            "prefix_query_tokens": self._queried(row),
            "prefix_hit_tokens": sum(row["hit"][: len(row["new"])]),
        }
        for request_id, tokens in zip(row["ids"], row["tok"], strict=True):
            seen = self.seen[request_id]
            seen.scheduled_in = row["i"]
            seen.computed = None if seen.computed is None else seen.computed + tokens
        self.free = row["free1"]
        return found

    def _evict(self, request_id: str) -> int | None:
        seen = self.seen[request_id]
        thrown, seen.computed, seen.is_evicted = seen.computed, 0, True
        return thrown

    def _is_prefill(self, request_id: str, known: int, admitted: Sequence[str]) -> bool | None:
        """A grant that is an admission, of several known tokens, or that follows a chunk.

        A chunk emits nothing; nor does a request that was aborted meanwhile, or whose load failed.
        """
        before = self.seen[request_id].scheduled_in
        if request_id in admitted or known > 1:
            return True
        if request_id in self.log.passes[before]["emit"]:
            return False
        if self.seen[request_id].is_hidden or self.is_doubled:
            return None
        return None if self.loads_fail or (request_id, before) in self.aborted_in else True

    def _seats_held(self, row: Row) -> int | None:
        if "skip1" not in row:
            return None
        skipped = {name for name, _ in row["skip1"]}
        queued = [*row["wait2"], *(name for name, _ in row["skip2"])]
        self.is_doubled |= len({*queued}) < len(queued) or bool(skipped.intersection(row["ids"]))
        if self.is_doubled:
            return None  # a session was queued twice, and the class counts it twice from there on
        return sum(status == "WAITING_FOR_STREAMING_REQ" for _, status in row["skip1"])

    def _stranded(self, row: Row) -> int | None:
        """With a budget of rows as well, what is left is that of the smaller one."""
        if self.has_drafts and not self.is_0_26:
            return None
        return row["budget"] - row["spent"]

    def _cached(self, row: Row) -> int | None:
        """Logged after the update, which hashes and forgets blocks where more than tokens come."""
        if self.depth > 1 or self.has_transfers or self.has_sessions or self.has_drafts:
            return None
        return row.get("cached2")

    def _queried(self, row: Row) -> int | None:
        """Prompts of first admissions; those loaded before and those of sessions ask no more."""
        if self.has_transfers or self.has_sessions:
            return None
        prompts = {each["id"]: each["prompt"] for each in self.log.requests}
        return sum(length for name in row["new"] for _, length in prompts[name])

    def _update(self, index: int) -> None:
        row, found = self.log.passes[index], self.found[index]
        duration = self._cost(row["spent"])
        self.clock += duration
        self._act(index, "before_update")
        finished = row["finished"]
        apart = self.frees_apart or self.has_sessions  # a session may end between two passes
        found |= {
            "duration_ns": duration,
            "end_ns": self.clock,
            "requests_emitting": len(row["emit"]),
            "finished": None if self.has_sessions else len(finished),
            "finished_while_waiting": None
            if self.has_sessions
            else sum(self.seen[each].is_evicted for each in finished if each in row["emit"]),
            "aborted": self.aborted,
            "kv_blocks_freed_finish": None if apart else row["free2"] - self.free,
        }
        self.aborted, self.frees_apart, self.free = 0, False, row["free2"]
        if not self.has_sessions:
            for request_id in finished:
                self.seen[request_id].is_alive = False
        for request_id, drafts in row.get("spec", {}).items():
            self._reject(request_id, drafts, row)
        if self.loads_fail:
            for request_id in self.seen:
                self.seen[request_id].computed = None

    def _reject(self, request_id: str, drafts: int, row: Row) -> None:
        seen = self.seen[request_id]
        if request_id in row["emit"] and seen.computed:
            seen.computed -= drafts + 1 - row.get("sampled", {}).get(request_id, 1)

    def _cost(self, num_tokens: int) -> int:
        spec = self.log.header["clock"]
        if spec["mode"] == "pass":
            return 1
        return int(spec["base_us"] + spec["per_token_us"] * num_tokens)


def _sum_where(values: Sequence[int], marks: Sequence[bool | None], *, chosen: bool) -> int | None:
    if None in marks:
        return None
    return sum(value for value, mark in zip(values, marks, strict=True) if mark is chosen)


def recomputed(log: GoldenLog) -> list[Row]:
    """The columns of the pass log by the log's own facts; None where they do not settle one."""
    return Walk(log).run()


def differences(log: GoldenLog) -> Iterator[tuple[str, str]]:
    """Column and what is wrong with it."""
    for ours, theirs in zip(pass_log_of(log), recomputed(log), strict=True):
        for name, value in theirs.items():
            if value is not None and ours[name] != value:
                yield name, f"pass {ours['pass']}: {ours[name]} in the pass log, {value} recomputed"
