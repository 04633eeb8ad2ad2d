"""A fitted profile: coefficients, where they hold, how well, and what they were measured on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from schedbench.errors import OutputError, UsageError
from schedbench.runner.latency.components import Coefficients
from schedbench.runner.latency.hardware import Gpu, known_gpu
from schedbench.runner.models import ModelSpec, MoeSpec, RopeScaling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from schedbench.runner.shapes import PassShape

SCHEMA: Final = "schedbench.latency-profile/1"


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors over passes: mean absolute, its 95th percentile, and of the total time."""

    num_passes: int
    mape: float
    p95: float
    bias: float


@dataclass(frozen=True, slots=True)
class Profile:
    """What `schedbench profile` writes. `ranges` are the least and the most of each feature."""

    model: ModelSpec
    gpu: str
    dtype: str
    attention: str
    coefficients: Coefficients
    ranges: Mapping[str, tuple[int, int]]
    fit: Errors
    held_out: Errors | None
    grid_hash: str
    versions: Mapping[str, str]
    unidentified: tuple[str, ...] = ()  # coefficients that no measured pass depends on
    notes: tuple[str, ...] = ()
    ceilings: Mapping[str, float] = field(default_factory=dict)  # FLOP/s, bytes/s behind the e

    def outside(self, shape: PassShape) -> list[str]:
        """Features of the pass that lie beyond what was measured; below the least is no harm."""
        return [name for name, (_, most) in self.ranges.items() if getattr(shape, name) > most]

    def card(self) -> Gpu:
        """The GPU with the ceilings that the shares refer to; not every GPU is in the table."""
        rates = self.ceilings
        known = known_gpu(self.gpu) or Gpu(
            self.gpu, 0.0, 0.0, 0, 0.0, 0, 0.0, "the profile itself", ()
        )
        if not rates:
            return known
        return replace(
            known,
            measured_tflops=rates["flops"] / 1e12,
            measured_gb_s=rates["bandwidth"] / 1e9,
            num_sms=int(rates["num_sms"]),
        )

    def to_json(self) -> bytes:
        """The file's content, with sorted keys."""
        content = {"schema": SCHEMA, **asdict(self)}
        return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"

    def save(self, path: Path) -> None:
        """Write the file. Raises OutputError where that fails."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.to_json())
        except OSError as error:
            raise OutputError(f"{path}: cannot write the profile: {error}") from error


def load_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        UsageError: no such file, no JSON, another schema, or a field missing.
    """
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--profile {path}: cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise UsageError(f"--profile {path}: is no JSON: {error}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UsageError(
            f"--profile {path}: its schema is not {SCHEMA}; `schedbench profile` writes such a file"
        )
    try:
        return _profile(content)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"--profile {path}: a field is missing or wrong: {error}") from error


def _profile(content: dict[str, Any]) -> Profile:
    held_out = content["held_out"]
    return Profile(
        model=_model(content["model"]),
        gpu=content["gpu"],
        dtype=content["dtype"],
        attention=content["attention"],
        coefficients=Coefficients(**content["coefficients"]),
        ranges={name: (low, high) for name, (low, high) in content["ranges"].items()},
        fit=Errors(**content["fit"]),
        held_out=Errors(**held_out) if held_out else None,
        grid_hash=content["grid_hash"],
        versions=content["versions"],
        unidentified=tuple(content["unidentified"]),
        notes=tuple(content["notes"]),
        ceilings=content["ceilings"],
    )


def _model(content: dict[str, Any]) -> ModelSpec:
    rope, moe = content["rope_scaling"], content["moe"]
    nested = {
        "rope_scaling": RopeScaling(**rope) if rope else None,
        "moe": MoeSpec(**moe) if moe else None,
    }
    return ModelSpec(**{**content, **nested})
