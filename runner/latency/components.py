"""The components model: how long a pass takes, from the work in it and nine numbers.

    t = c_pass + c_eager * eager + c_seq * seqs + c_chunk * chunks
      + pnorm(weights_s / e_w, linear_s / e_f; p)      matrices: read or multiplied
      + attention_s / e_a + kv_s / e_k + fixed_s

The p-norm is a maximum with a round knee. All c >= 0 and all e > 0, so the time grows with every
token and every context. The e are shares of the GPU's ceilings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from schedbench.runner.latency.work import PassWork


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Constants in seconds, efficiencies as shares of the ceilings."""

    c_pass_s: float
    c_eager_s: float
    c_seq_s: float
    c_chunk_s: float
    e_w: float
    e_f: float
    e_a: float
    e_k: float
    p: float

    def seconds(self, work: PassWork) -> float:
        """Predicted duration of a pass."""
        before, after = self.around_kv(work)
        return before + work.kv_s / self.e_k + after

    def around_kv(self, work: PassWork) -> tuple[float, float]:
        """What is added up before the term of the keys and values read, and after it."""
        read, multiplied = work.weights_s / self.e_w, work.linear_s / self.e_f
        before = (
            self.c_pass_s
            + self.c_eager_s * work.eager
            + self.c_seq_s * work.num_seqs
            + self.c_chunk_s * work.num_chunks
            + pnorm(read, multiplied, self.p)
            + work.attention_s / self.e_a
        )
        return before, work.fixed_s


def pnorm(first: float, second: float, p: float) -> float:
    """(first^p + second^p)^(1/p), scaled by the larger so that no power underflows."""
    small, large = (first, second) if first < second else (second, first)
    return large * (1.0 + (small / large) ** p) ** (1.0 / p) if large else 0.0


ANALYTIC: Final = Coefficients(
    c_pass_s=30e-6, c_eager_s=4e-3, c_seq_s=0.0, c_chunk_s=0.0,
    e_w=0.80, e_f=0.75, e_a=0.45, e_k=0.75, p=3.0,
)  # fmt: skip
"""Nothing is fitted: shares that good kernels are known to reach, to be replaced by a profile."""
