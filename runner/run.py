"""One replay from trace and flags to stored results: what `schedbench.replay` and the CLI call."""

from __future__ import annotations

import dataclasses
import gc
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from schedbench.errors import EngineEndsError, StallError
from schedbench.results.memory_log import MemoryRun
from schedbench.results.metrics import summarize
from schedbench.results.parts import whole
from schedbench.results.pass_log import PASS_COLUMNS, request_columns
from schedbench.results.run_store import RunFolder
from schedbench.results.run_tables import RunTables, tables_of
from schedbench.results.untold import REAL_CLASS, UntoldLog
from schedbench.results.warnings import warn
from schedbench.runner.api import TellsNotes
from schedbench.runner.arrivals import AllAtOnce, ArrivalMode, Arrivals, ClosedLoop, OpenLoop
from schedbench.runner.deployment import DEFAULT_COST, Deployment
from schedbench.runner.draft_terms import draft_terms
from schedbench.runner.events import of_rows, told_of_aborts
from schedbench.runner.express import COVERED, PREFIXES, ExpressReplay
from schedbench.runner.express_ahead import ExpressAheadReplay
from schedbench.runner.following import replay_class
from schedbench.runner.manifest import make_manifest
from schedbench.runner.outputs_file import OutputsFile
from schedbench.runner.plugins import OWN_SCHEDULER, blaming, load_policy, load_scheduler
from schedbench.runner.preflight import fit_prompts, told_of_prompts
from schedbench.runner.record import Recorder
from schedbench.runner.requests import PREFIX_IDENTITY, RequestSource
from schedbench.runner.stall_pause import dated
from schedbench.runner.timing_rows import TimingRows
from schedbench.runner.trace_model import TraceModel
from schedbench.runner.vllm_scheduler import VllmScheduler, refuse_what_it_cannot
from schedbench.runner.vllm_terms import installed_release
from schedbench.runner.waits import WAIT_LABELS
from schedbench.runner.world import World
from schedbench.sched.express import covers
from schedbench.sched.scheduler import Scheduler
from schedbench.workloads.too_long import TooLong
from schedbench.workloads.trace import Trace
from schedbench.workloads.transform import parse_speedup, scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from schedbench.results.row_buffer import Log
    from schedbench.runner.api import Runner
    from schedbench.runner.events import Event
    from schedbench.runner.replay import Progress, Replay
    from schedbench.sched.config import SchedulerConfig

COLLECT_AFTER_OBJECTS = 200_000
QUICK, SLOW = 512, 16  # passes between two calls of a progress: predicted ones, executed ones
__all__ = ["DEFAULT_COST", "ReplayOptions", "Run", "replay"]
DEFAULT_ACCEPTANCE = 0.7
DEFAULT_KV_ROLE: Literal["kv_both"] = "kv_both"  # where a trace has remote KV and no role is given


class EnoughError(Exception):
    """Raised by a `progress` that has seen enough: the replay ends there, with what it has."""


@dataclass(frozen=True)
class ReplayOptions:
    """How a trace is replayed, apart from the scheduler's flags. Times in ns.

    `deployment` says how long passes take, unless a runner is handed over, and what the flags are
    that depend on model and GPU, unless a configuration is.
    """

    deployment: Deployment = field(default_factory=Deployment)
    speedup: str = "1"
    arrivals: ArrivalMode = "open"
    think_ns: int | None = None
    too_long: TooLong = TooLong.ERROR
    warmup_ns: int = 0
    slo_ns: Mapping[str, int] | None = None
    events: Sequence[Event] = ()
    spec_acceptance: float = (
        DEFAULT_ACCEPTANCE  # chance that a draft is accepted, where the trace is silent
    )
    seed: int = 0  # of those draws
    short_way: bool = True  # off: look at every decode in every pass; the rows are the same
    scheduler: str = OWN_SCHEDULER  # or vllm, or module:Class
    policy_class: str | None = None  # module:Class
    outputs: Path | None = None  # where to write what leaves the engine
    request_events: Path | None = None
    assumed: Sequence[str] = ()  # flags nobody gave, whose defaults are guesses about the server
    command_line: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """A finished replay: its numbers, its tables, and where they are stored (None: in memory)."""

    summary: dict[str, Any]
    manifest: dict[str, Any]
    warnings: list[str]
    tables: RunTables = field(repr=False)
    path: Path | None = None

    def __repr__(self) -> str:
        """One line; the numbers are in `summary`."""
        told = self.summary
        return (
            f"<Run of {told['requests']:,} requests, {told['requests_finished']:,} finished, "
            f"{told['passes']:,} passes, {self.manifest['release']}, "
            f"{'in memory' if self.path is None else f'in {self.path}'}>"
        )

    @property
    def passes(self) -> pa.Table:
        """The pass log, one row a pass."""
        return whole(self.tables.passes)

    @property
    def requests(self) -> pa.Table:
        """One row a request."""
        return whole(self.tables.requests)

    @property
    def itl(self) -> pa.Table:
        """Gaps between tokens, each length once."""
        return whole(self.tables.itl)


