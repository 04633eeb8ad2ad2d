"""Input preparation needs numpy only, so these run where torch is absent."""

from dataclasses import dataclass

import numpy as np
import pytest

from schedbench.errors import InvariantError
from schedbench.runner.torch.batch import BatchBuilder, Layout
from schedbench.runner.torch.rows import RowTable, seed_of, tokens_of
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.output import ModelRunnerOutput, SchedulerOutput
from schedbench.sched.prefix_identity import BlockNames, PrefixNames
from schedbench.sched.request import Request, RequestStatus
from schedbench.sched.scheduler import Scheduler

BLOCK, VOCAB, TILE = 16, 1000, 12
CONFIG = SchedulerConfig(
    max_num_batched_tokens=96, max_num_seqs=8, max_model_len=512, num_gpu_blocks=30
)


@dataclass
class Held:
    """A request as far as a row knows it."""

    request_id: str
    num_computed_tokens: int
    identity: BlockNames
    status: RequestStatus = RequestStatus.RUNNING


def _builder(config: SchedulerConfig = CONFIG, max_updates: int = 64) -> tuple[BatchBuilder, dict]:
    layout = Layout(config.token_budget, 16, 64, max_updates)
    buffer = np.full(layout.size, -7, dtype=np.int32)
    rows = RowTable(config.max_num_seqs, 33)
    builder = BatchBuilder(
        rows, layout, buffer, block_size=BLOCK, num_blocks=30, vocab_size=VOCAB, tile_tokens=TILE
    )
    return builder, {name: buffer[place] for name, place in layout.regions().items()}


