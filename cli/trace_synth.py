"""`schedbench trace synth`: traffic that was never recorded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from schedbench.bounds import SEED, SOME, Bounds
from schedbench.cli.options import Printing
from schedbench.cli.trace_files import Target
from schedbench.cli.values import parse_count
from schedbench.errors import UsageError

if TYPE_CHECKING:
    from schedbench.workloads.generators.lengths import LengthModel
    from schedbench.workloads.generators.workload import Sessions, Workload

MOST_REQUESTS = Bounds(1, 100_000_000)  # some 50 bytes a row while they are drawn
Read = TypeVar("Read")
TRAFFIC, SESSIONS = "Traffic", "Sessions"


def _traffic(metavar: str, text: str, default: str | bool = False) -> typer.models.OptionInfo:
    """An option of the traffic; `default` is shown, not used."""
    found: typer.models.OptionInfo = typer.Option(
        metavar=metavar, help=text, show_default=default, rich_help_panel=TRAFFIC
    )
    return found


@dataclass(frozen=True)
class Traffic:
    """What decides a synthetic trace, as typed."""

    requests: Annotated[str, _traffic("N", "How many requests.", True)] = "1000"
    seed: Annotated[str, _traffic("N", "Equal seeds give equal traces.", True)] = "0"
    arrivals: Annotated[
        str,
        _traffic(
            "KIND:...",
            "poisson:rate=4, gamma:rate=4,burstiness=0.25, fixed:rate=4 or all-at-once; a second.",
            True,
        ),
    ] = "poisson:rate=1"
    prompt: Annotated[
        str,
        _traffic(
            "LENGTHS",
            "Prompt tokens: 512, uniform:low=1,high=9 or lognormal:median=512,sigma=1,high=8192.",
            True,
        ),
    ] = "lognormal:median=512,sigma=1"
    output: Annotated[str, _traffic("LENGTHS", "Output tokens, likewise.", True)] = (
        "lognormal:median=128,sigma=1"
    )
    lengths_of: Annotated[
        str | None,
        _traffic("TRACE", "Draw prompt and output lengths together from the rows of a trace."),
    ] = None
    prefixes: Annotated[
        str | None,
        _traffic(
            "TREE",
            "Shared beginnings: 4x1024/8x256,zipf=1 is 4 system prompts of 1,024 tokens with 8 "
            "documents of 256 below each.",
        ),
    ] = None
    hash_block_tokens: Annotated[str, _traffic("N", "Tokens that a prefix id covers.", True)] = "16"
    priority: Annotated[
        str | None, _traffic("CHOICE", "Priorities with weights, such as 0=3,1=1.")
    ] = None
    client: Annotated[str | None, _traffic("CHOICE", "Clients with weights.")] = None
    lora: Annotated[
        str | None, _traffic("CHOICE", "Adapters with weights; 0 is the base model.")
    ] = None
    turns: Annotated[
        str | None,
        _traffic("LENGTHS", "Turns of a conversation; arrivals are then those of first turns."),
    ] = None
    think_ms: Annotated[
        str | None, _traffic("LENGTHS", "Time between an answer and the next turn, in ms.")
    ] = None
    followup: Annotated[
        str | None, _traffic("LENGTHS", "Tokens that a later turn adds to what was said.")
    ] = None


def synth(*, traffic: Traffic, target: Target, printing: Printing) -> None:
    """Make a synthetic trace; the same options and seed make the same rows everywhere.

    schedbench trace synth --requests 5k --turns uniform:low=1,high=6 -o chat.parquet
    """
    from schedbench.cli.print_view import print_view
    from schedbench.cli.trace_sheets import written_view
    from schedbench.workloads.generators.synth import synth as make

    target.check()
    made = make(_workload(traffic))
    target.write(made)
    print_view(written_view(made, target.file), printing.chosen)


def _workload(traffic: Traffic) -> "Workload":
    from schedbench.workloads.generators.options import (
        parse_arrivals,
        parse_choice,
        parse_prefixes,
    )
    from schedbench.workloads.generators.workload import Workload

    return Workload(
        requests=parse_count(traffic.requests, "--requests", MOST_REQUESTS),
        seed=parse_count(traffic.seed, "--seed", SEED),
        arrivals=_read("--arrivals", parse_arrivals, traffic.arrivals),
        lengths=_lengths(traffic),
        prefixes=_read_given("--prefixes", parse_prefixes, traffic.prefixes),
        sessions=_sessions(traffic),
        hash_block_tokens=parse_count(traffic.hash_block_tokens, "--hash-block-tokens", SOME),
        priority=_read_given("--priority", parse_choice, traffic.priority),
        client=_read_given("--client", parse_choice, traffic.client),
        lora=_read_given("--lora", parse_choice, traffic.lora),
    )


def _read(option: str, parse: Callable[[str], Read], text: str) -> Read:
    """Parse what was typed; an error names the option too."""
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def _read_given(option: str, parse: Callable[[str], Read], text: str | None) -> Read | None:
    return None if text is None else _read(option, parse, text)


def _lengths(traffic: Traffic) -> "LengthModel":
    from schedbench.workloads.generators.lengths import Empirical, Lengths
    from schedbench.workloads.generators.options import parse_distribution
    from schedbench.workloads.importers.registry import load_trace

    if traffic.lengths_of is not None:
        return Empirical(load_trace(traffic.lengths_of))
    return Lengths(
        _read("--prompt", parse_distribution, traffic.prompt),
        _read("--output", parse_distribution, traffic.output),
    )


def _sessions(traffic: Traffic) -> "Sessions | None":
    from schedbench.workloads.generators.options import parse_distribution
    from schedbench.workloads.generators.workload import Sessions

    if traffic.turns is None:
        if traffic.think_ms or traffic.followup:
            raise UsageError("--think-ms and --followup are of conversations: give --turns too")
        return None
    think = _read_given("--think-ms", parse_distribution, traffic.think_ms)
    return Sessions(
        turns=_read("--turns", parse_distribution, traffic.turns),
        think_ms=Sessions().think_ms if think is None else think,
        followup=_read_given("--followup", parse_distribution, traffic.followup),
    )
