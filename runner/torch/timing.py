"""Device time: CUDA events on a GPU, the host's clock on a CPU, where the two are one."""

from __future__ import annotations

import time

import torch


class DeviceTimer:
    """Time from `start` to `stop` on the device, in ns, read after one wait."""

    def __init__(self, device: torch.device) -> None:
        self._events = None
        if device.type == "cuda":
            self._events = (
                torch.cuda.Event(enable_timing=True),
                torch.cuda.Event(enable_timing=True),
            )
        self._started = self._stopped = 0

    def start(self) -> None:
        if self._events:
            self._events[0].record()
        else:
            self._started = time.perf_counter_ns()

    def stop(self) -> None:
        if self._events:
            self._events[1].record()
        else:
            self._stopped = time.perf_counter_ns()

    def wait(self) -> int:
        """Wait until the device is through; returns ns, at least 1."""
        if not self._events:
            return max(1, self._stopped - self._started)
        self._events[1].synchronize()
        return max(1, round(float(self._events[0].elapsed_time(self._events[1])) * 1e6))
