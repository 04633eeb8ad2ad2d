"""What a command line or a trace says and nothing reads is told or refused, never dropped."""

import pytest
from cli_runs import Cli
from feature_traces import path_of


@pytest.mark.parametrize(
    ("trace", "flags", "said"),
    [
        ("speculation", (), "column spec; without --spec-tokens N"),
        ("lora", (), "column lora; without --max-loras N"),
        ("async", ("--spec-acceptance", "0.5"), "--spec-acceptance 0.5 is inert"),
        ("async", ("--spec-method", "eagle"), "--spec-method eagle is inert"),
        ("async", ("--kv-load-failure-policy", "recompute"), "no column remote_kv"),
    ],
)
def test_a_replay_warns_once_of_what_nothing_reads(
    cli: Cli, trace: str, flags: tuple[str, ...], said: str
) -> None:
    ran = cli("replay", path_of(trace), *flags, "--no-store")
    assert ran.code == 0
    assert ran.err.count(said) == 1


@pytest.mark.parametrize(
    ("trace", "flags"),
    [
        ("speculation", ("--spec-tokens", "3", "--spec-method", "eagle")),
        ("lora", ("--max-loras", "1")),
        ("remote-kv", ("--kv-load-failure-policy", "recompute")),
    ],
)
def test_a_replay_does_not_warn_of_what_is_read(
    cli: Cli, trace: str, flags: tuple[str, ...]
) -> None:
    ran = cli("replay", path_of(trace), *flags, "--no-store")
    assert ran.code == 0
    assert not [line for line in ran.err.splitlines() if "inert" in line or "column" in line]


def test_config_calls_no_flag_inert_that_a_trace_may_set_going(cli: Cli) -> None:
    told = cli("config", "--kv-load-failure-policy", "recompute").out
    assert "no --kv-role; a trace with remote_kv reads it all the same" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--behaviour", "threshold-lone=on", "--behaviour", "zero-skip=off"),
            "--behaviour stands there twice; give it once, several with a +",
        ),
        (("--limit", "3", "--limit", "4"), "--limit stands there twice; give it once"),
        (
            ("--num-gpu-blocks", "80", "--num-gpu-blocks-override", "90"),
            "--num-gpu-blocks and --num-gpu-blocks-override are one option; give it once",
        ),
        (
            ("--async-scheduling", "--no-async-scheduling"),
            "--async-scheduling and --no-async-scheduling are one option; give it once",
        ),
        (("--behaviour", "threshold-lone=on+threshold-lone=off"), "threshold-lone stands there"),
    ],
)
def test_an_option_that_another_would_hide_is_refused(
    cli: Cli, words: tuple[str, ...], said: str
) -> None:
    ran = cli("replay", path_of("lora"), *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
