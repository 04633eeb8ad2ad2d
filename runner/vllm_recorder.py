"""Scheduler classes for vLLM's `--scheduler-cls` that record what the server decides.

    vllm serve MODEL --scheduler-cls schedbench.runner.vllm_recorder.RecordingAsyncScheduler

They are made over the installed vLLM's own classes when they are asked for, and change no decision:
each method calls the one it overrides and notes what came of it (docs/recording.md).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

from schedbench.errors import SchedbenchError, UnsupportedError, UsageError
from schedbench.runner.installed import vllm_version
from schedbench.runner.recording import Recording
from schedbench.runner.recording_settings import RecordingSettings
from schedbench.sched.config import RELEASES, SchedulerConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

BASES = {
    "RecordingScheduler": ("vllm.v1.core.sched.scheduler", "Scheduler"),
    "RecordingAsyncScheduler": ("vllm.v1.core.sched.async_scheduler", "AsyncScheduler"),
}


def __getattr__(name: str) -> Any:
    if name not in BASES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return recording_class(name)


@functools.cache
def recording_class(name: str) -> type:
    """The class of that name over the installed vLLM's.

    Raises:
        UnsupportedError: a release whose classes this was never held against.
    """
    _check_release()
    module, base_name = BASES[name]
    base = getattr(importlib.import_module(module), base_name)
    made = type(name, (_Recorded, base), {"is_async": base_name == "AsyncScheduler"})
    made.__module__ = __name__
    return made


def _check_release() -> None:
    found = _vllm_version()
    if found.partition("+")[0] not in RELEASES:
        raise UnsupportedError(
            f"vLLM {found}: the recording scheduler is held to {', '.join(RELEASES)} and "
            "subclasses their scheduler; install one of these, or leave --scheduler-cls out"
        )


def _vllm_version() -> str:
    try:
        return vllm_version()
    except importlib.metadata.PackageNotFoundError as error:
        raise UnsupportedError(
            "vLLM is not installed beside schedbench: install it, then record"
        ) from error


class _Recorded:
    """What is put over vLLM's class. Each method passes on whatever it is given."""

    is_async = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._recording: Recording | None = None  # vLLM's own may end requests while it is made
        super().__init__(*args, **kwargs)
        self._check_mode()
        settings = RecordingSettings.from_environment()
        rank = getattr(self.parallel_config, "data_parallel_index", 0)  # type: ignore[attr-defined]
        self._recording = Recording(self, settings, manifest_of(self), f"engine{rank}")
        manager = self.kv_cache_manager  # type: ignore[attr-defined]
        manager.get_computed_blocks = self._noting_lookups(manager.get_computed_blocks)

    def _check_mode(self) -> None:
        config = self.vllm_config  # type: ignore[attr-defined]
        if config.model_config.runner_type == "pooling":
            raise UnsupportedError(
                "a pooling model generates no tokens, and a trace has none without: leave "
                "--scheduler-cls out"
            )
        wants_async = bool(config.scheduler_config.async_scheduling)
        if wants_async != self.is_async:
            other = "RecordingAsyncScheduler" if wants_async else "RecordingScheduler"
            mode = "asynchronously" if wants_async else "synchronously"
            raise UsageError(
                f"--scheduler-cls {type(self).__name__}: this server schedules {mode}; name "
                f"schedbench.runner.vllm_recorder.{other}"
            )

    def _noting_lookups(self, look_up: Any) -> Any:
        recording = self._recording
        assert recording is not None

        @functools.wraps(look_up)
        def noted(request: Any, *args: Any, **kwargs: Any) -> Any:
            found = look_up(request, *args, **kwargs)
            recording.looked_up(request, found[1])
            return found

        return noted

    def add_request(self, request: Any) -> None:
        known = request.request_id in self.requests  # type: ignore[attr-defined]
        super().add_request(request)  # type: ignore[misc]
        if self._recording is not None and not known:
            self._recording.added(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        recording = self._recording
        if recording is None or not self.get_num_unfinished_requests():  # type: ignore[attr-defined]
            return super().schedule(*args, **kwargs)  # type: ignore[misc]
        if any(args) or any(kwargs.values()):
            recording.untold["passes told to hold prefill back"] += 1
        start_ns = recording.schedule_begins()
        output = super().schedule(*args, **kwargs)  # type: ignore[misc]
        recording.schedule_ends(output, start_ns)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        recording = self._recording
        if recording is None:
            return super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc]
        recording.update_begins()
        outputs = super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc]
        recording.update_ends(scheduler_output, outputs)
        return outputs

    def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> None:
        recording = self._recording
        if recording is None:
            super()._preempt_request(request, *args, **kwargs)  # type: ignore[misc]
            return
        free = recording.evicts(request)
        super()._preempt_request(request, *args, **kwargs)  # type: ignore[misc]
        recording.evicted(free)

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        recording = self._recording
        if recording is None:
            return super()._free_request(request, *args, **kwargs)  # type: ignore[misc]
        free = recording.lets_go(request)
        result = super()._free_request(request, *args, **kwargs)  # type: ignore[misc]
        recording.let_go(free)
        return result

    def set_pause_state(self, pause_state: Any) -> None:
        super().set_pause_state(pause_state)  # type: ignore[misc]
        if self._recording is not None:
            self._recording.untold["pauses"] += 1

    def reset_prefix_cache(self, *args: Any, **kwargs: Any) -> bool:
        if self._recording is not None:
            self._recording.untold["resets of the prefix cache"] += 1
        return bool(super().reset_prefix_cache(*args, **kwargs))  # type: ignore[misc]

    def shutdown(self) -> None:
        if self._recording is not None:
            self._recording.close()
        super().shutdown()  # type: ignore[misc]


