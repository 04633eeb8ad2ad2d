"""Measure a grid of passes on this device, fit the components model, check it on other passes."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from schedbench.errors import OutputError, UsageError
from schedbench.runner.latency.fit import LEAST_PASSES, errors, fit
from schedbench.runner.latency.grid import REPEATS, grid_hash, profiling_grid
from schedbench.runner.latency.hardware import GIB, Gpu, recognise_gpu
from schedbench.runner.latency.profile import Profile
from schedbench.runner.latency.select import profile_name
from schedbench.runner.latency.work import WorkModel
from schedbench.runner.shapes import PassShape, Row
from schedbench.runner.torch.build import EngineOptions, build_engine, num_sms
from schedbench.runner.torch.measure import (
    TimedPass,
    copy_rate,
    fill_cache,
    product_rate,
    time_rows,
)
from schedbench.runner.torch.synthetic import limits_of
from schedbench.runner.torch.trace_passes import held_out_passes
from schedbench.runner.torch.warm_up import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from schedbench.runner.latency.grid import GridPass, Limits
    from schedbench.runner.latency.work import PassWork
    from schedbench.runner.torch.engine import Engine
    from schedbench.sched.config import SchedulerConfig

    Progress = Callable[[str], None]

HELD_OUT: Final = 300
HELD_OUT_REPEATS: Final = 3
WARM_S: Final = 3.0
FLAGS: Final = {
    "--num-gpu-blocks": "num_gpu_blocks",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--max-num-seqs": "max_num_seqs",
    "--max-model-len": "max_model_len",
}


@dataclass(frozen=True, slots=True)
class MeasuredPass:
    """A pass of the grid or of a trace, with its times."""

    planned: GridPass
    timed: TimedPass
    work: PassWork


@dataclass(frozen=True, slots=True)
class Measured:
    """A fitted profile and where its files are."""

    profile: Profile
    path: Path
    passes: Path
    drift: float  # of one and the same pass between beginning and end


def profile(
    options: EngineOptions,
    config: SchedulerConfig,
    out: Path,
    *,
    seed: int = 0,
    num_held_out: int = HELD_OUT,
    warm_s: float = WARM_S,
    say: Progress = print,
) -> Measured:
    """Build the engine, measure, fit and write `<model>--<gpu>.json` and its passes as Parquet.

    Args:
        options: model, device, dtype, attention.
        config: limits of a pass and the size of the pool.
        out: the folder for both files.
        seed: of the grid and of the held-out trace.
        num_held_out: passes of a trace to check the fit on.
        warm_s: seconds of work before the first measurement.
        say: told what is going on, a line at a time.

    Raises:
        UsageError: the model does not fit, scipy is absent, or the limits leave too few passes.
        OutputError: the files cannot be written.
    """
    engine, details = build_engine(options, config)
    grid_for(limits_of(engine), seed)
    warm_up(engine)
    fill_cache(engine)
    measured = profile_engine(
        engine, config, out, details=details, seed=seed, num_held_out=num_held_out, warm_s=warm_s,
        say=say,
    )  # fmt: skip
    engine.release()
    return measured


def profile_engine(
    engine: Engine,
    config: SchedulerConfig,
    out: Path,
    *,
    details: dict[str, Any],
    seed: int = 0,
    num_held_out: int = HELD_OUT,
    warm_s: float = WARM_S,
    grid: Sequence[GridPass] | None = None,
    say: Progress = print,
) -> Measured:
    """`profile`, on an engine that is warm already; `grid` where not the usual one is wanted."""
    limits = limits_of(engine)
    grid = grid_for(limits, seed) if grid is None else grid
    work = WorkModel(engine.decoder.spec, gpu_of(engine), str(details["dtype"]))
    anchor = anchor_rows(limits)
    _keep_busy(engine, anchor, warm_s)
    before = time_rows(engine, anchor, 5).median_s
    say(f"measuring {len(grid)} passes of the grid")
    fitted_to = measure(engine, work, grid)
    held_out = held_out_passes(work, config, limits, num_held_out, seed + 1)
    say(f"measuring {len(held_out)} passes of a trace, held out of the fit")
    checked = measure(engine, work, held_out)
    drift = time_rows(engine, anchor, 5).median_s / before - 1.0
    found = _fit(fitted_to, checked, details, work, grid)
    path = out / profile_name(work.model, work.gpu)
    found.save(path)
    passes = path.with_suffix(".passes.parquet")
    write_passes(passes, [*fitted_to, *checked])
    return Measured(found, path, passes, drift)


def measure(engine: Engine, work: WorkModel, passes: Sequence[GridPass]) -> list[MeasuredPass]:
    """Time each pass as often as its group says."""
    found = []
    for planned in passes:
        repeats = REPEATS.get(planned.group, HELD_OUT_REPEATS)
        timed = time_rows(engine, planned.rows, repeats, may_use_graph=planned.may_use_graph)
        sizes = engine.sizes if planned.may_use_graph else ()
        found.append(MeasuredPass(planned, timed, work.work(planned.shape, sizes)))
    return found


def grid_for(limits: Limits, seed: int) -> list[GridPass]:
    """The profiling grid.

    Raises:
        UsageError: the limits leave fewer passes than a fit needs.
    """
    grid = profiling_grid(limits, seed)
    if len(grid) >= LEAST_PASSES:
        return grid
    enough = [
        f"{flag} {value} or more" for flag, name in FLAGS.items()
        if (value := _least(limits, name, seed)) is not None
    ]  # fmt: skip
    given = ", ".join(f"{flag} {getattr(limits, name)}" for flag, name in FLAGS.items())
    remedy = ", or ".join(enough) or "larger ones; no single one of them is enough"
    raise UsageError(
        f"{given}: {len(grid)} passes of the profiling grid fit, and a fit needs {LEAST_PASSES}. "
        f"Give {remedy}"
    )


def _least(limits: Limits, name: str, seed: int) -> int | None:
    """The least multiple by a power of two of one limit with which enough passes fit."""
    for power in range(1, 18):
        value = getattr(limits, name) << power
        if len(profiling_grid(replace(limits, **{name: value}), seed)) >= LEAST_PASSES:
            return int(value)
    return None


def anchor_rows(limits: Limits) -> list[Row]:
    """The pass that warms the device and shows its drift: up to 8 decodes that the pool holds."""
    blocks = limits.num_gpu_blocks - 1
    size = min(8, limits.max_num_seqs, limits.max_num_batched_tokens, blocks)
    context = min(1024, limits.max_model_len // 2, blocks // size * limits.block_size - 1)
    return [Row(1, context)] * size


def gpu_of(engine: Engine) -> Gpu:
    """The table's row for this GPU, or one made of what a copy and a product reach here."""
    device = engine.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    known = recognise_gpu(name) if device.type == "cuda" else None
    sms = num_sms(device)
    if known is not None:
        return replace(known, num_sms=sms)
    flops = product_rate(device, engine.decoder.cache.dtype)
    memory = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else 0
    return Gpu(
        name, flops / 1e12, copy_rate(device) / 1e9, round(memory / 1e9), memory / GIB, sms, 0.0,
        source="measured with this profile", unverified=(),
    )  # fmt: skip


