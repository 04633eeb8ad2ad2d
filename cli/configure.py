"""From flags on a command line to the configuration of a replay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedbench.cli import console
from schedbench.cli.release import release_set, tell_installed
from schedbench.cli.serve_args import ServeArgs, parse_serve_args
from schedbench.cli.serving import (
    assumed_serving,
    known_model,
    make_deployment,
    refuse_unmodelled,
    spelling,
)
from schedbench.cli.values import FLAGS, parse_value, show_value, shown_option

if TYPE_CHECKING:
    from schedbench.runner.deployment import Deployment
    from schedbench.sched.config import SchedulerConfig

ABOUT_THE_SERVER = (
    "num_gpu_blocks",
    "block_size",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_model_len",
)
"""Flags whose defaults are guesses: a real server derives them from its model and its GPU."""

SAMPLE_BLOCKS = 2_500
"""The shipped sample's pool: small, so that its traffic fills it and requests are evicted."""

NOTHING: Mapping[str, Any] = {}
_DECIDE_THE_POOL = {"num_gpu_blocks", "gpu", "gpu_memory_utilization", "recorded"}


@dataclass(frozen=True)
class Settings:
    """What a command line says: `given` by flag, what serves, and flags that stand in.

    A flag that stands in holds where it is not given: the shipped sample's pool, a release that the
    surroundings set.
    """

    given: dict[str, Any]
    deployment: "Deployment"
    without_effect: dict[str, list[str]] = field(default_factory=dict)
    standing_in: dict[str, Any] = field(default_factory=dict)

    @property
    def flags(self) -> dict[str, Any]:
        """Flags that are not derived."""
        return {**self.standing_in, **self.given}

    def config(self) -> "SchedulerConfig":
        """The configuration. Raises what SchedulerConfig and Deployment raise."""
        return self.deployment.config(self.flags)

    def assumed(self, *apart: str) -> dict[str, str]:
        """Flags about the server that nobody gave, with the value they got; some left out."""
        if self.deployment.recorded is not None:
            return {}
        plans_pool = "num_gpu_blocks" not in {*self.flags, *apart}
        serving = assumed_serving(self.deployment, plans_pool=plans_pool)
        varied = {spelling(name) for name in apart}
        found = {option: text for option, text in serving.items() if option not in varied}
        settled = {**self.deployment.derived(self.flags), **self.standing_in}
        varies = {name for name in settled if name in self._derived_anew(apart)}
        for name in ABOUT_THE_SERVER:
            if name not in {*self.given, *apart}:
                value = show_value(settled.get(name, FLAGS[name].default))
                found[shown_option(name)] = "(anew at each point)" if name in varies else value
        return found

    def _derived_anew(self, axes: Sequence[str]) -> set[str]:
        """Flags that a server derives from something that a sweep varies."""
        from schedbench.runner.deployment import DERIVED, SERVING_AXES

        if set(axes) & (set(SERVING_AXES) - {"cost"}):
            return set(DERIVED) - self.standing_in.keys()
        if set(axes) & {*DERIVED, "block_size"}:
            return {"num_gpu_blocks"} - self.standing_in.keys()
        return set()


def settle(
    given: Mapping[str, Any],
    serve_args: str | None,
    serving: Mapping[str, Any] = NOTHING,
    *,
    is_sample: bool = False,
    axes: Mapping[str, Any] | None = None,
    has_release: bool = False,
) -> Settings:
    """Put `--serve-args` and single options together; the single ones win, and it is said.

    Args:
        given: flags as typed.
        serve_args: a server's command line.
        serving: model, GPU, source of time.
        is_sample: the shipped sample is replayed, on a pool of its own.
        axes: what a sweep varies, which is in none of the others.
        has_release: something else says which release is followed, such as a baseline.
    """
    served = ServeArgs() if serve_args is None else parse_serve_args(serve_args)
    said = {*given, *serving, *(axes or {})}
    from_server = {name: parse_value(name, text) for name, text in served.used.items()}
    for name in given.keys() & from_server.keys():
        if given[name] != from_server[name]:
            console.note(
                f"{shown_option(name)} is {show_value(given[name])} as given, "
                f"not {show_value(from_server[name])} as in --serve-args"
            )
    for about, names in served.without_effect.items():
        console.note(f"no effect on scheduling: {', '.join(names)} ({about})")
    standing_in = (
        {} if not is_sample or said & _DECIDE_THE_POOL else {"num_gpu_blocks": SAMPLE_BLOCKS}
    )
    if "recorded" not in serving and not has_release:
        standing_in |= {} if "vllm_version" in said else release_set()
        followed = {"vllm_version": FLAGS["vllm_version"].default, **standing_in, **given}
        tell_installed((axes or {}).get("vllm_version", [followed["vllm_version"]]))
    if "recorded" in serving:
        console.note(f"flags that are not given are those of {serving['recorded']}")
    return Settings(
        {name: value for name, value in from_server.items() if name not in said} | dict(given),
        make_deployment(serving, _served(served, said)),
        served.without_effect,
        standing_in,
    )


def _served(served: ServeArgs, said: set[str]) -> dict[str, Any]:
    """Model and GPU of a server's command line; the model only if its widths are known here."""
    found = dict(served.served)
    name = found.pop("model", None)
    if name is None or "model" in said:
        return found
    refuse_unmodelled(name)
    known = known_model(name)
    if known is None:
        console.note(
            f"{name} is not built in: its times and its pool are taken to be those of "
            "llama-3.1-8b; give --model with a folder that has its config.json"
        )
        return found
    return {**found, "model": known}
