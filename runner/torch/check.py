"""The GPU check: is the runner right, is it fast enough, is the fitted model near it. C0 to C8.

The rows that matter most come first, and each is on disk before the next is asked, so that a run
cut short has proved something. Without a GPU a rehearsal goes through the same rows on a small
model and a CPU: it tests this code, and its times say nothing.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from schedbench.errors import UsageError
from schedbench.runner.latency.hardware import recognise_gpu
from schedbench.runner.latency.work import WorkModel
from schedbench.runner.models import BUILT_IN
from schedbench.runner.shapes import Row
from schedbench.runner.torch.build import EngineOptions, build_engine
from schedbench.runner.torch.check_correct import (
    KernelCheck,
    dense_against_transformers,
    flash_against_kernels,
    graphs_against_eager,
    kernels_against_reference,
)
from schedbench.runner.torch.check_replay import Ready, fit_rows, replay_rows, throughput_row
from schedbench.runner.torch.check_speed import (
    SpeedCase,
    ceilings,
    graph_against_eager_time,
    host_time,
    llama_cases,
    qwen_cases,
    time_case,
)
from schedbench.runner.torch.check_table import CheckRow, CheckTable
from schedbench.runner.torch.device import choose_device, choose_dtype
from schedbench.runner.torch.graphs import CompileCounter
from schedbench.runner.torch.measure import fill_cache
from schedbench.runner.torch.pool import measuring_config
from schedbench.runner.torch.profile import gpu_of
from schedbench.runner.torch.warm_up import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from schedbench.runner.latency.hardware import Gpu
    from schedbench.runner.latency.profile import Profile
    from schedbench.sched.config import SchedulerConfig

LIMIT_S: Final = 540.0
FAMILIES: Final = ("llama", "qwen3", "qwen3_moe")


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the check is. `has_bounds`: the table's bounds, which are an H200's, hold."""

    has_bounds: bool
    large: str = "llama-3.1-8b"
    small: str = "qwen3-0.6b"
    kernel: KernelCheck = KernelCheck()  # noqa: RUF009 - frozen
    families: tuple[str, ...] = FAMILIES
    graph_batches: tuple[int, ...] = (1, 3, 17, 100, 257)
    context: int = 1024
    num_held_out: int = 300
    requests: int = 300
    host_seqs: int = 256
    warm_s: float = 3.0
    grid_step: int = 1  # every so many passes of the grid


REHEARSAL: Final = Scale(
    has_bounds=False, large="tiny", small="tiny", families=("qwen3",),
    kernel=KernelCheck(4, 60, 20),
    graph_batches=(1, 3, 7), context=64, num_held_out=20, requests=12, host_seqs=8, warm_s=0.0,
    grid_step=4,
)  # fmt: skip


def check_gpu(
    out: Path,
    *,
    device: str = "auto",
    limit_s: float = LIMIT_S,
    rehearsal: bool = False,
    say: Callable[[str], None] = print,
) -> CheckTable:
    """Ask every question, most important first; results in `out` as JSON and Parquet.

    Args:
        out: a folder; the fitted profile and its passes go there too.
        device: `auto` or `cuda`; a rehearsal runs anywhere.
        limit_s: seconds after which no question is begun that would not fit.
        rehearsal: the same code on the tiny model, without bounds.
        say: told each row as it is answered.

    Raises:
        UsageError: no GPU, and no rehearsal was asked for.
        OutputError: the folder cannot be written.
    """
    target = choose_device(device)
    if target.type != "cuda" and not rehearsal:
        raise UsageError(
            "check-gpu needs a CUDA GPU, and torch sees none; --rehearsal goes through its rows on "
            "the CPU, which tests the check and no GPU"
        )
    card = recognise_gpu(torch.cuda.get_device_name(target)) if target.type == "cuda" else None
    scale = REHEARSAL if rehearsal else Scale(card is not None and card.name == "H200")
    table = CheckTable(out, limit_s, facts=_facts(target, rehearsal=rehearsal), say=say)
    _Check(table, target, scale).run()
    return table


