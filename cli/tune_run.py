"""How a search is run from the command line: set up, shown while it runs, told at its end."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbench.cli import console
from schedbench.cli.configure import Settings, settle
from schedbench.cli.inputs import replay_options
from schedbench.cli.options import Load, Printing, Storing
from schedbench.cli.print_view import print_view
from schedbench.cli.progress import LiveLine
from schedbench.cli.serve_line import serve_line, without_flag
from schedbench.cli.tune_space import FlagSpaces
from schedbench.cli.values import parse_count, parse_share, show_value, shown_option
from schedbench.errors import StallError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from schedbench.cli.tune import Searching
    from schedbench.results.sweep_sheet import SweepPoint
    from schedbench.runner.run import ReplayOptions
    from schedbench.runner.tune.max_rate import Rate, RateSearch
    from schedbench.runner.tune.search import Problem, Search, Tried
    from schedbench.workloads.trace import Trace

Loading = tuple[Load, str, str | None]  # load, speedup and cost as typed


def search_flags(
    trace: "Trace",
    searching: "Searching",
    flags: FlagSpaces,
    loading: Loading,
    storing: Storing,
    printing: Printing,
) -> None:
    """Search, and print what came of it."""
    try:
        import optuna  # noqa: F401 (only to see whether it is there)
    except ImportError as error:
        raise UnsupportedError(
            "tune searches with Optuna, which is not installed: pip install 'schedbench[tune]'"
        ) from error
    from schedbench.runner.tune.search import Search
    from schedbench.runner.tune.study import Memory
    from schedbench.runner.workers import Workers

    problem, settings = _problem(trace, searching, flags, loading, storing)
    seed = parse_count(searching.search_seed, "--search-seed")
    memory = Memory(problem.space, problem.root, maximizes=problem.goal.maximizes, seed=seed)
    line = LiveLine()
    replays = max(1, parse_count(searching.replays, "--replays"))
    search = Search(problem, memory, replays, lambda now: line.show(progress_of(now)))
    try:
        with Workers(trace, _workers(searching)) as pool:
            search.run(pool)
    finally:
        line.clear()
        if problem.root is not None and search.num_replayed < replays:
            console.plain(f"the same command goes on with --resume {problem.root}")
    _show(search, settings, printing)


def _problem(
    trace: "Trace",
    searching: "Searching",
    flags: FlagSpaces,
    loading: Loading,
    storing: Storing,
) -> "tuple[Problem, Settings]":
    from schedbench.runner.clock import parse_cost
    from schedbench.runner.run import DEFAULT_COST
    from schedbench.runner.tune.search import Problem

    load, speedup, cost = loading
    space, fixed = flags.sorted_out()
    if not space:
        raise UsageError(
            "tune needs a flag to search: a range such as --max-num-seqs 16:1024, or a list such "
            "as --enable-chunked-prefill on,off"
        )
    settings = settle(fixed, flags.serve_args)
    options = replay_options(load, speedup=speedup)
    about = {
        "goal": searching.goal.value,
        "space": {name: repr(each) for name, each in space.items()},
        "flags": settings.given,
        "cost": cost or DEFAULT_COST,
        "slo_ns": options.slo_ns,
        "speedup": speedup,
        "search_seed": searching.search_seed,
        "command_line": list(options.command_line),
    }
    problem = Problem(
        trace,
        space,
        searching.goal.goal,
        settings.config(),
        options,
        parse_cost(cost or DEFAULT_COST),
        _folder(trace, about, searching, storing),
    )
    return problem, settings


def _folder(
    trace: "Trace", about: dict[str, Any], searching: "Searching", storing: Storing
) -> Path | None:
    from schedbench.runner.tune.folder import new_folder, resumed_folder

    if storing.no_store:
        return None
    if searching.resume is not None:
        return resumed_folder(trace, about, searching.resume)
    return new_folder(trace, about, storing.out)


def _workers(searching: "Searching") -> int | None:
    return None if searching.jobs is None else max(1, parse_count(searching.jobs, "--jobs"))


def progress_of(search: "Search") -> str:
    """One line: how far, and the best so far."""
    goal = search.problem.goal
    done = f"{search.num_replayed} of {search.replays} points, {search.num_pruned} given up early"
    whole = search.whole
    if not whole or whole[0].result.summary is None:
        return done
    from schedbench.results.units import scale_for

    value = goal.value_of(whole[0].result.summary)
    scale = scale_for(goal.metric.unit, [value])
    flags = " ".join(f"{label(name)}={show_value(v)}" for name, v in whole[0].point.items())
    return f"{done}; best {goal.metric.title} {scale.text(value)} {scale.unit}: {flags}"


def label(name: str) -> str:
    return shown_option(name).removeprefix("--")


def _show(search: "Search", settings: Settings, printing: Printing) -> None:
    from schedbench.results.tune_view import Tuned, tune_view

    whole, problem = search.whole, search.problem
    if not whole:
        reasons = {each.result.reason for each in search.tried if each.result.reason}
        raise StallError(f"no point of the search finished: {'; '.join(sorted(reasons)[:3])}")
    best = whole[0].point
    flags = {**settings.given, **best}
    unset = without_flag(flags)
    tuned = Tuned(
        problem.goal,
        problem.options.slo_ns,
        _before(search),
        [_point(each) for each in whole],
        search.num_replayed,
        search.num_pruned,
        sum(each.is_refused for each in search.tried),
        {label(k): v for k, v in search.memory.importances(list(map(_of, search.tried))).items()},
        serve_line(flags),
        [f"vllm serve has no flag for {label(name)}" for name in unset],
    )
    print_view(tune_view(_name(problem.trace), tuned), printing.chosen)
    if problem.root is not None:
        console.plain(f"kept in {problem.root}")


def _of(tried: "Tried") -> dict[str, Any]:
    return tried.point


def _name(trace: "Trace") -> str:
    return f"{Path(trace.path or 'trace').name}, {trace.num_requests:,} requests"


def _before(search: "Search") -> "SweepPoint | None":
    """What was set before: the first point that is tried."""
    first = search.tried[0]
    return _point(first) if first.result.summary and not first.is_pruned else None


def _point(tried: "Tried") -> "SweepPoint":
    from schedbench.results.sweep_sheet import SweepPoint

    flags = {label(name): value for name, value in tried.point.items()}
    return SweepPoint(flags, tried.result.summary, tried.result.reason)


def find_rate(
    trace: "Trace",
    searching: "Searching",
    flags: FlagSpaces,
    loading: Loading,
    storing: Storing,
    printing: Printing,
) -> None:
    """Bisect the speed-up, and print what came of it."""
    from schedbench.results.rate_view import rate_view
    from schedbench.runner.tune.max_rate import RateSearch

    load, speedup, cost = loading
    space, fixed = flags.sorted_out()
    if space:
        raise UsageError(
            f"--goal max-rate takes flags as they are, and {shown_option(next(iter(space)))} has "
            "several values: search with another goal first, then give the winner"
        )
    settings = settle(fixed, flags.serve_args)
    options = replay_options(load, speedup=speedup)
    line = LiveLine()
    attain = parse_share(searching.attain, "--attain")
    search = RateSearch(
        trace,
        _job(settings, options, cost),
        attain,
        _rate_folder(trace, searching, storing, options),
        lambda now: line.show(_rate_progress(now)),
    )
    try:
        best = search.run()
    finally:
        line.clear()
    tried = {id(rate): _tried(rate) for rate in search.rates}
    found = None if best is None else tried[id(best)]
    slo = dict(options.slo_ns or {})
    print_view(rate_view(_name(trace), found, [*tried.values()], slo, attain), printing.chosen)


def _job(settings: Settings, options: "ReplayOptions", cost: str | None) -> Any:  # noqa: ANN401
    from schedbench.runner.clock import parse_cost
    from schedbench.runner.run import DEFAULT_COST
    from schedbench.runner.tune.jobs import Job

    return Job(settings.config(), options, parse_cost(cost or DEFAULT_COST))


def _rate_folder(
    trace: "Trace", searching: "Searching", storing: Storing, options: "ReplayOptions"
) -> Path | None:
    about = {"goal": searching.goal.value, "command_line": list(options.command_line)}
    return _folder(trace, about, searching, storing)


def _rate_progress(search: "RateSearch") -> str:
    last = search.rates[-1]
    held = "holds" if last.holds else "misses"
    return f"{len(search.rates)} replays; --speedup {float(last.speedup):g} {held}"


def _tried(rate: "Rate") -> Any:  # noqa: ANN401
    from schedbench.results.rate_view import TriedRate

    return TriedRate(float(rate.speedup), rate.holds, rate.share, rate.summary, rate.reason)
