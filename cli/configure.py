"""From flags on a command line to the configuration of a replay."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedbench.cli import console
from schedbench.cli.serve_args import ServeArgs, parse_serve_args
from schedbench.cli.values import FLAGS, parse_value, show_value, shown_option
from schedbench.sched.config import SchedulerConfig

ABOUT_THE_SERVER = (
    "num_gpu_blocks",
    "block_size",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_model_len",
)
"""Flags whose defaults are guesses: a real server derives them from its model and its GPU."""


@dataclass(frozen=True)
class Settings:
    """What a command line says of the scheduler: `given` by field, and what it leaves open."""

    given: dict[str, Any]
    without_effect: dict[str, list[str]] = field(default_factory=dict)

    def config(self, **changed: Any) -> SchedulerConfig:  # noqa: ANN401 - by field
        """The configuration, with some flags changed. Raises what SchedulerConfig raises."""
        return SchedulerConfig(**{**self.given, **changed})

    def assumed(self, *apart: str) -> dict[str, str]:
        """Flags about the server that nobody gave, with the value they got; some left out."""
        names = [name for name in ABOUT_THE_SERVER if name not in {*self.given, *apart}]
        return {shown_option(name): show_value(FLAGS[name].default) for name in names}


def settle(given: Mapping[str, Any], serve_args: str | None) -> Settings:
    """Put `--serve-args` and single flags together; the single ones win, and it is said."""
    served = ServeArgs() if serve_args is None else parse_serve_args(serve_args)
    from_server = {name: parse_value(name, text) for name, text in served.used.items()}
    for name in given.keys() & from_server.keys():
        if given[name] != from_server[name]:
            console.note(
                f"{shown_option(name)} is {show_value(given[name])} as given, "
                f"not {show_value(from_server[name])} as in --serve-args"
            )
    for about, names in served.without_effect.items():
        console.note(f"no effect on scheduling: {', '.join(names)} ({about})")
    return Settings({**from_server, **given}, served.without_effect)
