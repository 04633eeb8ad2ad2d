"""Which GPU a machine has, without asking its driver's tools or loading torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

DEVICE: Final = Path("/dev/nvidia0")
DRIVER: Final = Path("/proc/driver/nvidia/gpus")
HIDDEN: Final = ("", "-1", "none", "void")
NAMELESS: Final = "an NVIDIA GPU"


def seen_gpu(device: Path = DEVICE, driver: Path = DRIVER) -> str | None:
    """The first GPU by the name its driver gives it, or NAMELESS; None if there is none to use.

    Looks at files only. CUDA_VISIBLE_DEVICES may hide it.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").lower() in HIDDEN or not device.exists():
        return None
    for folder in sorted(driver.glob("*")):
        try:
            lines = (folder / "information").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, name = line.partition(":")
            if key.strip() == "Model" and name.strip():
                return name.strip()
    return NAMELESS
