"""The Triton kernels in Triton's interpreter beside the loop in float64; needs torch and Triton.

Triton reads TRITON_INTERPRET when it is first imported: set it before.
"""

from __future__ import annotations

from typing import Final

import torch

from schedbench.runner.models import ModelSpec
from schedbench.runner.torch.attn.reference import LoopAttention
from schedbench.runner.torch.attn.select import random_pass, relative_error

ROWS: Final = ((1, 0), (1, 15), (1, 16), (1, 90), (2, 0), (19, 0), (5, 61), (33, 30))
SHAPES: Final = [  # query heads, KV heads, head width, block size
    (4, 4, 16, 16),
    (8, 2, 64, 32),
    (14, 2, 64, 16),
    (8, 1, 128, 256),
    (8, 2, 128, 16),
    (4, 2, 96, 16),
    (4, 2, 256, 16),
]


def spec_of(heads: int, kv_heads: int, width: int) -> ModelSpec:
    """A model of one layer with these heads."""
    return ModelSpec(
        "test", "llama", heads * width, 1, heads, kv_heads, width, 64, 64, 4096, 1e4, 1e-5
    )


def kernel_error(shape: tuple[int, int, int, int], splits: int, dtype: torch.dtype) -> float:
    """Relative error of a batch of chunks and decodes; pages hold NaN wherever no key lies."""
    from schedbench.runner.torch.attn.triton_paged import TritonPaged  # noqa: PLC0415

    heads, kv_heads, width, page = shape
    spec = spec_of(heads, kv_heads, width)
    attention = TritonPaged(spec, dtype)
    q, k, v, batch = random_pass(
        ROWS,
        spec,
        torch.device("cpu"),
        dtype,
        block_size=page,
        tile_tokens=attention.tile_tokens,
        splits=splits,
    )
    expected = LoopAttention(torch.float64)(q.double(), k.double(), v.double(), batch)
    return relative_error(attention(q, k, v, batch), expected)
