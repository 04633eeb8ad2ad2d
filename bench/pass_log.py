"""What logging costs: microseconds a pass, and as a multiple of keeping the tuples in a list.

python bench/pass_log.py [PASSES]
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from schedbench.results.memory_log import MemoryLog
from schedbench.results.part_writer import PartWriter
from schedbench.results.pass_log import PASS_COLUMNS

PASSES = 340_000  # a day of a public conversation trace
ROUNDS = 5
STOPS = ("queues_empty", "seats_full", "closed_by_preemption")
LABELS = {"running_stop", "admission_stop", "binding_limit"}


def rows_of(passes: int) -> list[tuple[object, ...]]:
    """Rows with values as varied as a replay's."""
    return [
        tuple(
            STOPS[index % 3]
            if column.name in LABELS
            else ((index,) if index % 100 == 0 else ())
            if column.name == "victims"
            else index * 7919 % (1000 + place)
            for place, column in enumerate(PASS_COLUMNS)
        )
        for index in range(passes)
    ]


def cpu_seconds(work: Callable[[], None]) -> list[float]:
    """CPU time of all threads, for each round."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return seconds


def main() -> None:
    """Print one line a way of logging."""
    passes = int(sys.argv[1]) if len(sys.argv) > 1 else PASSES
    rows = rows_of(passes)

    def to_list() -> None:
        kept: list[object] = []
        for row in rows:
            kept.append(row)  # noqa: PERF402 (a pass appends one row)

    def to_memory() -> None:
        log = MemoryLog(PASS_COLUMNS)
        for row in rows:
            log.append(row)
        log.close()

    def to_parts() -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = PartWriter(Path(folder), PASS_COLUMNS)
            for row in rows:
                log.append(row)
            log.close()

    base = statistics.median(cpu_seconds(to_list))
    for name, work in (("memory", to_memory), ("parts", to_parts)):
        seconds = cpu_seconds(work)
        middle = statistics.median(seconds)
        print(
            f"{name:6}  {middle / passes * 1e6:.2f} us a pass"
            f"  ({min(seconds) / passes * 1e6:.2f} to {max(seconds) / passes * 1e6:.2f})"
            f"  {middle / base:.0f} times a list"
        )


if __name__ == "__main__":
    main()
