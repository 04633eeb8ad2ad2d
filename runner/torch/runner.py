"""The torch runner: every scheduled pass is a forward pass of a real decoder.

What the clock advances by is the time on the device. The host's time stands apart: vLLM prepares
the next pass while the device works, so a measured host time of this code would be no server's.
The model's own tokens decide nothing: what comes next is the trace's.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from schedbench.errors import UnsupportedError, UsageError
from schedbench.runner.api import PassResult, RunnerInfo
from schedbench.runner.torch.build import EngineOptions, build_engine
from schedbench.runner.torch.device import out_of_memory
from schedbench.runner.torch.graphs import CompileCounter
from schedbench.runner.torch.invariants import check_written_blocks
from schedbench.runner.torch.timing import DeviceTimer
from schedbench.runner.torch.warm_up import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.runner.torch.batch import Batch
    from schedbench.runner.torch.engine import Engine
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import SchedulerOutput

    OnLogits = Callable[[list[str], torch.Tensor], None]


@dataclass
class TorchRunner:
    """Executes passes on a GPU or a CPU.

    Args:
        options: model, device, dtype, attention and the like.
        keep_tokens: hand the model's own tokens out with each pass.
        paranoid: check every pass that no block is written which two live requests hold.
        host_floor_ns: a pass takes at least this long on the clock (a server's host time).
        on_logits: called with request ids and logits of the sampled rows; passes run eagerly.
        prebuilt: an engine that is warm already, and its details; it is left open.

    Raises (in `open`):
        UsageError: no such device, or not enough memory.
        UnsupportedError: a model field or an attention that is not modelled.
        InvariantError: attention's self-check failed.

    Raises (in `execute`):
        UsageError: the GPU ran out of memory.
        UnsupportedError: a pass has encoder inputs.
        InvariantError: a pass would write outside its blocks.
    """

    options: EngineOptions = field(default_factory=EngineOptions)
    keep_tokens: bool = False
    paranoid: bool = False
    host_floor_ns: int = 0
    on_logits: OnLogits | None = None
    prebuilt: tuple[Engine, dict[str, Any]] | None = None
    needs_block_ids = True

    def open(self, config: SchedulerConfig) -> RunnerInfo:
        """Load, allocate, check, capture and warm up; minutes for a large model."""
        self.engine, details = self.prebuilt or self._build(config)
        self.engine.rows.clear()
        details = dict(details)
        self._compiles = CompileCounter()
        self._timer = DeviceTimer(self.engine.device)
        gc.collect()
        gc.freeze()
        details["compiled_in_passes"] = self._compiled = [0]
        details["host_floor_ns"] = self.host_floor_ns
        details["paranoid"] = self.paranoid
        return RunnerInfo("torch", "measured", _describe(details), details)

    def _build(self, config: SchedulerConfig) -> tuple[Engine, dict[str, Any]]:
        try:
            engine, details = build_engine(self.options, config)
            details.update(warm_up(engine))
        except torch.OutOfMemoryError as error:
            raise out_of_memory(error, "loading the model and its cache") from error
        return engine, details

    def execute(self, scheduler_output: SchedulerOutput) -> PassResult:
        """Run one pass, and wait for its tokens."""
        began = time.perf_counter_ns()
        if scheduler_output.scheduled_encoder_inputs:
            raise UnsupportedError(
                "the torch runner has no encoder, and a pass has encoder inputs; use a latency "
                "model, or drop the column encoder"
            )
        batch = self.engine.builder.build(scheduler_output)
        if self.paranoid:
            check_written_blocks(self.engine, batch)
        if not batch.num_tokens:
            host_ns = time.perf_counter_ns() - began
            return PassResult(max(host_ns, self.host_floor_ns, 1), "measured", 0, host_ns)
        try:
            return self._forward(batch, began)
        except torch.OutOfMemoryError as error:
            raise out_of_memory(error, f"computing a pass of {batch.num_tokens} tokens") from error

    def _forward(self, batch: Batch, began: int) -> PassResult:
        engine, timer = self.engine, self._timer
        bucket = None if self.on_logits else engine.bucket(batch)
        if bucket is not None:
            engine.builder.pad(batch, bucket)
        prepared = time.perf_counter_ns()
        timer.start()
        engine.upload(batch)
        if self.on_logits is not None:
            logits = engine.logits(batch)
            tokens, graph = logits.argmax(dim=-1), False
        else:
            tokens, graph = engine.sampled(batch, bucket)
        timer.stop()
        launched = time.perf_counter_ns()
        device_ns = timer.wait()
        waited = time.perf_counter_ns()
        found = tokens.tolist()
        if self.on_logits is not None:
            self.on_logits(self._sampled_ids(batch), logits)
        host_ns = prepared - began + time.perf_counter_ns() - waited
        if engine.device.type == "cuda":  # launching is work of the host, beside the device's
            host_ns += launched - prepared
        self._compiled[0] = self._compiles.count
        return PassResult(
            max(device_ns, self.host_floor_ns),
            "measured",
            device_ns,
            host_ns,
            "full" if graph else None,
            dict(zip(self._sampled_ids(batch), found, strict=True)) if self.keep_tokens else None,
        )

    def _sampled_ids(self, batch: Batch) -> list[str]:
        """Ids of the rows that got a token, in the order of the tokens."""
        ends = batch.q.cumsum() - 1
        sampled = set(self.engine.builder.sample_of(batch).tolist())
        return [each for each, end in zip(batch.request_ids, ends, strict=True) if end in sampled]

    def notes(self) -> list[str]:
        """What a reader of the results has to know once the passes are done."""
        found = []
        if self.engine.device.type != "cuda":
            found.append("times were measured on this machine's CPU: they say nothing of a GPU")
        if self._compiled[0]:
            found.append(f"{self._compiled[0]} kernels were compiled inside timed passes")
        return found

    def close(self) -> None:
        """Let go of the model and the cache."""
        gc.unfreeze()
        self._compiles.close()
        self.engine.rows.clear()
        if self.prebuilt is not None:
            return
        self.engine.release()
        if self.engine.device.type == "cuda":
            torch.cuda.empty_cache()


def _describe(details: dict[str, Any]) -> str:
    routing = f", routing {details['routing']}" if "routing" in details else ""
    whose = "transformers' " if details.get("frontend") == "hf" else ""
    return (
        f"forward passes of {whose}{details['model']} ({details['weights']} weights, "
        f"{details['dtype']}) "
        f"on {details['device_name']}, attention {details['attention']}{routing}"
    )


def make_torch_runner(model: str = "tiny", **options: Any) -> TorchRunner:  # noqa: ANN401
    """A runner from what a command line gives: see EngineOptions for the names.

    Raises:
        UsageError: an option that does not exist.
    """
    runner_options = {
        name: options.pop(name)
        for name in ("keep_tokens", "paranoid", "host_floor_ns", "on_logits")
        if name in options
    }
    try:
        return TorchRunner(EngineOptions(model=model, **options), **runner_options)
    except TypeError as error:
        raise UsageError(f"the torch runner: {error}") from error
