"""What is wanted, and whether it was reached: ratios of one run, never seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cases import REAL_CASES

if TYPE_CHECKING:
    from collections.abc import Iterator

Results = dict[str, Any]
MOST_TIMES_THE_LOG = 4.0
MOST_FOR_SMALL_BLOCKS = 2.0
MOST_EXPONENT = 1.05
MOST_PEAK_MIB = 1500 * 1e6 / 2**20
LEAST_FOR_TWO_CORES = 1.8


@dataclass(frozen=True, slots=True)
class Target:
    """`found` is a median; `runs` says of how many."""

    section: str
    entry: str
    what: str
    bound: Literal["at least", "at most"]
    wanted: float
    found: float
    least: float
    most: float
    runs: int

    @property
    def met(self) -> bool:
        """Whether the median keeps within the bound."""
        if self.bound == "at least":
            return self.found >= self.wanted
        return self.found <= self.wanted


def targets(sections: Results) -> Iterator[Target]:
    """All that the sections at hand can say something about."""
    least = {case.name: case.least for case in REAL_CASES if case.least}
    for entry in _entries(sections, "real"):
        if entry["name"] in least and "real class / ours" in entry["ratios"]:
            yield _ratio("real", entry, "real class / ours", "at least", least[entry["name"]])
        if entry["name"] == REAL_CASES[0].name:
            name = "ours / log written again"
            yield _ratio("real", entry, name, "at most", MOST_TIMES_THE_LOG)
        if "block size 16 / 512" in entry["ratios"]:
            yield _ratio("real", entry, "block size 16 / 512", "at most", MOST_FOR_SMALL_BLOCKS)
    for entry in _entries(sections, "peers"):
        for name in entry["ratios"]:
            if name.startswith("dynamo"):
                yield _ratio("peers", entry, name, "at least", 1.0)
                yield _ratio("peers", entry, name, "at least", 1.0, "wall_s")
    yield from _lengths(sections)
    for entry in _entries(sections, "sweep")[:1]:
        name = "1 at a time / 2 at a time"
        yield _ratio("sweep", entry, name, "at least", LEAST_FOR_TWO_CORES, "wall_s")


def _lengths(sections: Results) -> Iterator[Target]:
    for entry in _entries(sections, "lengths"):
        if "exponent" in entry:
            low, high = entry["exponent_between"]
            what = f"exponent of CPU time, {low:,} to {high:,} requests"
            found = entry["exponent"]
            yield _single(entry, what, MOST_EXPONENT, found)
            longest = list(entry["contestants"].values())[-1]
            what = f"peak memory of {high:,} requests, MiB"
            yield _single(entry, what, MOST_PEAK_MIB, longest["peak_mib"]["max"])


def _entries(sections: Results, name: str) -> list[Results]:
    return list(sections.get(name, {}).get("entries", []))


def _single(entry: Results, what: str, wanted: float, found: float) -> Target:
    return Target("lengths", entry["name"], what, "at most", wanted, found, found, found, 1)


def _ratio(
    section: str,
    entry: Results,
    name: str,
    bound: Literal["at least", "at most"],
    wanted: float,
    figure: str = "cpu_s",
) -> Target:
    found = entry["ratios"][name][figure]
    what = f"{name}, {'CPU' if figure == 'cpu_s' else 'clock'}"
    low, high, runs = found["min"], found["max"], len(found["runs"])
    return Target(section, entry["name"], what, bound, wanted, found["median"], low, high, runs)
