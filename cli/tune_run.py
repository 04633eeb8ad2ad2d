"""How a search is run from the command line: set up, shown while it runs, told at its end."""

from pathlib import Path
from typing import TYPE_CHECKING

from schedbench.bounds import SEED, SHARE, SOME
from schedbench.cli import console
from schedbench.cli.jobs import workers_of
from schedbench.cli.options import Printing
from schedbench.cli.print_view import print_view
from schedbench.cli.progress import LiveLine
from schedbench.cli.release import named
from schedbench.cli.serve_line import serve_line, without_flag
from schedbench.cli.values import parse_count, parse_number, show_value, shown_option
from schedbench.errors import StallError, UnsupportedError, UsageError
from schedbench.results.extras import remedy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.cli.tune import Task
    from schedbench.results.rate_view import TriedRate
    from schedbench.results.sweep_sheet import SweepPoint
    from schedbench.runner.tune.max_rate import Rate, RateSearch
    from schedbench.runner.tune.search import Search, Tried

ATTAIN = 0.99  # of the requests
MOST_REASONS = 3  # told where no point finished


def search_flags(task: "Task", printing: Printing) -> None:
    """Search, and print what came of it."""
    try:
        import optuna  # noqa: F401 (only to see whether it is there)
    except ImportError as error:
        raise UnsupportedError(
            f"tune searches with Optuna, which is not installed: {remedy('optuna')}"
        ) from error
    from schedbench.runner.workers import Workers

    workers = _workers(task)
    search, line = _search(task), LiveLine()
    search.told = lambda now: line.show(progress_of(now))
    root = search.problem.root
    try:
        with Workers(task.trace, workers) as pool:
            search.run(pool)
    except KeyboardInterrupt:
        line.clear()
        search.take_ended()
        console.plain(progress_of(search))
        if root is not None:
            console.plain(_goes_on(root))
        raise
    line.clear()
    _show(search, task, printing)
    if root is not None:
        console.plain(f"kept in {root}")


def _goes_on(root: Path) -> str:
    return f"it goes on with: schedbench tune --resume {root}"


def _search(task: "Task") -> "Search":
    from schedbench.runner.tune.search import Problem, Search
    from schedbench.runner.tune.study import Memory

    if not task.space:
        raise UsageError(
            "tune needs a flag to search: a range such as --max-num-seqs 16:1024, or a list such "
            "as --enable-chunked-prefill on,off"
        )
    searching = task.searching
    seed = parse_count(searching.search_seed, "--search-seed", SEED)
    replays = parse_count(searching.replays, "--replays", SOME)
    goal = searching.goal.goal
    problem = Problem(task.trace, task.space, goal, task.plan, _folder(task))
    memory = Memory(task.space, problem.root, maximizes=goal.maximizes, seed=seed)
    return Search(problem, memory, replays)


def _folder(task: "Task") -> Path | None:
    from schedbench.runner.tune.folder import new_folder, resumed_folder

    options, searching = task.options, task.searching
    about = {
        "goal": searching.goal.value,
        "space": {name: repr(each) for name, each in task.space.items()},
        "flags": task.settings.flags,
        "deployment": options.deployment.as_dict(),
        "slo_ns": options.slo_ns,
        "speedup": options.speedup,
        "search_seed": searching.search_seed,
        "command_line": list(options.command_line),
    }
    if task.storing.no_store:
        return None
    if searching.resume is not None:
        return resumed_folder(task.trace, about, searching.resume)
    return new_folder(task.trace, about, task.storing.out)


def _workers(task: "Task") -> int | None:
    return workers_of(task.searching.jobs, is_torch=task.options.deployment.is_torch)


def progress_of(search: "Search") -> str:
    """One line: how far, and the best so far."""
    from schedbench.results.units import scale_for

    goal, whole = search.problem.goal, search.whole
    done = f"{search.num_replayed} of {search.replays} points, {search.num_pruned} given up early"
    if not whole:
        return done
    value = search.problem.value_of(whole[0].summary)
    scale = scale_for(goal.metric.unit, [value])
    flags = " ".join(f"{label(name)}={show_value(v)}" for name, v in whole[0].point.items())
    return f"{done}; best {goal.metric.title} {scale.text(value)} {scale.unit}: {flags}"


