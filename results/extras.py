"""Packages that a feature needs and an installation may lack: what for, and how to get them."""

from dataclasses import dataclass
from typing import Final

VLLM: Final = "make vllm-env in the clone, or pip install vllm"


@dataclass(frozen=True, slots=True)
class Extra:
    """What a package is for, and the extra of pyproject.toml that brings it."""

    purpose: str
    name: str | None

    @property
    def remedy(self) -> str:
        """This project is on no index: its extras are installed from its clone."""
        return VLLM if self.name is None else f"pip install '.[{self.name}]' in the clone"


EXTRAS: Final = {
    "torch": Extra("timing passes on this machine's GPU or CPU", "torch"),
    "vllm": Extra("comparing with the real scheduler", None),
    "transformers": Extra("--frontend hf: more architectures", "hf"),
    "scipy": Extra("fitting latency profiles", "torch"),
    "safetensors": Extra("--weights: real weights", "torch"),
    "optuna": Extra("tune", "tune"),
    "ray": Extra("sweep --executor ray", "ray"),
    "jinja2": Extra("reports as a page", "report"),
    "tsdownsample": Extra("reports of long runs", "report"),
}
"""By package. Nothing here is imported: that takes seconds."""


def remedy(package: str) -> str:
    """How to get it, as a message ends."""
    return EXTRAS[package].remedy
