"""Writes a recording on a thread of its own: messages in, rows of the tables out.

    scheduler thread    put(message): a length, an append; a full queue drops and counts
    writer thread       every DRAIN_SECONDS: messages -> rows; every so often: rows -> files

Files are whole before they get their names, so that a crash loses what was not in one yet and
nothing before. Memory is bounded: by the queue, by the rows of a file, by the requests alive.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import multiprocessing.util
import os
import secrets
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from schedbench.errors import SchedbenchError
from schedbench.results.files import write_json, writing
from schedbench.results.part_writer import write_part
from schedbench.results.pass_log import SCHEMA_VERSION
from schedbench.results.recorded_log import ADDED_COLUMNS, ENDED_COLUMNS, RECORDED_PASS_COLUMNS
from schedbench.results.row_buffer import RowBuffer
from schedbench.results.run_store import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from schedbench.results.columns import Column
    from schedbench.runner.recording_settings import RecordingSettings

DRAIN_SECONDS = 0.1
ID_BYTES = 8
log = logging.getLogger("vllm.schedbench")  # below vLLM's own logger, so that its handlers show it


class Added(NamedTuple):
    """A request was given to the scheduler. Times in ns of the recording's clock."""

    row: int
    label: str
    added_ns: int
    arrival_ns: int
    prompt_tokens: int
    max_tokens: int
    priority: int
    client: int
    lora: int | None
    hashes: Sequence[bytes] | None


class Ended(NamedTuple):
    """The scheduler let go of a request."""

    row: int
    label: str
    end_ns: int
    output_tokens: int
    reason: str
    hashes: Sequence[bytes] | None


class Scheduled(NamedTuple):
    """First half of a pass. Lists are vLLM's own, taken and not changed any more.

    `number` counts passes. `new` has an entry an admission: label, tokens computed, known tokens.
    Victims: label, tokens thrown away; those of cache resets since the pass before apart. `blocks`:
    used, free and cached.
    """

    number: int
    start_ns: int
    token_budget: int
    num_tokens: Mapping[str, int]
    labels: Sequence[str]
    computed: Sequence[int]
    outputs: Sequence[int]
    resumed: frozenset[str] | set[str]
    new: Sequence[tuple[str, int, int]]
    drafts: Mapping[str, Sequence[int]]
    reset_victims: Sequence[tuple[str, int]]
    victims: Sequence[tuple[str, int]]
    queues: tuple[int, int, int]
    seats_held: int
    blocks_held: int | None
    num_admitted: int
    num_resumed: int
    blocks: tuple[int, int, int]
    freed_preempt: int
    prefix_query: int
    prefix_hit: int


class Folded(NamedTuple):
    """Second half of a pass."""

    number: int
    end_ns: int
    emitting: int
    finished: int
    finished_while_waiting: int
    aborted: int
    freed_finish: int
    ended: Sequence[Ended]


class Alive(NamedTuple):
    """Sent once after messages were dropped: whoever is not among these has ended unseen."""

    labels: frozenset[str]


Message = Added | Ended | Scheduled | Folded | Alive


@dataclass(slots=True)
class Live:
    """What the writer remembers of a request that the scheduler has."""

    row: int
    prompt_tokens: int
    is_prefill_chunk: bool = False
    cached_tokens: int | None = None
    first_token_ns: int | None = None


class RotatingTable:
    """A table in files of a bounded number of rows; `rotate` closes the one under way."""

    def __init__(self, folder: Path, columns: Sequence[Column], part_rows: int) -> None:
        self._folder = folder
        self._part_rows = part_rows
        self._batches: list[pa.RecordBatch] = []
        self._buffer = RowBuffer(columns, self._batches.append)
        self._in_part = 0
        self.parts = 0
        self.bytes_written = 0

    def append(self, row: tuple[object, ...]) -> None:
        self._buffer.append(row)
        self._in_part += 1
        if self._in_part >= self._part_rows:
            self.rotate()

    def rotate(self) -> None:
        """Write what there is to a file, if there is anything."""
        if not self._in_part:
            return
        self._buffer.flush()
        path = self._folder / f"part-{self.parts:06d}.parquet"
        write_part(path, pa.Table.from_batches(self._batches, schema=self._buffer.schema))
        self._batches.clear()
        self.parts += 1
        self.bytes_written += path.stat().st_size
        self._in_part = 0


