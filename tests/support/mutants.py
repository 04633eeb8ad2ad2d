"""Which small faults in `sched/` the narrow tests would notice: `make mutants SEED=1 COUNT=200`.

A mutant is one change (mutations.py), drawn by a seed. The tests are imported and collected once;
each mutant is a fork of that process in which one function has other code, so that no file is
touched. It meets the tests that reach the changed statement, the shortest first, until one fails:
a test that does not reach it runs as before. Which test reaches what is found by one run of all
tests with a mark at each place. Changes are made in functions only: what stands outside of them
takes effect at an import.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import os
import random
import resource
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import Phase, settings
from mutations import Change, changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parents[2]
NARROW: Final = (
    "tests/golden", "tests/golden-0.33", "tests/unit/sched", "tests/invariants",
    "--ignore=tests/invariants/test_torch_runner.py",  # the same laws with a model's time
    "--ignore=tests/invariants/test_law_book.py",  # about a page
    "--ignore=tests/invariants/test_hash_seed.py",  # runs processes of its own
)  # fmt: skip
LIMIT_S: Final = 4  # of CPU time that a test may take beyond five times its usual
MEMORY: Final = 4 << 30  # bytes a mutant may take more


@dataclass(slots=True)
class Mutant:
    """The change `index` of a file, and what became of it."""

    path: Path
    index: int
    change: Change
    reached: list[str] = field(default_factory=list)
    killer: str | None = None
    tests: int = 0
    cpu_s: float = 0.0
    untried: bool = False  # by all tests that reach it

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.change.line}"

    def code(self) -> CodeType:
        """The module with the change in it."""
        tree = ast.parse(self.path.read_text())
        changes(tree)[self.index].put()
        return compile(ast.fix_missing_locations(tree), str(self.path), "exec")

    def diff(self) -> str:
        changed = changes(ast.parse(self.path.read_text()))[self.index]
        before = changed.head
        changed.put()
        lines = [f"{self.place}: {self.change.what}"]
        lines += [f"  - {line}" for line in before.splitlines()]
        return "\n".join(lines + [f"  + {line}" for line in changed.head.splitlines()])


def drawn(seed: int, count: int, at: list[str] | None) -> list[Mutant]:
    """Mutants of all of `sched/`, each change as likely as any other; or all at FILE[:LINE]."""
    every = [
        Mutant(path, index, change)
        for path in sorted((ROOT / "sched").rglob("*.py"))
        for index, change in enumerate(changes(ast.parse(path.read_text())))
        if change.scope is not None
    ]
    if at is not None:
        return [each for each in every if any(f"{each.place}:".startswith(f"{a}:") for a in at)]
    return random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311


class Campaign:
    """A pytest plugin that runs the collected tests once for each mutant instead of once."""

    def __init__(self, mutants: list[Mutant], minutes: float) -> None:
        self.mutants, self.until = mutants, time.monotonic() + 60 * minutes
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """A failing example is enough: nobody reads the smallest one."""
        phases = [Phase.explicit, Phase.generate]
        settings.register_profile(
            "mutants", settings.get_profile("ci"), phases=phases, report_multiple_bugs=False
        )
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Scenarios and unit tests first; the invariants, which take longer, for what survives."""
        gc.collect()
        gc.freeze()
        last = [item for item in session.items if item.nodeid.startswith("tests/invariants")]
        first = [item for item in session.items if item not in set(last)]
        for number, items in enumerate((first, last), 1):
            alive = [mutant for mutant in self.mutants if mutant.killer is None]
            _say(f"round {number}: {len(items)} tests, {len(alive)} mutants")
            self._round(alive, {item.nodeid: item for item in items})
        return True

    def _round(self, mutants: list[Mutant], items: dict[str, pytest.Item]) -> None:
        self._find_who_reaches(mutants, items)
        for number, mutant in enumerate(mutants, 1):
            if time.monotonic() > self.until:
                mutant.untried = True
                continue
            self._try(mutant, items)
            fate = f"killed by {mutant.killer}" if mutant.killer else "survives"
            _say(
                f"{number}/{len(mutants)} {mutant.cpu_s:.1f} s, {mutant.tests} tests: {fate}\n"
                f"{mutant.diff()}"
            )

    def _find_who_reaches(self, mutants: list[Mutant], items: dict[str, pytest.Item]) -> None:
        for mutant in mutants:
            mutant.reached = []
        for message in _forked(partial(_reach, mutants, list(items.values()))):
            test = message["test"]
            self.seconds[test] = message["seconds"]
            if message["failed"]:
                _say(f"left out, as it fails without a mutant: {test}")
                continue
            for index in message["hit"]:
                mutants[index].reached.append(test)
        if missing := items.keys() - self.seconds.keys():
            raise pytest.UsageError(f"the run without a mutant ended before {min(missing)}")
        for mutant in mutants:
            mutant.reached.sort(key=lambda test: self.seconds[test])

    def _try(self, mutant: Mutant, items: dict[str, pytest.Item]) -> None:
        functions = live_functions()

        def run(tell: Callable[[object], None]) -> None:
            _limit_memory()
            _swap(mutant.path, mutant.change.scope, mutant.code(), functions)
            for item, following in _pairs([items[test] for test in mutant.reached]):
                tell({"test": item.nodeid})
                _limit_cpu(LIMIT_S + 5 * self.seconds[item.nodeid])
                failed = _fails(item, following)
                if failed:
                    tell({"killer": item.nodeid})
                    return
            tell({"killer": None})

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        last, ended = None, False
        for message in _forked(run):
            last = message.get("test", last)
            mutant.tests += "test" in message
            if "killer" in message:
                mutant.killer, ended = message["killer"], True
        if not ended and last is None:
            raise pytest.UsageError(f"no such mutant can be made: {mutant.diff()}")
        if not ended:
            mutant.killer = f"{last} (did not end, or ended the process)"
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        mutant.cpu_s += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _reach(mutants: list[Mutant], items: list[pytest.Item], tell: Callable[[object], None]) -> None:
    """Run all tests without a change, and report what each one reaches and takes."""
    marks = bytearray(len(mutants))
    _mark(mutants, marks, live_functions())
    for item, following in _pairs(items):
        marks[:] = bytes(len(marks))
        began = time.process_time()
        failed = _fails(item, following)
        spent = time.process_time() - began
        hit = [index for index, mark in enumerate(marks) if mark]
        tell({"test": item.nodeid, "seconds": spent, "hit": hit, "failed": failed})


