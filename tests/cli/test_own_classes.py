"""Whose fault it is: a class of somebody's own is named with its method and line, or its cause."""

from pathlib import Path

import pytest
from cli_runs import Cli

from schedbench.workloads.store import write_trace
from schedbench.workloads.trace import Trace

TIGHT = ("--num-gpu-blocks", "80", "--max-model-len", "1024", "--no-store")
CALL = "def {}(self, request, state): return {}"


def _replay(cli: Cli, small: Path, body: str) -> str:
    """What a replay under a policy with one method says, on the last line."""
    name = Path.cwd().name  # another module in each test
    lines = ["import schedbench", "class Own(schedbench.Policy):", f"    {body}"]
    Path(f"{name}.py").write_text("\n".join(lines) + "\n")
    ran = cli("replay", small, *TIGHT, "--policy-class", f"{name}:Own")
    assert ran.code in (2, 3), ran
    assert "fault of schedbench" not in ran.err
    return ran.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("method", "body", "said"),
    [
        ("waiting_key", CALL.format("waiting_key", "None"), "returned None; a number is"),
        (
            "waiting_key",
            CALL.format("waiting_key", "(1,) if int(request.request_id) % 2 else 1"),
            "; keys are compared, so all have",
        ),
        ("may_admit", CALL.format("may_admit", "None"), "returned None; True or False"),
        ("headroom_blocks", CALL.format("headroom_blocks", "0.5"), "returned 0.5; a whole"),
        ("pass_budget", "def pass_budget(self, state): return 'x'", "returned 'x'; a whole"),
        (
            "chunk_tokens",
            "def chunk_tokens(self, request, granted, state): return None",
            "returned None; a whole number",
        ),
        ("victim", "def victim(self, request): return request", "victim(self, request, state)"),
        ("__init__", "def __init__(self, x): pass", "it is called as __init__(self)"),
    ],
)
def test_a_policy_that_is_no_policy_is_named_with_its_method_and_line(
    cli: Cli, small: Path, method: str, body: str, said: str
) -> None:
    told = _replay(cli, small, body)
    assert told.startswith("error: --policy-class: ")
    assert f":Own fails in {method} (" in told
    assert ".py, line 3)" in told
    assert said in told


def test_a_scheduler_that_is_called_otherwise_is_named_with_its_method_and_line(
    cli: Cli, small: Path
) -> None:
    Path("other.py").write_text(
        "import schedbench\nclass Own(schedbench.Scheduler):\n    def schedule(self): ...\n"
    )
    ran = cli("replay", small, *TIGHT, "--scheduler", "other:Own")
    assert ran.code == 2
    assert "--scheduler: other:Own fails in schedule (" in ran.err
    assert "other.py, line 3)" in ran.err


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (CALL.format("may_admit", "False"), "may_admit returns False for request 0"),
        ("def chunk_tokens(self, request, granted, state): return 0", "chunk_tokens returns 0 for"),
        ("def pass_budget(self, state): return 0", "pass_budget returns 0, so no pass"),
        (CALL.format("headroom_blocks", "10**9"), "headroom_blocks returns 1000000000 for"),
    ],
)
def test_a_policy_that_lets_nothing_happen_is_named_where_the_replay_stalls(
    cli: Cli, small: Path, body: str, said: str
) -> None:
    told = _replay(cli, small, body)
    assert told.startswith("error: stalled: no request can be scheduled any more. policy Own: ")
    assert said in told
    assert "--num-gpu-blocks" not in told


@pytest.mark.parametrize(
    ("flags", "short"),
    [
        ((), ("--max-num-encoder-input-tokens", "--encoder-cache-size")),
        (("--max-num-encoder-input-tokens", "10000"), ("--encoder-cache-size",)),
        (("--encoder-cache-size", "10000"), ("--max-num-encoder-input-tokens",)),
    ],
)
def test_an_encoder_item_that_no_pass_can_hold_is_named_with_the_flags_that_help(
    cli: Cli, tmp_path: Path, flags: tuple[str, ...], short: tuple[str, ...]
) -> None:
    item = {"offset": 100, "tokens": 10_000, "embeds": None, "hash": 1}
    columns = {"arrival_ns": [0], "prompt_tokens": [20_000], "output_tokens": [4]}
    write_trace(Trace.from_columns({**columns, "encoder": [[item]]}), tmp_path / "big.parquet")
    ran = cli("replay", "big.parquet", *flags, "--no-store")
    assert ran.code == 3
    assert "request 0 has an encoder item of 10000 embeddings at token 100" in ran.err
    assert ran.err.endswith(f"give {' and '.join(f'{each} 10000' for each in short)} or more\n")
    grown = [word for each in (*flags[::2], *short) for word in (each, "10000")]
    assert cli("replay", "big.parquet", *grown, "--no-store").code == 0
