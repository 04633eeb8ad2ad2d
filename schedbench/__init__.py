"""Replay traces of LLM requests through vLLM's V1 scheduler, pass by pass and exactly.

    import schedbench

    trace = schedbench.load_trace("conv.csv.gz")
    config = schedbench.SchedulerConfig(max_num_seqs=128, num_gpu_blocks=6000)
    run = schedbench.replay(trace, config)
    print(run.summary["ttft_ns"]["p99"], run.summary["preempted"])

Everything here stays; whatever else can be imported may move. Nothing is loaded before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from schedbench.errors import SchedbenchError

if TYPE_CHECKING:
    from schedbench.results.compare import compare
    from schedbench.runner.run import replay
    from schedbench.runner.sweep import sweep
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.policy import Policy, Short, State
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler
    from schedbench.workloads.importers.registry import import_trace, load_trace

__all__ = [
    "Policy",
    "Request",
    "SchedbenchError",
    "Scheduler",
    "SchedulerConfig",
    "Short",
    "State",
    "compare",
    "import_trace",
    "load_trace",
    "replay",
    "sweep",
]

_ROOMS = {
    "Policy": "schedbench.sched.policy",
    "Request": "schedbench.sched.request",
    "Scheduler": "schedbench.sched.scheduler",
    "SchedulerConfig": "schedbench.sched.config",
    "Short": "schedbench.sched.policy",
    "State": "schedbench.sched.policy",
    "compare": "schedbench.results.compare",
    "import_trace": "schedbench.workloads.importers.registry",
    "load_trace": "schedbench.workloads.importers.registry",
    "replay": "schedbench.runner.run",
    "sweep": "schedbench.runner.sweep",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_ROOMS[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
