"""What every attention here is given and returns.

Shapes: T tokens, N rows, H query heads, G of them on each of Hkv KV heads, D a head's width.
The cache of a layer is `[blocks, block_size, Hkv, D]` for keys and for values; token t of a row
lies in slot `block_table[row, t // block_size]`, place `t % block_size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch


@dataclass(slots=True)
class AttnInput:
    """One pass: counts on the host, arrays (int32) on the device, decodes before chunks.

    `seq_lens` are keys a row sees with its last token, 0 for a row that only pads a batch.
    """

    num_seqs: int
    num_decodes: int
    num_tiles: int
    splits: int  # parts that each decode's keys are cut into
    q_host: npt.NDArray[np.int32]  # tokens a row, [N]
    seq_lens_host: npt.NDArray[np.int32]
    block_table: torch.Tensor  # [rows of the table, blocks a row]
    rows: torch.Tensor  # [N] row of the table
    seq_lens: torch.Tensor  # [N]
    cu_q: torch.Tensor  # [N + 1] where a row's tokens begin
    tile_seq: torch.Tensor  # [tiles] row of a tile of chunk tokens
    tile_start: torch.Tensor  # [tiles] its first token, within the row


class Attention(Protocol):
    """Causal attention of the pass's tokens over the cache, in which they already are."""

    name: str

    def __call__(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, batch: AttnInput
    ) -> torch.Tensor:
        """`q [T, H, D]`, `keys` and `values` one layer's cache; returns `[T, H, D]`."""
        ...