def manifest_of(scheduler: Any) -> dict[str, Any]:
    """What a recording says of the server: its release and the flags of its scheduler."""
    flags = flags_of(scheduler)
    recording: dict[str, Any] = {
        "hash_block_tokens": scheduler.hash_block_size,
        "class": type(scheduler).__name__,
    }
    try:
        flags = SchedulerConfig(**flags).as_dict()
    except (SchedbenchError, TypeError) as error:
        recording["not_replayable"] = str(error)
    if reason := _why_not_replayable(scheduler):
        recording["not_replayable"] = reason
    return {
        "recording": recording,
        "trace": {"path": None, "digest": ""},
        "scheduler": flags,
        "time": {
            "runner": "server",
            "source": "recorded",
            "description": "a server's own passes, from schedule() to update_from_output()",
        },
        "speedup": "1",
        "arrivals": "open",
        "too_long": "error",
        "vllm_version": flags["vllm_version"],
        "scheduling": "asynchronous" if flags["async_scheduling"] else "synchronous",
        "versions": {"schedbench": importlib.metadata.version("schedbench")},
    }


def flags_of(scheduler: Any) -> dict[str, Any]:
    """This project's flags, as the server has them; those of features it lacks are left out."""
    config = scheduler.vllm_config
    known = [field.name for field in dataclasses.fields(SchedulerConfig)]
    given = config.scheduler_config
    flags = {name: getattr(given, name) for name in known if hasattr(given, name)}
    flags["policy"] = str(getattr(given.policy, "value", given.policy))
    flags |= {
        "vllm_version": _vllm_version().partition("+")[0],
        "max_model_len": scheduler.max_model_len,
        "num_gpu_blocks": scheduler.kv_cache_manager.block_pool.num_gpu_blocks,
        "block_size": scheduler.block_size,
        "enable_prefix_caching": bool(config.cache_config.enable_prefix_caching),
        "max_loras": config.lora_config.max_loras if config.lora_config else None,
        "async_scheduling": bool(given.async_scheduling),
        "pipeline_parallel_size": config.parallel_config.pipeline_parallel_size,
        "is_encoder_decoder": bool(scheduler.is_encoder_decoder),
    }
    flags |= _speculation(config)
    if config.kv_transfer_config is not None:
        flags["kv_role"] = config.kv_transfer_config.kv_role
        flags["kv_load_failure_policy"] = config.kv_transfer_config.kv_load_failure_policy
    return flags


def _speculation(config: Any) -> Mapping[str, Any]:
    if config.speculative_config is None:
        return {}
    return {
        "num_speculative_tokens": config.num_speculative_tokens,
        "spec_method": config.speculative_config.method,
    }


def _why_not_replayable(scheduler: Any) -> str | None:
    """What of the server a replay could not follow pass by pass; None if nothing is known."""
    if len(scheduler.kv_cache_config.kv_cache_groups) != 1:
        return "the model has several kinds of KV cache, and one is modelled"
    if scheduler.connector is not None:
        return "the server has a KV connector, and what it loaded is not in the trace"
    if scheduler.vllm_config.speculative_config is not None:
        return "the server speculates, and which drafts were accepted is not in the trace"
    return None
