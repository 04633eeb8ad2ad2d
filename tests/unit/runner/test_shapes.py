import numpy as np
import pytest

from schedbench.runner.capture import bucket_of, capture_sizes, decode_splits
from schedbench.runner.shapes import PassShape, Row, features, of_rows, rows_of
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.output import ModelRunnerOutput, SchedulerOutput
from schedbench.sched.prefix_identity import PrefixNames
from schedbench.sched.request import Request
from schedbench.sched.scheduler import Scheduler


def _requests(seed: int, count: int) -> list[Request]:
    rng = np.random.default_rng(seed)
    names = PrefixNames(16, 16)
    made = []
    for index in range(count):
        prompt = int(rng.integers(1, 200))
        ids = [int(rng.integers(0, 2)) * 1000 + block for block in range(-(-prompt // 16))]
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


def _passes(seed: int) -> list[tuple[SchedulerOutput, PassShape, PassShape]]:
    """Drive a scheduler with a tight pool; each pass with its shape, both ways."""
    config = SchedulerConfig(
        max_num_batched_tokens=96, max_num_seqs=16, max_model_len=512, num_gpu_blocks=40
    )
    scheduler = Scheduler(config)
    for request in _requests(seed, 30):
        scheduler.add_request(request)
    found = []
    while scheduler.requests:
        output = scheduler.schedule()
        unsampled = [r.request_id for r, _, _ in output.prefills if r.is_prefill_chunk]
        rows = rows_of(output)
        shape = of_rows(rows, num_sampled=len(rows) - len(unsampled))
        found.append((output, features(output), shape))
        sampled = dict.fromkeys(output.num_scheduled_tokens, 1)
        for request_id in unsampled:
            del sampled[request_id]
        scheduler.update_from_output(output, ModelRunnerOutput(sampled))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_features_taken_from_the_sums_equal_those_counted_row_by_row(seed: int) -> None:
    passes = _passes(seed)
    assert any(output.victims for output, _, _ in passes)
    for _, quick, slow in passes:
        assert quick == slow


def test_a_chunk_sees_its_context_and_itself_up_to_each_token() -> None:
    q, ctx = 3, 5
    pairs = sum(ctx + token + 1 for token in range(q))
    assert of_rows([Row(q, ctx)]).attn_pairs == pairs


def test_a_row_of_one_token_is_a_decode_whatever_it_is_called() -> None:
    shape = of_rows([Row(1, 31), Row(1, 0)])
    assert (shape.num_chunks, shape.attn_pairs, shape.keys_read) == (0, 0, 33)
    assert shape.is_uniform_decode
    assert not of_rows([Row(1, 31), Row(2, 0)]).is_uniform_decode
    assert not of_rows([]).is_uniform_decode


def test_vllm_captures_51_sizes_up_to_512() -> None:
    sizes = capture_sizes(1024, 8192)
    assert len(sizes) == 51
    assert (sizes[:4], sizes[-1]) == ([1, 2, 4, 8], 512)
    assert 264 not in sizes
    assert 272 in sizes


def test_the_cap_is_twice_the_seats_and_never_more_than_a_pass() -> None:
    assert capture_sizes(8, 8192) == [1, 2, 4, 8, 16]
    assert capture_sizes(8, 13) == [1, 2, 4, 8, 13]


def test_a_batch_is_padded_to_the_next_captured_size() -> None:
    sizes = capture_sizes(1024, 8192)
    assert [bucket_of(n, sizes) for n in (1, 3, 9, 257, 512, 513)] == [1, 4, 16, 272, 512, None]


def test_splits_fill_the_gpu_and_depend_on_the_batch_alone() -> None:
    splits = [decode_splits(batch, 8, 132) for batch in (1, 8, 32, 64, 256)]
    assert splits == [32, 8, 2, 1, 1]
    assert all(count & (count - 1) == 0 for count in splits)