@dataclass(slots=True)
class _Check:
    """One run through the rows."""

    table: CheckTable
    device: torch.device
    scale: Scale
    profile: Profile | None = None

    def run(self) -> None:
        """C0 and C1 need no large model; then the large one, then the small one."""
        table, scale, device = self.table, self.scale, self.device
        dtype = choose_dtype(None, device)
        table.ask("C0", "ceilings", 5, lambda: self._ceilings(dtype))
        spec = BUILT_IN[scale.large]
        table.ask(
            "C1a",
            "kernels against float64",
            30,
            lambda: kernels_against_reference(spec, device, dtype, scale.kernel),
        )
        table.ask(
            "C1b",
            "models against transformers",
            45,
            lambda: dense_against_transformers(device, scale.families),
        )
        table.ask(
            "C1d",
            "kernels against flash attention",
            10,
            lambda: flash_against_kernels(spec, device, dtype, scale.kernel),
        )
        self._with_engine(scale.large, self._large)
        self._with_engine(scale.small, self._small)

    def _large(self, ready: Ready) -> None:
        """The rows of the large model, C2a, C3a and C5 first."""
        table, scale, engine = self.table, self.scale, ready.engine
        work = WorkModel(engine.decoder.spec, self._card(ready), str(ready.details["dtype"]))
        cases = self._cases(llama_cases(), ready)
        for case in cases[:2]:
            table.ask(case.id, case.what, 5, lambda case=case: time_case(engine, work, case))  # type: ignore[misc]
        seqs, context = scale.host_seqs, scale.context
        table.ask(
            "C5",
            "host time",
            5,
            lambda: host_time(engine, seqs, context, has_bounds=scale.has_bounds),
        )
        table.ask(
            "C1c",
            "graphs against eager",
            10,
            lambda: graphs_against_eager(engine, scale.graph_batches, context),
        )
        for case in cases[2:]:
            table.ask(case.id, case.what, 5, lambda case=case: time_case(engine, work, case))  # type: ignore[misc]
        table.ask(
            "C4",
            "one decode, graph / eager",
            5,
            lambda: graph_against_eager_time(engine, context, has_bounds=scale.has_bounds),
        )
        self._captured(ready)
        with_profile = table.ask("C6", "fit and held-out passes", 100, lambda: self._fit(ready))
        if self.profile is not None and with_profile:
            fitted = replace(work, gpu=self.profile.card())
            profile = self.profile
            table.ask(
                "C7",
                "a replay, measured and modelled",
                60,
                lambda: replay_rows(
                    ready, profile, fitted, requests=scale.requests, has_bounds=scale.has_bounds
                ),
            )

    def _small(self, ready: Ready) -> None:
        """The rows of the small model."""
        engine = ready.engine
        work = WorkModel(engine.decoder.spec, self._card(ready), str(ready.details["dtype"]))
        for case in self._cases(qwen_cases(), ready):
            self.table.ask(case.id, case.what, 5, lambda case=case: time_case(engine, work, case))  # type: ignore[misc]
        self.table.ask(
            "C8",
            "output tokens, all requests at once",
            40,
            lambda: throughput_row(ready, has_bounds=self.scale.has_bounds),
        )

    def _fit(self, ready: Ready) -> list[CheckRow]:
        rows, self.profile = fit_rows(
            ready, self.table.folder, self.table.say, has_bounds=self.scale.has_bounds,
            num_held_out=self.scale.num_held_out, warm_s=self.scale.warm_s,
            grid_step=self.scale.grid_step,
        )  # fmt: skip
        return rows

    def _captured(self, ready: Ready) -> None:
        """C4: what capturing took, and that nothing was compiled since the warm-up."""
        found, bounds = ready.details, self.scale.has_bounds
        seconds, compiled = found.get("capture_s"), found["compile_counter"].count
        self.table.ask("C4", "capture", 0, lambda: [
            CheckRow("C4", f"capture of {found['graph_sizes']} sizes", seconds, "s",
                     45 if bounds else None),
            CheckRow("C4", "kernels compiled after warm-up", compiled, "kernels", 0,
                     is_correctness=bounds),
        ])  # fmt: skip

    def _ceilings(self, dtype: torch.dtype) -> list[CheckRow]:
        rows, copied, multiplied = ceilings(self.device, dtype, has_bounds=self.scale.has_bounds)
        self.table.facts["ceilings"] = {"bytes_s": copied, "flops_s": multiplied}
        return rows

    def _card(self, ready: Ready) -> Gpu:
        """The GPU with the ceilings that C0 has just measured, where it has."""
        gpu = gpu_of(ready.engine)
        found = self.table.facts.get("ceilings")
        if not found:
            return gpu
        return replace(
            gpu, measured_tflops=found["flops_s"] / 1e12, measured_gb_s=found["bytes_s"] / 1e9
        )

    def _cases(self, cases: list[SpeedCase], ready: Ready) -> list[SpeedCase]:
        """Cases without bounds on other cards, and shrunk to what a rehearsal can hold."""
        if self.scale.has_bounds:
            return cases
        config = ready.config
        if self.device.type == "cuda":
            return [replace(case, bound_ms=None) for case in cases]
        rows = [case.rows[-min(len(case.rows), 4) :] for case in cases]
        budget = config.max_num_batched_tokens // 4
        small = [tuple(Row(min(r.q, budget), min(r.ctx, 128)) for r in each) for each in rows]
        return [
            replace(case, what=f"shrunk: {case.what}", rows=each, bound_ms=None, repeats=2)
            for case, each in zip(cases, small, strict=True)
        ]

    def _with_engine(self, model: str, ask: Callable[[Ready], None]) -> None:
        """Build an engine, ask its rows, let go of it; a model that cannot be built is one row."""
        made: list[Ready] = []

        def build() -> CheckRow:
            made.append(self._build(model))
            capture_s = made[0].details.get("capture_s")
            note = f"{made[0].config.num_gpu_blocks} KV blocks"
            return CheckRow("-", f"{model} loaded, warm; capture", capture_s or 0.0, "s", note=note)

        self.table.ask("-", f"loading {model}", 60 if self.scale.has_bounds else 0, build)
        if made:
            ask(made[0])
            made[0].details["compile_counter"].close()
            made[0].engine.release()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _build(self, model: str) -> Ready:
        config = self._config(model)
        options = EngineOptions(model=model, device=str(self.device), pad_decodes=True)
        engine, details = build_engine(options, config)
        details.update(warm_up(engine))
        fill_cache(engine)
        details["compile_counter"] = CompileCounter()
        return Ready(engine, details, config)

    def _config(self, model: str) -> SchedulerConfig:
        """Flags as a server on this card has them; small ones for a rehearsal."""
        spec, gpu = BUILT_IN[model], self.device.type == "cuda"
        return measuring_config(
            spec,
            self.device,
            str(choose_dtype(None, self.device)).removeprefix("torch."),
            max_num_batched_tokens=8192 if gpu else 256,
            max_num_seqs=512 if gpu else 16,
            max_model_len=None if gpu else 1024,
            num_gpu_blocks=None if gpu else 1200,
        )


def _facts(device: torch.device, *, rehearsal: bool) -> dict[str, Any]:
    """Versions and device, as they stand at the head of the files."""
    facts: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "device": str(device),
        "rehearsal": rehearsal,
    }
    if device.type == "cuda":
        facts["device_name"] = torch.cuda.get_device_name(device)
        facts["memory_bytes"] = torch.cuda.mem_get_info(device)[1]
    return facts
