import json
import re
import subprocess
import sys

import pytest
from cli_runs import Cli

COMMANDS = (
    [],
    ["replay"],
    ["sweep"],
    ["compare"],
    ["config"],
    ["trace"],
    *(["trace", name] for name in ("import", "describe", "check", "slice", "export", "synth")),
    ["verify"],
    ["doctor"],
)
HEAVY = ("numpy", "pyarrow", "rich", "torch", "vllm")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_that_is_never_cut(cli: Cli, words: list[str]) -> None:
    ran = cli(*words, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(" ".join(["Usage: schedbench", *words]))
    assert "…" not in ran.out
    assert "\x1b" not in ran.out
    prose = [line for line in ran.out.splitlines() if not line.startswith("  schedbench ")]
    assert max(map(len, prose)) <= 80


@pytest.mark.parametrize("words", [w for w in COMMANDS if w not in ([], ["trace"])], ids=" ".join)
def test_the_help_of_every_command_has_an_example(cli: Cli, words: list[str]) -> None:
    assert f"\n  schedbench {' '.join(words)}" in cli(*words, "--help").out


@pytest.mark.parametrize("words", [[], ["trace"]], ids=["schedbench", "trace"])
def test_a_group_alone_shows_its_commands(cli: Cli, words: list[str]) -> None:
    assert "\nCommands\n" in cli(*words).out


def test_help_names_every_scheduler_flag_with_its_default(cli: Cli) -> None:
    text = cli("replay", "--help").out
    assert re.search(r"--max-num-batched-tokens N\s+Most tokens in one pass", text)
    assert "[by GPU; 8192 for an H100]" in " ".join(text.split())
    assert "--[no-]enable-chunked-prefill" in text
    assert "--scheduling-policy fcfs|priority" in text


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_fast_because_it_loads_nothing_heavy(words: list[str]) -> None:
    script = (
        "import json, sys\n"
        "from schedbench.cli.main import run\n"
        f"run({[*words, '--help']!r})\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(out.splitlines()[-1]) == []
