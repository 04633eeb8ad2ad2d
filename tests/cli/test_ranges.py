import pytest

from schedbench.cli.ranges import parse_costs, parse_flag_values, parse_speedups
from schedbench.errors import UsageError


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("max_num_seqs", "64", [64]),
        ("max_num_seqs", "64,128", [64, 128]),
        ("max_num_seqs", "64:256:+64", [64, 128, 192, 256]),
        ("max_num_seqs", "64:255:+64", [64, 128, 192]),
        ("max_num_batched_tokens", "2048:16384:x2", [2048, 4096, 8192, 16384]),
        ("max_num_batched_tokens", "2k:16K:x2,100", [2000, 4000, 8000, 16000, 100]),
        ("watermark", "0:0.1:+0.05,0.3", [0.0, 0.05, 0.1, 0.3]),
        ("enable_chunked_prefill", "on,off", [True, False]),
        ("policy", "fcfs,priority", ["fcfs", "priority"]),
    ],
)
def test_lists_and_ranges_are_read_by_the_type_of_the_flag(
    name: str, text: str, values: list[object]
) -> None:
    assert parse_flag_values(name, text) == values


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("max_num_seqs", "64:128", "has no step; write a list (64,128,256) or a range"),
        ("max_num_seqs", "64:128:64", "the step '64' is not +N or xN"),
        ("max_num_seqs", "128:64:+1", "does not go up"),
        ("max_num_seqs", "64:128:x1", "does not go up"),
        ("watermark", "0:0.5:x2", "does not go up"),
        ("max_num_seqs", "0:128:x2", "it must be from 1 to 2147483647"),
        ("watermark", "0:0.5:+nan", "the step '+nan' is not +N or xN"),
        ("watermark", "0.1:0.5:x1e999999", "the step 'x1e999999' is not +N or xN"),
        ("watermark", "nan:0.5:+0.1", "it must be from 0 to below 1"),
        ("max_num_seqs", "3:10:x1.5", "comes upon fractions"),
        ("max_num_seqs", "1:9999:+1", "has over 1000 values"),
        ("max_num_seqs", "8,8", "has a value twice"),
        ("max_num_seqs", "", "'' is no whole number"),
        ("enable_chunked_prefill", "on:off", "is neither on nor off"),
    ],
)
def test_what_is_no_list_is_refused_with_the_form(name: str, text: str, said: str) -> None:
    with pytest.raises(UsageError, match="--") as caught:
        parse_flag_values(name, text)
    assert said in str(caught.value)


def test_speedups_stay_exact_decimals_and_costs_keep_their_commas() -> None:
    assert parse_speedups("1.1,2:8:x2") == ["1.1", "2", "4", "8"]
    assert parse_costs("linear:8ms,0.03ms,pass:1ms") == ["linear:8ms,0.03ms", "pass:1ms"]
