"""What a replay leaves out of what the trace asks for is said."""

from pathlib import Path

import pytest
from cli_runs import Cli

ROW = '{{"arrival_ns":0,"prompt_tokens":{},"output_tokens":{}}}\n'


@pytest.mark.parametrize(
    ("prompt", "answer", "flags", "cut"),
    [
        (600, 600, ("--max-model-len", "1024"), "176"),
        (130_000, 5_000, (), "3,928"),
        (600, 600, ("--max-model-len", "1024", "--no-steady"), "176"),
        (600, 600, ("--max-model-len", "1024", "--no-async-scheduling"), "176"),
        (600, 600, ("--max-model-len", "1024", "--arrivals", "closed"), "176"),
        (600, 424, ("--max-model-len", "1024"), ""),
    ],
)
def test_tokens_that_the_context_does_not_hold_are_counted(
    cli: Cli, tmp_path: Path, prompt: int, answer: int, flags: tuple[str, ...], cut: str
) -> None:
    (tmp_path / "t.jsonl").write_text(ROW.format(prompt, answer))
    ran = cli("replay", "t.jsonl", "--no-store", "--cost", "pass:1ms", *flags)
    assert ran.code == 0
    said = " ".join(ran.err.split())
    assert ("ask for more than --max-model-len" in said) is bool(cut)
    assert not cut or f"end there: {cut} tokens that the trace asks for are not generated" in said


@pytest.mark.parametrize("command", ["replay", "config"])
def test_a_threshold_that_is_not_below_the_budget_is_called_inert(
    cli: Cli, tmp_path: Path, command: str
) -> None:
    (tmp_path / "t.jsonl").write_text(ROW.format(300, 16))
    words = ["replay", "t.jsonl", "--no-store"] if command == "replay" else ["config"]
    flags = ("--max-num-batched-tokens", "128", "--max-num-seqs", "8")
    ran = cli(*words, *flags, "--long-prefill-token-threshold", "256")
    assert ran.code == 0
    assert "--long-prefill-token-threshold 256 is inert" in " ".join(ran.err.split())
