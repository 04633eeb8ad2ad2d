"""What a run's manifest says: all it takes to run it again, and what it may be compared with."""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import orjson

from schedbench.results.untold import REAL_CLASS
from schedbench.runner.plugins import OWN_SCHEDULER, source_digest

if TYPE_CHECKING:
    from schedbench.runner.api import RunnerInfo
    from schedbench.runner.deployment import Deployment
    from schedbench.runner.events import Event
    from schedbench.runner.run import ReplayOptions
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace


def make_manifest(
    trace: Trace,
    prepared: Trace,
    config: SchedulerConfig,
    options: ReplayOptions,
    info: RunnerInfo,
    source: Deployment | None,
) -> dict[str, Any]:
    """Everything needed to run this again, and to know whether two runs may be compared.

    `source` is what the runner was made of; None where somebody handed over their own.
    """
    flags = {
        "scheduler": config.as_dict(),
        "time": {"runner": info.name, "source": info.source, "description": info.description},
        "deployment": None if source is None else source.as_dict(),
        "speedup": options.speedup,
        "arrivals": options.arrivals,
        "think_ns": options.think_ns,
        "too_long": str(options.too_long),
        "spec_acceptance": options.spec_acceptance if config.num_speculative_tokens else None,
        "seed": options.seed,
        "engine": options.scheduler,
        "policy_class": options.policy_class,
        "own_code": {
            spec: source_digest(spec)
            for spec in (options.scheduler, options.policy_class)
            if spec not in (None, OWN_SCHEDULER, REAL_CLASS)
        },
        "events": [vars_of(event) for event in options.events],
    }
    digest = hashlib.sha256(orjson.dumps(flags, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return {
        "trace": {
            "path": trace.path,
            "digest": trace.digest,
            "requests": trace.num_requests,
            "replayed": prepared.num_requests,
            "columns": trace.table.column_names,
            "provenance": prepared.provenance,
        },
        **flags,
        "flags_digest": digest,
        "derived": {each.name: each.value for each in config.derived()},
        "assumed": list(options.assumed),
        "runner_details": dict(info.details),
        "warmup_ns": options.warmup_ns,
        "slo_ns": dict(options.slo_ns) if options.slo_ns else None,
        "vllm_version": config.vllm_version,
        "release": config.release,
        "scheduling": "asynchronous" if config.runs_ahead else "synchronous",
        "command_line": list(options.command_line),
        "versions": {
            "schedbench": installed("schedbench"),
            "python": platform.python_version(),
            "platform": sys.platform,
            **{name: installed(name) for name in ("numpy", "pyarrow")},
        },
    }


@cache
def installed(package: str) -> str:
    """A package's version, looked up once for all runs of a process."""
    return version(package)


def vars_of(event: Event) -> dict[str, Any]:
    """An event as it stands in the manifest."""
    return {name: getattr(event, name) for name in event.__slots__}