def _keep_busy(engine: Engine, rows: Sequence[Row], seconds: float) -> None:
    """Work until clocks and temperature have settled."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time_rows(engine, rows, 3)


def _fit(
    fitted_to: Sequence[MeasuredPass],
    checked: Sequence[MeasuredPass],
    details: dict[str, Any],
    work: WorkModel,
    grid: Sequence[GridPass],
) -> Profile:
    found = fit([each.work for each in fitted_to], [each.timed.median_s for each in fitted_to])
    held_out = None
    if checked:
        predicted = [found.coefficients.seconds(each.work) for each in checked]
        held_out = errors(predicted, [each.timed.median_s for each in checked])
    gpu = work.gpu
    return Profile(
        model=work.model,
        gpu=gpu.name,
        dtype=work.dtype,
        attention=str(details["attention"]),
        coefficients=found.coefficients,
        ranges=_ranges([each.planned.shape for each in fitted_to]),
        fit=found.errors,
        held_out=held_out,
        grid_hash=grid_hash(grid),
        versions={**details["versions"], "python": platform.python_version()},
        unidentified=found.unidentified,
        notes=(f"device: {details['device_name']}", f"weights: {details['weights']}"),
        ceilings={
            "flops": gpu.flops, "bandwidth": gpu.bandwidth, "num_sms": float(gpu.num_sms),
        },
    )  # fmt: skip


def _ranges(shapes: Sequence[PassShape]) -> dict[str, tuple[int, int]]:
    columns = zip(*shapes, strict=True)
    return {
        name: (min(column), max(column))
        for name, column in zip(PassShape._fields, columns, strict=True)
    }


def write_passes(path: Path, passes: Sequence[MeasuredPass]) -> None:
    """One row a pass: group, shape, times; Raises OutputError where that fails."""
    rows = [
        {
            "group": each.planned.group,
            **each.planned.shape._asdict(),
            "graph": each.timed.graph,
            "repeats": len(each.timed.device_ns),
            "device_ns": round(each.timed.median_s * 1e9),
            "device_ns_min": min(each.timed.device_ns),
            "device_ns_max": max(each.timed.device_ns),
            "host_ns": sorted(each.timed.host_ns)[len(each.timed.host_ns) // 2],
        }
        for each in passes
    ]
    try:
        pq.write_table(pa.Table.from_pylist(rows), path)
    except OSError as error:
        raise OutputError(f"{path}: cannot write the measured passes: {error}") from error
