"""Flags and options of a run, by field, in words that can be typed."""

from typing import Any, Final

UNSAID: Final = "not given"
_SPELLED: Final = {
    "think_ns": "--think-time",
    "warmup_ns": "--warmup",
    "slo_ns": "--slo",
    "usage": "--usage-context",
    "policy": "--scheduling-policy",
    "behaviours": "--behaviour",
    "num_gpu_blocks": "--num-gpu-blocks",
    "num_speculative_tokens": "--spec-tokens",
}
"""Options that are typed otherwise than their fields are called."""


def option_text(name: str) -> str:
    return _SPELLED.get(name) or f"--{name.replace('_', '-')}"


def value_text(name: str, value: Any) -> str:  # noqa: ANN401 - of any flag
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None or value in ([], {}):
        return UNSAID
    if isinstance(value, list | tuple):
        return ", ".join(value_text(name, each) for each in value)
    if isinstance(value, dict):
        return ",".join(f"{key}:{value_text(name, each)}" for key, each in value.items())
    return f"{value}ns" if name.endswith("_ns") else str(value)