class RecordingWriter:
    """One recording: its folder, its tables, its thread. `put` is for one thread only.

    Raises OutputError where the folder cannot be made. Later failures end the recording, never
    the server: they are logged once, and stand in the manifest if that can be written.
    """

    def __init__(self, settings: RecordingSettings, manifest: Mapping[str, Any], name: str) -> None:
        self.path = _new_folder(settings.folder, name)
        self._settings = settings
        self._manifest = dict(manifest)
        self._key = secrets.token_bytes(32)  # never written: ids cannot be traced back to prompts
        self._added = self._table("added", ADDED_COLUMNS)
        self._passes = self._table("passes", RECORDED_PASS_COLUMNS)
        self._ended = self._table("ended", ENDED_COLUMNS)
        self._queue: deque[Message] = deque()
        self._limit = settings.queue
        self._dropping = False
        self.dropped: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.facts: dict[str, Any] = {}  # of the scheduler's side, for the manifest
        self._live: dict[str, Live] = {}
        self._halves: deque[tuple[Scheduled, tuple[int, int, int], list[Live]]] = deque()
        self._held: deque[tuple[int, tuple[object, ...]]] = deque()
        self._newest_half = -1
        self._last_fold_ns = 0
        self._failure: str | None = None
        self._stop = threading.Event()
        self._closed = False
        self._pid = os.getpid()
        self._rotated_at = time.monotonic()
        self._write_manifest(complete=False)
        self._thread = threading.Thread(target=self._run, name="schedbench-recording", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        # vLLM's engine is a child of multiprocessing, which runs these and not atexit's.
        multiprocessing.util.Finalize(None, self.close, exitpriority=0)

    def _table(self, name: str, columns: Sequence[Column]) -> RotatingTable:
        folder = self.path / name
        with writing(folder):
            folder.mkdir()
        return RotatingTable(folder, columns, self._settings.part_rows)

    def put(self, message: Message, alive: Mapping[str, object]) -> None:
        """Hand a message over; where the queue is full it is dropped and counted.

        `alive` are the scheduler's requests, told anew after a loss.
        """
        if len(self._queue) >= self._limit:
            self._dropping = True
            self.dropped[type(message).__name__.lower()] += 1
            return
        if self._dropping:
            self._dropping = False
            self._queue.append(Alive(frozenset(alive)))
        self._queue.append(message)

    def close(self) -> None:
        """Write what is left and mark the recording as complete; a second call does nothing."""
        if self._closed or os.getpid() != self._pid:  # a fork has the parent's handlers
            return
        self._closed = True
        self._stop.set()
        self._thread.join()
        if self._failure is None:
            self._guarded(self._finish)
        if self._failure is not None:
            self._write_what_failed()

    def _finish(self) -> None:
        self._drain()
        self._rotate()
        self._write_manifest(complete=True)
        log.info("schedbench: recording complete in %s%s", self.path, self._told_drops())

    def _run(self) -> None:
        while not self._stop.wait(DRAIN_SECONDS):
            self._guarded(self._work)
            if self._failure is not None:
                return

    def _work(self) -> None:
        self._drain()
        if time.monotonic() - self._rotated_at >= self._settings.part_seconds:
            self._rotate()

    def _guarded(self, step: Any) -> None:  # noqa: ANN401 - a method of this class
        """Run a step; a failure ends the recording and leaves the server alone."""
        try:
            step()
        except (SchedbenchError, OSError, MemoryError, pa.ArrowException, KeyError) as error:
            self._failure = str(error)
            self._limit = 0
            self._queue.clear()
            log.exception("schedbench: recording in %s ends early", self.path)

    def _rotate(self) -> None:
        for table in (self._added, self._passes, self._ended):
            table.rotate()
        self._rotated_at = time.monotonic()
        limit = self._settings.max_bytes
        if limit and self.bytes_written >= limit and self._limit:
            self._limit = 0  # from here on all is dropped and counted
            self.facts["ended_at_limit"] = True
            log.warning("schedbench: %s has reached SCHEDBENCH_RECORD_MAX_MB and ends", self.path)
        self._write_manifest(complete=False)

    @property
    def bytes_written(self) -> int:
        """Of all files."""
        tables = (self._added, self._passes, self._ended)
        return sum(table.bytes_written for table in tables)

    def _write_manifest(self, *, complete: bool) -> None:
        recording = {
            **self._manifest["recording"],
            **self.facts,
            "passes": self.counts["passes"],
            "requests": self.counts["requests"],
            "dropped": dict(self.dropped),
            "last_ns": self._last_fold_ns,
            **({"failure": self._failure} if self._failure else {}),
        }
        head = {"schema_version": SCHEMA_VERSION, "complete": complete}
        write_json(self.path / MANIFEST, {**head, **self._manifest, "recording": recording})

    def _write_what_failed(self) -> None:
        try:
            self._write_manifest(complete=False)
        except SchedbenchError:
            log.warning("schedbench: %s: nor can its manifest be written", self.path)

    def _told_drops(self) -> str:
        lost = sum(self.dropped.values())
        return f"; {lost} messages were dropped: {dict(self.dropped)}" if lost else ""

    def _drain(self) -> None:
        queue = self._queue
        for _ in range(len(queue)):
            message = queue.popleft()
            match message:
                case Scheduled():
                    self._scheduled(message)
                case Folded():
                    self._folded(message)
                case Added():
                    self._add(message)
                case Ended():
                    self._end(message)
                case Alive():
                    self._live = {k: v for k, v in self._live.items() if k in message.labels}

    def _add(self, new: Added) -> None:
        self._live[new.label] = Live(new.row, new.prompt_tokens)
        self.counts["requests"] += 1
        label = new.label if self._settings.request_ids else None
        ids = self._ids(new.hashes)
        self._added.append((new.row, *new[2:9], label, ids))

    def _end(self, ended: Ended) -> None:
        live = self._live.pop(ended.label, None)
        first = cached = None
        if live is not None:
            first, cached = live.first_token_ns, live.cached_tokens
        self._ended.append(
            (
                *(ended.row, ended.end_ns, ended.output_tokens, ended.reason),
                *(first if ended.output_tokens else None, cached, self._ids(ended.hashes)),
            )
        )

    def _ids(self, hashes: Sequence[bytes] | None) -> list[int] | None:
        """Keyed with a secret that dies with the process: equal prefixes have equal ids, no more.

        Ids are 64 bits wide, so that among a thousand million blocks two share one by chance in
        3 of 100 recordings; an import sees that and refuses.
        """
        if hashes is None:
            return None
        digest, key = hashlib.blake2b, self._key
        return [
            int.from_bytes(digest(each, digest_size=ID_BYTES, key=key).digest(), "little")
            for each in hashes
        ]

    def _scheduled(self, half: Scheduled) -> None:
        prefill = decode = spec = 0
        context = sum(half.computed)
        emitting: list[Live] = []  # for the first time
        for label, computed, outputs in zip(half.labels, half.computed, half.outputs, strict=True):
            tokens = half.num_tokens[label]
            drafts = len(half.drafts[label]) if label in half.drafts else 0
            spec += drafts
            live = self._live.get(label)
            was_chunk = live is not None and live.is_prefill_chunk
            if was_chunk or tokens - drafts > 1 or label in half.resumed:
                prefill += tokens - drafts
            else:
                decode += 1
            if live is not None:
                live.is_prefill_chunk = computed + tokens < live.prompt_tokens + outputs
                if live.first_token_ns is None and not live.is_prefill_chunk:
                    emitting.append(live)
        for label, computed, known in half.new:
            tokens = half.num_tokens[label]
            drafts = len(half.drafts[label]) if label in half.drafts else 0
            spec += drafts
            context += computed
            prefill += tokens - drafts
            if (live := self._live.get(label)) is not None:
                if live.cached_tokens is None:
                    live.cached_tokens = computed
                live.is_prefill_chunk = computed + tokens < known
                if not live.is_prefill_chunk:
                    emitting.append(live)
        self._newest_half = half.number
        split = (prefill, decode, spec)
        lost = (*half.reset_victims, *half.victims)
        victims = [live.row for name, _ in lost if (live := self._live.get(name))]
        row = self._first_columns(half, split, context, victims)
        self._halves.append((half, row, emitting))

    @staticmethod
    def _first_columns(
        half: Scheduled, split: tuple[int, int, int], context: int, victims: list[int]
    ) -> Any:  # noqa: ANN401 - the two stretches of columns that the first half settles
        running, waiting, skipped = half.queues
        spent = sum(split)
        lost = (*half.reset_victims, *half.victims)
        num_victims = len(half.victims)
        closed = num_victims > 0
        before = (half.token_budget, spent, *split, context, len(half.num_tokens))
        after = (
            *(running, waiting, skipped, half.seats_held, half.blocks_held),
            *(half.num_admitted, half.num_resumed),
        )
        evictions = (
            *(len(lost), len(half.reset_victims), victims, sum(tokens for _, tokens in lost)),
            waiting + skipped - num_victims if closed else 0,
            None,
            half.token_budget - spent if closed else 0,
            *(None, None, None),
        )
        return before, after, evictions

    def _folded(self, fold: Folded) -> None:
        while self._halves and self._halves[0][0].number < fold.number:
            self._halves.popleft()  # its second half was dropped
        if self._halves and self._halves[0][0].number == fold.number:
            half, columns, emitting = self._halves.popleft()
            for live in emitting:
                if live.first_token_ns is None:
                    live.first_token_ns = fold.end_ns
            self._hold(half, columns, fold)
        for ended in fold.ended:
            self._end(ended)
        self._last_fold_ns = fold.end_ns

    def _hold(self, half: Scheduled, columns: Any, fold: Folded) -> None:  # noqa: ANN401
        """Keep the row until the passes scheduled before it ended are folded in too.

        They took blocks that the row counts, so that without them it could not be replayed.
        """
        before, after, evictions = columns
        row = (
            *(half.number, half.start_ns),
            fold.end_ns - max(half.start_ns, self._last_fold_ns),
            fold.end_ns,
            *before,
            fold.emitting,
            *after,
            *(fold.finished, fold.finished_while_waiting, fold.aborted),
            *evictions,
            *half.blocks,
            *(half.freed_preempt, fold.freed_finish, half.prefix_query, half.prefix_hit),
            None,
        )
        self._held.append((self._newest_half, row))
        while self._held and self._held[0][0] <= half.number:
            self._passes.append(self._held.popleft()[1])
            self.counts["passes"] += 1


def _new_folder(root: Path, name: str) -> Path:
    """`root/<UTC time>-<name>`; a number follows where that is taken."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with writing(root):
        root.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = root / (f"{stamp}-{name}" if number == 1 else f"{stamp}-{name}-{number}")
        with writing(path):
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    raise AssertionError