def label(name: str) -> str:
    return shown_option(name).removeprefix("--")


def _show(search: "Search", task: "Task", printing: Printing) -> None:
    from schedbench.results.tune_view import Tuned, tune_view

    whole = search.whole
    if not whole:
        raise _none_finished(each.outcome.reason for each in search.tried if each.outcome)
    flags = {**task.settings.flags, **whole[0].point}
    found = search.memory.importances([each.point for each in search.tried])
    tuned = Tuned(
        search.problem.goal,
        task.options.slo_ns,
        _before(search),
        [_point(each) for each in whole],
        search.num_replayed,
        search.num_pruned,
        sum(each.is_refused for each in search.tried),
        {label(name): share for name, share in found.items()},
        serve_line(flags),
        [f"vllm serve has no flag for {label(name)}" for name in without_flag(flags)],
    )
    print_view(named(tune_view(task.name, tuned), task.release), printing.chosen)
    _tell_time(task)


def _none_finished(reasons: "Iterable[str]") -> StallError:
    told = "; ".join(sorted(set(reasons))[:MOST_REASONS])
    return StallError(f"no point of the search finished: {told}")


def _tell_time(task: "Task") -> None:
    """What said how long passes take; an estimate is called one."""
    console.note(f"time: {task.options.deployment.description}")


def _before(search: "Search") -> "SweepPoint | None":
    """What is set without a search, also where the ranges leave it out."""
    from schedbench.results.sweep_sheet import SweepPoint

    start, outcome = search.before()
    if outcome.summary is None:
        return None
    return SweepPoint({label(name): v for name, v in start.items()}, outcome.summary)


def _point(tried: "Tried") -> "SweepPoint":
    from schedbench.results.sweep_sheet import SweepPoint

    return SweepPoint({label(name): v for name, v in tried.point.items()}, tried.summary)


def find_rate(task: "Task", printing: Printing) -> None:
    """Bisect the speed-up, and print what came of it."""
    from schedbench.results.rate_view import rate_view
    from schedbench.runner.tune.max_rate import RateSearch

    if task.space:
        raise UsageError(
            f"--goal max-rate takes flags as they are, and {shown_option(next(iter(task.space)))} "
            "has several values: search with another goal first, then give the winner"
        )
    typed = task.searching.attain
    attain = ATTAIN if typed is None else parse_number(typed, "--attain", SHARE)
    line, root = LiveLine(), _folder(task)
    search = RateSearch(task.trace, task.plan, attain, root)
    search.told = lambda now: line.show(_rate_progress(now))
    try:
        best = search.run()
    except KeyboardInterrupt:
        line.clear()
        console.plain(_best_rate(search))
        if root is not None:
            console.plain(_goes_on(root))
        raise
    line.clear()
    if all(rate.summary is None for rate in search.rates):
        raise _none_finished(rate.reason for rate in search.rates)
    tried = {id(rate): _tried(rate) for rate in search.rates}
    found = None if best is None else tried[id(best)]
    slo = dict(task.options.slo_ns or {})
    view = rate_view(task.name, found, [*tried.values()], slo, attain)
    print_view(named(view, task.release), printing.chosen)
    _tell_time(task)
    if root is not None:
        console.plain(f"kept in {root}")


def _rate_progress(search: "RateSearch") -> str:
    last = search.rates[-1]
    held = "holds" if last.holds else "misses"
    return f"{len(search.rates)} replays; --speedup {float(last.speedup):g} {held}"


def _best_rate(search: "RateSearch") -> str:
    """How far a search for a rate came, and the highest that held so far."""
    held = [rate.speedup for rate in search.rates if rate.holds]
    best = f"the highest that holds is --speedup {float(max(held)):g}" if held else "none holds yet"
    return f"{len(search.rates)} replays; {best}"


def _tried(rate: "Rate") -> "TriedRate":
    from schedbench.results.rate_view import TriedRate

    return TriedRate(float(rate.speedup), rate.holds, rate.share, rate.summary, rate.reason)