def _requests(seed: int, count: int = 30) -> list[Request]:
    rng = np.random.default_rng(seed)
    names = PrefixNames(BLOCK, BLOCK)
    made = []
    for index in range(count):
        prompt = int(rng.integers(1, 200))
        ids = [int(rng.integers(0, 2)) * 1000 + block for block in range(-(-prompt // BLOCK))]
        made.append(
            Request(
                f"{index:09d}",
                num_prompt_tokens=prompt,
                max_tokens=int(rng.integers(1, 30)),
                arrival_time=index,
                identity=names.shared(prompt, ids),
            )
        )
    return made


def _one_by_one(scheduler: Scheduler, output: SchedulerOutput, order: list[str]) -> dict[str, list]:
    """What the arrays must hold, token by token."""
    expected: dict[str, list] = {
        name: [] for name in ("tokens", "positions", "slots", "seq_lens", "sample", "tiles")
    }
    for row, request_id in enumerate(order):
        request = scheduler.requests[request_id]
        q = output.num_scheduled_tokens[request_id]
        end = request.num_computed_tokens
        for position in range(end - q, end):
            block, offset = divmod(position, BLOCK)
            seed = np.array([seed_of(request.identity.block_hash(block))], dtype=np.uint32)
            token = tokens_of(seed, np.array([offset], dtype=np.int32), VOCAB)[0]
            expected["tokens"].append(token)
            expected["positions"].append(position)
            expected["slots"].append(request.block_ids[block] * BLOCK + offset)
        expected["seq_lens"].append(end)
        if not request.is_prefill_chunk:
            expected["sample"].append(len(expected["tokens"]) - 1)
        if q > 1:
            expected["tiles"] += [(row, start) for start in range(0, q, TILE)]
    return expected


@pytest.mark.parametrize("seed", range(3))
def test_the_arrays_of_every_pass_equal_those_made_one_by_one(seed: int) -> None:
    builder, at = _builder()
    scheduler = Scheduler(CONFIG)
    table = np.zeros((CONFIG.max_num_seqs, 33), dtype=np.int32)  # as the device has it
    for request in _requests(seed):
        scheduler.add_request(request)
    preempted = 0
    while scheduler.requests:
        output = scheduler.schedule()
        preempted += len(output.victims)
        batch = builder.build(output)
        expected = _one_by_one(scheduler, output, batch.request_ids)
        for name in ("tokens", "positions", "slots"):
            assert at[name][: batch.num_tokens].tolist() == expected[name]
        assert at["seq_lens"][: batch.num_seqs].tolist() == expected["seq_lens"]
        assert at["sample"][: batch.num_sampled].tolist() == expected["sample"]
        tiles = zip(
            at["tile_seq"][: batch.num_tiles], at["tile_start"][: batch.num_tiles], strict=True
        )
        assert list(tiles) == expected["tiles"]
        q = [output.num_scheduled_tokens[each] for each in batch.request_ids]
        assert at["cu_q"][: batch.num_seqs + 1].tolist() == [0, *np.cumsum(q).tolist()]
        assert batch.num_decodes == q.count(1)
        assert q[: batch.num_decodes] == [1] * batch.num_decodes
        updates = at["update_at"][: batch.num_updates]
        table.reshape(-1)[updates] = at["update_block"][: batch.num_updates]
        if batch.late_updates is not None:
            table.reshape(-1)[batch.late_updates[0]] = batch.late_updates[1]
        for row, request_id in zip(at["rows"], batch.request_ids, strict=False):
            blocks = scheduler.requests[request_id].block_ids
            assert table[row, : len(blocks)].tolist() == blocks
        sampled = dict.fromkeys(output.num_scheduled_tokens, 1)
        for request, _, _ in output.prefills:
            if request.is_prefill_chunk:
                del sampled[request.request_id]
        scheduler.update_from_output(output, ModelRunnerOutput(sampled))
    assert preempted
    builder.build(scheduler.schedule())  # tells who finished last
    assert not builder.rows.row_of


def test_requests_that_share_a_block_by_name_share_its_tokens_and_others_do_not() -> None:
    names = PrefixNames(BLOCK, BLOCK)
    first, second, own = names.shared(32, [5, 6]), names.shared(48, [5, 6, 7]), names.own()
    places = np.arange(BLOCK, dtype=np.int32)

    def tokens(names: BlockNames, index: int) -> list[int]:
        seeds = np.full(BLOCK, seed_of(names.block_hash(index)), dtype=np.uint32)
        return tokens_of(seeds, places, 50_000).tolist()

    assert tokens(first, 1) == tokens(second, 1)
    assert tokens(first, 0) != tokens(first, 1)
    assert tokens(own, 0) != tokens(first, 0)
    assert len(set(tokens(own, 0))) > BLOCK // 2


def test_tokens_are_spread_over_the_vocabulary() -> None:
    seeds = np.repeat(np.arange(2000, dtype=np.uint32), BLOCK)
    offsets = np.tile(np.arange(BLOCK, dtype=np.int32), 2000)
    counts = np.bincount(tokens_of(seeds, offsets, 64), minlength=64)
    assert counts.min() > 0.8 * counts.mean()
    assert counts.max() < 1.2 * counts.mean()


def test_padding_has_length_0_and_writes_into_the_null_block() -> None:
    builder, at = _builder()
    builder.rows.place(Held("a", 20, BlockNames(1)), [3, 4])
    batch = builder.write({"a": 1}, [])
    builder.pad(batch, 4)
    assert at["seq_lens"][:4].tolist() == [20, 0, 0, 0]
    assert at["slots"][:4].tolist() == [4 * BLOCK + 3, 0, 0, 0]


@pytest.mark.parametrize(
    ("computed", "tokens", "blocks", "named"),
    [
        (5, 1, [30], "blocks 30 to 30; those of requests are 1 to 29"),
        (40, 1, [3, 30, 4], "blocks 3 to 30"),
        (5, 1, [0], "blocks 0 to 0"),
        (17, 1, [3], "has blocks for 16 tokens, and a pass writes its token 17"),
        (40, 40, [3, 4], "has blocks for 32 tokens"),
        (128, 128, range(1, 9), "has 128 tokens, and the buffer holds 96"),
        (512, 1, range(1, 30), "has blocks for 464 tokens"),
        (600, 1, range(1, 40), "has 39 blocks, and a row of the block table holds 33"),
    ],
)
def test_a_pass_outside_the_blocks_of_its_requests_is_never_written(
    computed: int, tokens: int, blocks: list[int], named: str
) -> None:
    builder, _ = _builder()

    def written() -> None:
        builder.rows.place(Held("a", computed, BlockNames(1)), blocks)
        builder.write({"a": tokens}, [])

    with pytest.raises(InvariantError, match=named):
        written()


def test_blocks_that_an_earlier_request_left_in_a_row_are_not_the_next_ones() -> None:
    builder, _ = _builder()
    builder.rows.place(Held("a", 40, BlockNames(1)), [3, 4, 5])
    builder.rows.release("a")
    builder.rows.place(Held("b", 20, BlockNames(2)), [6])
    with pytest.raises(InvariantError, match="request b has blocks for 16 tokens"):
        builder.write({"b": 1}, [])


def test_a_table_without_a_free_row_refuses_a_request() -> None:
    rows = RowTable(1, 8)
    rows.place(Held("a", 5, BlockNames(1)), [3])
    with pytest.raises(InvariantError, match="b has no row: all 1 of the block table"):
        rows.place(Held("b", 5, BlockNames(2)), [4])


def test_a_row_keeps_its_place_while_blocks_are_added_and_gives_it_back() -> None:
    rows = RowTable(2, 8)
    first = rows.place(Held("a", 5, BlockNames(1)), [3])
    second = rows.place(Held("b", 5, BlockNames(2)), [4])
    rows.append("a", [7])
    assert rows.blocks[first, :2].tolist() == [3, 7]
    rows.release("a")
    assert rows.place(Held("c", 5, BlockNames(3)), [9]) == first
    assert rows.row_of == {"b": second, "c": first}
    rows.release("never placed")


def test_rows_of_requests_that_left_between_passes_are_taken_back_when_room_is_needed() -> None:
    rows = RowTable(2, 8)
    evicted = Held("a", 5, BlockNames(1))
    rows.place(evicted, [3])
    rows.place(Held("b", 5, BlockNames(2)), [4])
    evicted.status = RequestStatus.PREEMPTED
    rows.place(Held("c", 5, BlockNames(3)), [5])
    assert set(rows.row_of) == {"b", "c"}


def test_block_table_entries_beyond_the_buffer_are_handed_over_apart() -> None:
    builder, at = _builder(max_updates=4)
    builder.rows.place(Held("a", 100, BlockNames(1)), [1, 2, 3, 4, 5, 6, 7])
    batch = builder.write({"a": 1}, [])
    assert batch.num_updates == 4
    assert batch.late_updates is not None
    in_buffer = at["update_block"][:4].tolist()
    assert in_buffer + batch.late_updates[1].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert builder.write({"a": 1}, []).num_updates == 0


def test_every_array_of_the_buffer_begins_aligned() -> None:
    layout = Layout(13, 5, 7, 3)
    assert all(place.start % 16 == 0 for place in layout.regions().values())
    assert layout.size % 16 == 0
