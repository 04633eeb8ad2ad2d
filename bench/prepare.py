"""Time input preparation against building lists and tensors a request, in one run.

python bench/prepare.py [--sequences 256] [--context 512] [--chunk 0]

Both ways make the same arrays of the same pass: token ids, positions, slots, lengths, block
table. Printed are medians and 99th percentiles over many passes, by the clock and, as other work
on the machine disturbs the clock, by the thread's processor time; and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import gc
import time
from dataclasses import dataclass, field

import numpy as np

from schedbench.runner.torch.batch import BatchBuilder, Layout
from schedbench.runner.torch.rows import RowTable
from schedbench.sched.prefix_identity import BlockNames
from schedbench.sched.request import RequestStatus

BLOCK = 16
VOCAB = 151_936
PASSES = 400
LISTS_EVERY = 4  # passes: lists are slow


@dataclass
class Sequence:
    """A running request as the scheduler would have it."""

    request_id: str
    num_computed_tokens: int
    identity: BlockNames
    block_ids: list[int]
    tokens: list[int] = field(default_factory=list)
    status: RequestStatus = RequestStatus.RUNNING


def make_sequences(count: int, context: int) -> list[Sequence]:
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(context), 0.5, count), 16, 8 * context).astype(int)
    free = iter(rng.permutation(int(-(-(lengths + PASSES * 2) // BLOCK).sum()) + count * 2) + 1)
    made = []
    for index, length in enumerate(lengths.tolist()):
        blocks = [int(next(free)) for _ in range(-(-length // BLOCK))]
        tokens = rng.integers(0, VOCAB, length + PASSES + 4096).tolist()
        made.append(Sequence(f"{index:09d}", length, BlockNames(index), blocks, tokens))
    return made


def with_lists(sequences: list[Sequence], scheduled: dict[str, int]) -> tuple[np.ndarray, ...]:
    """Lists a request, block tables padded to the longest, a tensor for each at the end."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    lengths: list[int] = []
    for sequence in sequences:
        end = sequence.num_computed_tokens
        begin = end - scheduled[sequence.request_id]
        tokens.extend(sequence.tokens[begin:end])
        positions.extend(range(begin, end))
        slots.extend(
            sequence.block_ids[position // BLOCK] * BLOCK + position % BLOCK
            for position in range(begin, end)
        )
        lengths.append(end)
    longest = max(len(sequence.block_ids) for sequence in sequences)
    table = [
        sequence.block_ids + [-1] * (longest - len(sequence.block_ids)) for sequence in sequences
    ]
    return tuple(
        np.array(each, dtype=np.int32) for each in (tokens, positions, slots, lengths, table)
    )


def advance(sequences: list[Sequence], scheduled: dict[str, int]) -> dict[str, list[int]]:
    """One pass further; the blocks that became necessary, by request. A chunk stays in place."""
    added: dict[str, list[int]] = {}
    for sequence in sequences:
        if scheduled[sequence.request_id] > 1:
            continue
        sequence.num_computed_tokens += 1
        if sequence.num_computed_tokens > len(sequence.block_ids) * BLOCK:
            added[sequence.request_id] = [sequence.block_ids[-1] + 1]
            sequence.block_ids.extend(added[sequence.request_id])
    return added


def make_builder(sequences: list[Sequence], chunk: int) -> BatchBuilder:
    """Rows for all sequences, with their tables as they are."""
    longest = max(len(each.block_ids) for each in sequences) + PASSES // BLOCK + 2
    rows = RowTable(len(sequences), longest)
    for sequence in sequences:
        rows.place(sequence, sequence.block_ids)
    rows.take_changes()
    count = len(sequences)
    layout = Layout(count + chunk, count, count + chunk, 4096)
    buffer = np.zeros(layout.size, dtype=np.int32)
    return BatchBuilder(
        rows, layout, buffer, block_size=BLOCK, num_blocks=2**31, vocab_size=VOCAB, tile_tokens=16
    )


def measure(count: int, context: int, chunk: int) -> dict[str, np.ndarray]:
    """Milliseconds of each pass, by the clock and on the processor, of arrays and of lists."""
    sequences = make_sequences(count, context)
    scheduled = dict.fromkeys((each.request_id for each in sequences), 1)
    if chunk:
        last = sequences[-1]
        scheduled[last.request_id] = chunk
        last.num_computed_tokens = max(context, chunk)
        last.block_ids = list(range(1, last.num_computed_tokens // BLOCK + 2))
        last.tokens = list(range(last.num_computed_tokens))
    builder = make_builder(sequences, chunk)
    times: dict[str, list[int]] = {name: [] for name in ("clock", "cpu", "lists", "lists cpu")}
    gc.freeze()
    for number in range(PASSES):
        added = advance(sequences, scheduled)
        began, began_cpu = time.perf_counter_ns(), time.thread_time_ns()
        for request_id, blocks in added.items():
            builder.rows.append(request_id, blocks)
        builder.write(scheduled, [])
        times["cpu"].append(time.thread_time_ns() - began_cpu)
        times["clock"].append(time.perf_counter_ns() - began)
        if number % LISTS_EVERY == 0:
            began, began_cpu = time.perf_counter_ns(), time.thread_time_ns()
            with_lists(sequences, scheduled)
            times["lists cpu"].append(time.thread_time_ns() - began_cpu)
            times["lists"].append(time.perf_counter_ns() - began)
    return {name: np.array(values[1:]) / 1e6 for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, nargs="*", default=[32, 256, 256, 1024])
    parser.add_argument("--context", type=int, nargs="*", default=[512, 512, 4096, 4096])
    parser.add_argument("--chunk", type=int, nargs="*", default=[0, 2048])
    given = parser.parse_args()
    print(f"{'':>24}{'arrays, ms':>27}{'lists, ms':>30}")
    print(
        f"{'sequences':>9}{'context':>8}{'chunk':>7}{'median':>10}{'p99':>8}{'p99 cpu':>9}"
        f"{'median':>13}{'p99':>8}{'p99 cpu':>9}{'ratio':>8}"
    )
    for count, context in zip(given.sequences, given.context, strict=True):
        for chunk in given.chunk:
            found = measure(count, context, chunk)
            medians = {name: np.median(times) for name, times in found.items()}
            tails = {name: np.percentile(times, 99) for name, times in found.items()}
            print(
                f"{count:>9}{context:>8}{chunk:>7}"
                f"{medians['clock']:>10.3f}{tails['clock']:>8.3f}{tails['cpu']:>9.3f}"
                f"{medians['lists']:>13.3f}{tails['lists']:>8.2f}{tails['lists cpu']:>9.2f}"
                f"{medians['lists'] / medians['clock']:>8.1f}"
            )


if __name__ == "__main__":
    main()
