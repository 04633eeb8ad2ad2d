"""The runs that the project gates itself on: generated traces, and the flags that press them.

PYTHONPATH=tests/support python tests/support/reference_runs.py     writes the baselines anew
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from explain_runs import CASES, COST, Case

from schedbench.runner.deployment import Deployment
from schedbench.runner.gate import DEFAULTS, Setup, run_setup, write_baseline
from schedbench.workloads.generators.arrivals import Gamma, Poisson
from schedbench.workloads.generators.draws import Choice
from schedbench.workloads.generators.lengths import Fixed, Lengths, Lognormal, Uniform
from schedbench.workloads.generators.prefixes import Level, PrefixTree
from schedbench.workloads.generators.synth import synth
from schedbench.workloads.generators.workload import Sessions, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.workloads.trace import Trace

FOLDER: Final = Path(__file__).parents[2] / "results" / "reference"


@dataclass(frozen=True)
class Reference:
    """A trace that is made when it is needed, and what it is replayed with."""

    make: Callable[[], Trace]
    given: dict[str, Any]

    def setup(self) -> Setup:
        return DEFAULTS.changed(**self.given)


CHAT = Workload(
    requests=300,
    seed=1,
    arrivals=Poisson(6.0),
    lengths=Lengths(Lognormal(150, 0.8, high=2000), Lognormal(120, 0.7, high=600)),
    prefixes=PrefixTree((Level(2, Fixed(256)), Level(4, Fixed(64)))),
    sessions=Sessions(turns=Uniform(1, 4), think_ms=Fixed(2000)),
    client=Choice((0, 1, 2), (4.0, 2.0, 1.0)),
)
BURSTS = Workload(
    requests=300,
    seed=2,
    arrivals=Gamma(20.0, 0.2),
    lengths=Lengths(Lognormal(300, 1.0, high=4000), Lognormal(100, 0.8, high=800)),
)
LONG_PROMPTS = Workload(
    requests=120,
    seed=3,
    arrivals=Poisson(3.0),
    lengths=Lengths(Lognormal(3000, 1.0, high=16_000), Uniform(8, 200)),
)
TENANTS = Workload(
    requests=300,
    seed=4,
    arrivals=Poisson(30.0),
    priority=Choice((0, 1, 5), (1.0, 2.0, 4.0)),
    client=Choice((0, 1), (9.0, 1.0)),
    lora=Choice((0, 1, 2, 3), (4.0, 2.0, 1.0, 1.0)),
    lengths=Lengths(Lognormal(200, 0.8, high=2000), Lognormal(80, 0.8, high=500)),
)

SYNTHETIC: Final[dict[str, tuple[Workload, dict[str, Any]]]] = {
    "chat": (CHAT, {"num_gpu_blocks": 700, "max_num_seqs": 32}),
    "bursts": (
        BURSTS,
        {"num_gpu_blocks": 900, "watermark": 0.02, "async_scheduling": False},
    ),
    "long-prompts": (
        LONG_PROMPTS,
        {
            "num_gpu_blocks": 4000,
            "max_num_batched_tokens": 1024,
            "long_prefill_token_threshold": 512,
        },
    ),
    "tenants": (
        TENANTS,
        {"num_gpu_blocks": 450, "max_num_seqs": 32, "policy": "priority", "max_loras": 2},
    ),
}
OF_CASES: Final = (
    "adapters",
    "drafts ahead",
    "grammar",
    "pipeline",
    "priority",
    "remote KV",
    "speculative",
    "streaming",
)


def _of_case(case: Case) -> Reference:
    given = {**case.flags, **case.options, "deployment": Deployment(cost=COST)}
    if case.columns.get("remote_kv"):
        given["kv_role"] = "kv_both"
    return Reference(case.trace, given)


REFERENCES: Final = {
    **{
        name: Reference(lambda workload=workload: synth(workload), given)
        for name, (workload, given) in SYNTHETIC.items()
    },
    **{name.replace(" ", "-").lower(): _of_case(CASES[name]) for name in OF_CASES},
}


def baseline_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


if __name__ == "__main__":
    for name, reference in REFERENCES.items():
        setup = reference.setup()
        write_baseline(baseline_of(name), run_setup(reference.make(), setup), setup)
        print(baseline_of(name))  # noqa: T201 (a script)
