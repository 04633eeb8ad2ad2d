"""Makes `sample.parquet`, the trace that is replayed when none is named.

    python -m schedbench.workloads.samples.make_sample [PATH]

Made to be short and to show every effect on a small pool of 2,000 to 3,000 KV blocks: bursts queue
up, long answers outgrow the pool so that requests are preempted and admissions cancelled, system
prompts are shared between sessions, and later turns find their conversation cached or evicted.
"""

import sys
from pathlib import Path

from schedbench.workloads.generators.arrivals import Gamma
from schedbench.workloads.generators.draws import Choice
from schedbench.workloads.generators.lengths import Fixed, Lengths, Lognormal
from schedbench.workloads.generators.prefixes import Level, PrefixTree
from schedbench.workloads.generators.synth import synth_to_file
from schedbench.workloads.generators.workload import Sessions, Workload

SAMPLE = Workload(
    requests=2_000,
    seed=20_260,
    arrivals=Gamma(rate=4.0, burstiness=0.1),  # sessions a second; CV of the gaps: 3.2
    lengths=Lengths(
        prompt=Lognormal(median=150, sigma=1.0, low=8, high=4_000),
        output=Lognormal(median=300, sigma=0.8, low=1, high=2_000),
    ),
    prefixes=PrefixTree(
        levels=(Level(fanout=2, tokens=Fixed(256)), Level(fanout=2, tokens=Fixed(128))), zipf=0.8
    ),
    sessions=Sessions(
        turns=Lognormal(median=2, sigma=0.6, low=1, high=8),
        think_ms=Lognormal(median=8_000, sigma=0.8, low=500, high=60_000),
        followup=Lognormal(median=60, sigma=0.8, low=4, high=1_000),
        context_tokens=8_192,
    ),
    client=Choice(values=(0, 1), weights=(3.0, 1.0)),
)


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("sample.parquet")
    sys.stdout.write(f"{path}: {synth_to_file(SAMPLE, path)}\n")


if __name__ == "__main__":
    main()
