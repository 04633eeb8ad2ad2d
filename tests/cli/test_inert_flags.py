"""A flag that cannot change anything in its configuration is called so, whichever command runs."""

import json
from pathlib import Path

import pytest
from cli_runs import Cli

TRACE = {"arrival_ns": 0, "prompt_tokens": 300, "output_tokens": 16}
SMALL = ("--max-num-batched-tokens", "128", "--max-num-seqs", "8", "--num-gpu-blocks", "100")
NEWEST = ("--vllm-version", "0.33.0")


@pytest.mark.parametrize("command", ["replay", "config", "explain", "sweep", "report"])
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--long-prefill-token-threshold", "256"), "--long-prefill-token-threshold 256"),
        (("--watermark", "0.005"), "--watermark 0.005"),
        (("--max-num-active-seqs", "8", *NEWEST), "--max-num-active-seqs 8"),
        (("--disable-eagle-block-drop", *NEWEST), "--disable-eagle-block-drop"),
        (("--long-prefill-token-threshold", "64", "--watermark", "0.05"), ""),
    ],
)
def test_a_flag_that_changes_nothing_is_called_inert(
    cli: Cli, tmp_path: Path, command: str, flags: tuple[str, ...], said: str
) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps(TRACE))
    replayed = ("t.jsonl", "--cost", "pass:1ms", *SMALL, *flags)
    if command in ("explain", "report"):
        cli("replay", *replayed, "--out", "run")
    match command:
        case "config":
            ran = cli("config", *SMALL, *flags)
        case "explain":
            ran = cli("explain", "run", "--no-what-if")
        case "report":
            ran = cli("report", "run", "-o", "page.html")
        case "sweep":
            ran = cli("sweep", *replayed, "--block-size", "16,32", "--no-store")
        case _:
            ran = cli(command, *replayed, "--no-store")
    assert ran.code == 0, ran.err
    page = Path("page.html").read_text() if command == "report" else ran.err
    shown = " ".join(page.split())
    assert f"{said} is inert" in shown if said else "is inert" not in shown


@pytest.mark.parametrize("more", [(), ("--max-model-len", "512"), ("--max-num-seqs", "4")])
def test_a_usage_that_does_not_exist_is_refused_whatever_else_is_given(
    cli: Cli, more: tuple[str, ...]
) -> None:
    ran = cli("config", "--usage-context", "64", *more)
    assert ran.code == 2
    assert "--usage-context 64: it is server or llm" in ran.err
