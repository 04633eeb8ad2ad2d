"""Which source of time a command means: typed costs, recorded times, a profile or the roofline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from schedbench.errors import UsageError
from schedbench.runner.clock import parse_cost
from schedbench.runner.latency.hardware import Gpu, find_gpu
from schedbench.runner.latency.profile import Profile, load_profile
from schedbench.runner.latency.recorded import RecordedRunner
from schedbench.runner.latency.runner import LatencyRunner
from schedbench.runner.latency.work import WorkModel
from schedbench.runner.model_config import load_model

if TYPE_CHECKING:
    from schedbench.runner.api import Runner
    from schedbench.runner.models import ModelSpec

DEFAULT_MODEL: Final = "llama-3.1-8b"
DEFAULT_GPU: Final = "H100-SXM"
PROFILES: Final = Path(__file__).parent / "profiles"


def make_runner(
    cost: str | None = None,
    model: str | Path | None = None,
    gpu: str | None = None,
    profile: str | Path | None = None,
    recorded: str | Path | None = None,
    *,
    tensor_parallel_size: int = 1,
    dtype: str = "bfloat16",
    eager: bool = False,
    profiles: Path = PROFILES,
) -> Runner:
    """Make the runner that the options name; the same on every machine.

    `cost` and `recorded` stand alone. Else the profile given, else the one that is kept for model
    and GPU, else the roofline; model and GPU default to Llama-3.1-8B on an H100.

    Raises:
        UsageError: options that exclude each other, or a profile of another model or GPU.
    """
    _check_alone(cost=cost, recorded=recorded, profile=profile, model=model, gpu=gpu)
    if cost is not None:
        return parse_cost(cost)
    if recorded is not None:
        return RecordedRunner.from_run(recorded)
    if profile is not None:
        return _fitted(load_profile(Path(profile)), str(profile), model, gpu, eager=eager)
    spec, card = load_model(model or DEFAULT_MODEL), find_gpu(gpu or DEFAULT_GPU)
    work = WorkModel(spec, card, dtype, tensor_parallel_size)
    kept = _kept(spec, card, profiles)
    if kept is not None and (kept.dtype, tensor_parallel_size) == (dtype, 1):
        return LatencyRunner(WorkModel(spec, kept.card(), dtype), kept, eager=eager)
    return LatencyRunner(work, eager=eager)


def _fitted(
    found: Profile, path: str, model: str | Path | None, gpu: str | None, *, eager: bool
) -> Runner:
    card = found.card()
    if gpu is not None and find_gpu(gpu).name != card.name:
        raise UsageError(f"--profile {path} was measured on {card.name}, and --gpu is {gpu}")
    if model is not None and load_model(model).name != found.model.name:
        raise UsageError(
            f"--profile {path} was measured with {found.model.name}, and --model is {model}"
        )
    return LatencyRunner(WorkModel(found.model, card, found.dtype), found, eager=eager)


def profile_name(model: ModelSpec, gpu: Gpu) -> str:
    """The file under which a profile is kept: it is found again by model and GPU."""
    return f"{model.name.lower()}--{gpu.name.lower()}.json"


def _kept(model: ModelSpec, gpu: Gpu, profiles: Path) -> Profile | None:
    path = profiles / profile_name(model, gpu)
    if not path.is_file():
        return None
    kept = load_profile(path)
    return kept if kept.model == model else None


def _check_alone(**given: object) -> None:
    """A typed cost or recorded times say everything; a second source would be ignored."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    if len(named) > 1 and named[0] in ("--cost", "--recorded"):
        raise UsageError(
            f"{named[0]} says how long each pass takes, so {', '.join(named[1:])} would have no "
            "effect; leave one out"
        )