def live_functions() -> dict[tuple[str, str], list[FunctionType]]:
    """Functions of `sched/` that exist now, by file and name."""
    found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    gc.unfreeze()
    for each in gc.get_objects():
        if type(each) is FunctionType:
            code = each.__code__
            found[os.path.realpath(code.co_filename), code.co_qualname].append(each)
    gc.freeze()
    return found


def _swap(
    path: Path,
    scope: str | None,
    module: CodeType,
    functions: dict[tuple[str, str], list[FunctionType]],
) -> None:
    """Give the functions of that name the code that the module has for them."""
    for code in _codes(module):
        if code.co_qualname == scope:
            for function in functions[os.path.realpath(path), code.co_qualname]:
                if function.__code__.co_firstlineno == code.co_firstlineno:
                    function.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _codes(part)


def _mark(
    mutants: list[Mutant], marks: bytearray, functions: dict[tuple[str, str], list[FunctionType]]
) -> None:
    """Have each statement that a mutant changes note that it was reached."""
    by_path = defaultdict(list)
    for number, mutant in enumerate(mutants):
        by_path[mutant.path].append((number, mutant))
    for path, found in by_path.items():
        tree = ast.parse(path.read_text())
        every = changes(tree)
        for number, mutant in found:
            change = every[mutant.index]
            (mark,) = ast.parse(f"__reached__[{number}] = 1").body
            change.body.insert(change.body.index(change.statement), mark)
        module = compile(ast.fix_missing_locations(tree), str(path), "exec")
        for scope in {mutant.change.scope for _, mutant in found}:
            for (name, qualified), live in functions.items():
                if name == os.path.realpath(path) and qualified == scope:
                    for function in live:
                        function.__globals__["__reached__"] = marks
            _swap(path, scope, module, functions)


def _pairs(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip_longest(items, items[1:])


def _fails(item: pytest.Item, following: pytest.Item | None) -> bool:
    from _pytest.runner import runtestprotocol  # noqa: PLC0415

    return any(each.failed for each in runtestprotocol(item, log=False, nextitem=following))


def _limit_memory() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


def _limit_cpu(seconds: float) -> None:
    """End this process when it has taken so much more CPU time."""
    most = int(time.process_time() + seconds) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def _forked(run: Callable[[Callable[[object], None]], None]) -> Iterator[dict[str, Any]]:
    """What `run` reports in a child process, message by message, until it ends."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        with os.fdopen(writing, "w") as out:
            try:
                run(lambda message: print(json.dumps(message), file=out, flush=True))
            except BaseException:  # noqa: BLE001 - a change may raise anything anywhere
                os._exit(1)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            yield json.loads(line)
    os.waitpid(child, 0)


def report(tried: list[Mutant], drawn_by: str) -> list[str]:
    """Killed and survived by file, and what it took."""
    killed = Counter(str(each.path.relative_to(ROOT)) for each in tried if each.killer)
    every = Counter(str(each.path.relative_to(ROOT)) for each in tried)
    width = max(map(len, every), default=0)
    lines = [f"{name:<{width}}  {killed[name]:>3} of {every[name]}" for name in sorted(every)]
    spent = [each.cpu_s for each in tried if each.killer]
    return [
        *lines,
        f"{drawn_by}: {killed.total()} of {every.total()} killed",
        f"{sum(spent) / max(1, len(spent)):.1f} s of CPU time a killed mutant",
    ]


def _say(line: str) -> None:
    print(line, file=sys.__stderr__, flush=True)  # pytest holds the other streams


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument(
        "--at", nargs="+", metavar="FILE[:LINE]", help="all changes there, instead of a draw"
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="begin none after so long")
    given = parser.parse_args()
    mutants = drawn(given.seed, given.count, given.at)
    if not mutants:
        parser.error(f"--at {given.at}: nothing to change there")

    os.chdir(ROOT)
    campaign = Campaign(mutants, given.minutes)
    code = pytest.main(["-q", "-p", "no:cacheprovider", *NARROW], plugins=[campaign])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return int(code)
    tried = [each for each in mutants if not each.untried]
    lines = report(tried, f"seed {given.seed}" if given.at is None else " ".join(given.at))
    _say("\n".join(each.diff() for each in tried if each.killer is None))
    _say("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