def replay(
    trace: Trace | object,
    config: SchedulerConfig | None = None,
    runner: Runner | None = None,
    *,
    options: ReplayOptions | None = None,
    out: Path | None = None,
    store: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Replay a trace through the scheduler and return what came of it.

    Args:
        trace: the requests, as `load_trace` gives them, or a table of them (pandas, Arrow, a
            mapping of columns) with the names of docs/trace-format.md.
        config: the scheduler's flags, by vLLM's names; those of `options.deployment` if left out.
        runner: what says how long a pass takes; that of `options.deployment` if left out, which
            is the profile, or else the roofline, of Llama-3.1-8B on an H100.
        options: arrivals, speed-up, what to do with prompts that cannot fit.
        out: the run folder to write; must not exist or be empty.
        store: write a run folder under `runs/` when `out` is not given.
        progress: called every few hundred passes, or few where each is executed; raises
            EnoughError to end it.

    Raises:
        TraceError, UsageError: the input breaks a rule; nothing was run.
        StallError: no request can ever be scheduled again; what was recorded is kept.
        EngineEndsError: vLLM's own engine would end there; the same.
        OutputError: the run folder cannot be written.
    """
    trace = Trace.of(trace)
    options = options or ReplayOptions()
    config = config or options.deployment.config()
    source = options.deployment if runner is None else None
    runner = runner or options.deployment.make_runner()
    config.refuse_what_the_engine_refuses()
    config = with_kv_role(trace, config)
    prepared = prepare(trace, config, options)
    events = of_rows(options.events, prepared)
    make_scheduler = _scheduler_maker(prepared, config, runner, options)
    info = runner.open(config)
    with closing(runner), OutputsFile.of(options.outputs, options.request_events) as outputs:
        manifest = make_manifest(trace, prepared, config, options, info, source)
        with _sink(trace, manifest, out, store=store) as sink:
            world = World(block_size=config.block_size, has_remote_kv=config.kv_role is not None)
            scheduler = make_scheduler(world, outputs)
            recorder = _recorder(scheduler, sink, options)
            express = None
            if may_go_express(prepared, scheduler, runner, options):
                logs = (sink.passes, sink.timings, sink.requests)
                kind = ExpressAheadReplay if config.runs_ahead else ExpressReplay
                express = kind(
                    prepared,
                    config,
                    runner,
                    recorder,
                    logs,
                    make_source(prepared, config),
                    arrivals=options.arrivals,
                    think_ns=options.think_ns,
                )
            replaying = replay_class(runner, prepared)(
                scheduler=scheduler,
                arrivals=OpenLoop(())
                if express
                else make_arrivals(
                    prepared, config, options, keep_ids=options.scheduler == REAL_CLASS
                ),
                express=express,
                world=world,
                model=TraceModel(
                    config.num_speculative_tokens, options.spec_acceptance, options.seed
                ),
                runner=runner,
                recorder=recorder,
                timings=TimingRows(sink.timings),
                outputs=outputs,
                short_way=options.short_way and options.scheduler != REAL_CLASS,
                events=events,
                progress=progress,
                progress_every=SLOW if info.source == "measured" else QUICK,
            )
            stalled = _run(replaying, options, sink)
            told = runner.notes() if isinstance(runner, TellsNotes) else []
            notes = list(told_of_prompts(trace, prepared))
            notes += [*told_of_loop(prepared, options)]
            notes += [*told_of_aborts(replaying.aborts_ignored), *told]
            return _finish(sink, manifest, config, options, stalled, notes)


def _sink(
    trace: Trace, manifest: dict[str, Any], out: Path | None, *, store: bool
) -> RunFolder | MemoryRun:
    """Where the run is kept: a new folder, or memory."""
    if not store and out is None:
        return MemoryRun(WAIT_LABELS)
    folder = RunFolder.create(
        out,
        trace_name=Path(trace.path or "trace").name.split(".")[0],
        flags_digest=manifest["flags_digest"],
        wait_labels=WAIT_LABELS,
    )
    folder.write_manifest(manifest)
    return folder


def with_kv_role(trace: Trace, config: SchedulerConfig) -> SchedulerConfig:
    """The configuration, with a role where the trace has remote KV and none is given."""
    if trace.has("remote_kv") and config.kv_role is None:
        return dataclasses.replace(config, kv_role=DEFAULT_KV_ROLE)
    return config


def prepare(trace: Trace, config: SchedulerConfig, options: ReplayOptions) -> Trace:
    """Deal with prompts that cannot fit, and speed the trace up."""
    prepared = fit_prompts(trace, config, options.too_long)
    if parse_speedup(options.speedup) != 1:
        prepared = scale(prepared, options.speedup)
    return prepared


def make_arrivals(
    trace: Trace, config: SchedulerConfig, options: ReplayOptions, *, keep_ids: bool = False
) -> Arrivals:
    """Requests of a trace in the order and at the times the options ask for.

    `keep_ids`: let the rows keep what the trace says about prefixes.
    """
    source = make_source(trace, config, keep_ids=keep_ids)
    match options.arrivals:
        case "all-at-once":
            return AllAtOnce(source)
        case "closed":
            return ClosedLoop(source, options.think_ns)
    return OpenLoop(source)


def told_of_loop(trace: Trace, options: ReplayOptions) -> list[str]:
    """That a closed loop was asked for and the trace has none."""
    if options.arrivals != "closed":
        return []
    if trace.has("after") and trace.table["after"].null_count < trace.num_requests:
        return []
    told = (
        "--arrivals closed changed nothing: no request of the trace has an `after`, so that all "
        "came as recorded; import the trace with one, or leave it out"
    )
    return [told]


def make_source(trace: Trace, config: SchedulerConfig, *, keep_ids: bool = False) -> RequestSource:
    """Requests of a trace, in file order."""
    return RequestSource(
        trace,
        block_size=config.block_size,
        enable_prefix_caching=config.enable_prefix_caching,
        keep_ids=keep_ids,
        hash_lookahead_tokens=config.hash_lookahead_tokens,
    )


def _scheduler_maker(
    trace: Trace, config: SchedulerConfig, runner: Runner, options: ReplayOptions
) -> Callable[[World, OutputsFile | None], Scheduler]:
    """Load the classes that are named, before anything is written, and make the scheduler later."""
    if options.scheduler == REAL_CLASS:
        refuse_what_it_cannot(config, options, needs_block_ids=runner.needs_block_ids)
        installed_release(config.vllm_version)
        return lambda world, _: cast("Scheduler", VllmScheduler(config, world.store, trace))
    made, policy = load_scheduler(options.scheduler), load_policy(options.policy_class)

    def make(world: World, outputs: OutputsFile | None) -> Scheduler:
        return made(
            config,
            world.store,
            policy,
            outputs.return_path if outputs else None,
            counts_blocks=may_count(trace, config, runner),
        )

    return make


def _recorder(
    scheduler: Scheduler, sink: RunFolder | MemoryRun, options: ReplayOptions
) -> Recorder:
    """A recorder; what vLLM's own class does not tell becomes null on its way to the tables."""
    passes: Log = sink.passes
    requests: Log = sink.requests
    if options.scheduler == REAL_CLASS:
        passes = UntoldLog(passes, PASS_COLUMNS)
        requests = UntoldLog(requests, request_columns(WAIT_LABELS))
    return Recorder(scheduler, passes, requests, options.warmup_ns)


def _run(
    replaying: Replay, options: ReplayOptions, sink: RunFolder | MemoryRun
) -> StallError | None:
    """Replay into the sink's tables; the stall it ended in, if it did."""
    try:
        with (
            rare_collections(),
            blaming("--policy-class", options.policy_class),
            blaming("--scheduler", options.scheduler),
        ):
            replaying.run()
    except EngineEndsError as error:
        return error
    except StallError as error:
        return dated(error, replaying.scheduler, options.events)
    except EnoughError:
        return None
    finally:
        replaying.close()
        for lengths, counts in replaying.recorder.itl.in_order():
            sink.itl.extend_columns(len(lengths), [lengths, counts])
    return None


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for reference cycles seldom: a replay makes many objects and hardly any cycle."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def may_count(trace: Trace, config: SchedulerConfig, runner: Runner) -> bool:
    """Whether no one asks which block is which: neither a runner nor a connector.

    Outputs with hashes are looked for block by block, as requests fill them.
    """
    if runner.needs_block_ids or config.lookahead_tokens or config.kv_role is not None:
        return False
    if config.enable_prefix_caching and trace.has("output_hash_ids"):
        return False
    return not any(trace.has(name) for name in ("remote_kv", "chunks"))


def may_go_express(
    trace: Trace, scheduler: Scheduler, runner: Runner, options: ReplayOptions
) -> bool:
    """Whether the express way covers the trace, the flags and what is asked for."""
    caches = scheduler.config.enable_prefix_caching
    covered = COVERED.union(PREFIXES if caches else PREFIX_IDENTITY)
    return (
        options.short_way
        and type(scheduler) is Scheduler
        and not scheduler.hooks
        and scheduler.return_path is None
        and not scheduler.kv_cache.pool.is_numbered
        and hasattr(runner, "decode_durations")
        and covers(scheduler.config)
        and covered.issuperset(set(trace.table.column_names) - set(trace.unknown_columns))
    )


def _told_with(stalled: StallError, where: str, notes: Sequence[str]) -> StallError:
    """The error with where the run is, and with what a summary would say of the replay."""
    told: StallError = (
        stalled.told_with(where)
        if isinstance(stalled, EngineEndsError)
        else StallError(f"{stalled}{where}")
    )
    for note in notes:
        told.add_note(note)
    return told


def _finish(
    sink: RunFolder | MemoryRun,
    manifest: dict[str, Any],
    config: SchedulerConfig,
    options: ReplayOptions,
    stalled: StallError | None,
    notes: Sequence[str],
) -> Run:
    """Read the tables back, sum them up, and mark a stored run as complete."""
    if stalled is not None:
        manifest["stalled"] = str(stalled)
    sink.close()
    path = sink.path if isinstance(sink, RunFolder) else None
    tables = tables_of(sink)
    summary = summarize(
        tables.passes,
        tables.requests,
        tables.itl,
        slo=options.slo_ns,
        warmup_ns=options.warmup_ns,
        drafts=draft_terms(config),
    )
    if isinstance(sink, RunFolder):
        sink.write_manifest(manifest)
        sink.write_summary(summary)
        if stalled is None:
            sink.complete()
    if stalled is not None:
        raise _told_with(stalled, f" (what was recorded is in {path})" if path else "", notes)
    asked = None if options.spec_acceptance == DEFAULT_ACCEPTANCE else options.spec_acceptance
    columns = manifest["trace"]["columns"]
    judged = warn(summary, config.as_dict(), manifest["derived"], columns, asked)
    warnings = [*config.warnings(), *notes, *judged]
    return Run(summary, manifest, warnings, tables, path)
