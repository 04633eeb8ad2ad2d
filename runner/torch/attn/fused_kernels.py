"""The steps around attention in Triton: head norms, rotation and cache in one launch; silu * up."""

from __future__ import annotations

# fmt: off - arguments stand in lines by their kind: pointers, numbers, constants
import triton
import triton.language as tl


@triton.jit
def qkv_to_cache_kernel(
    qkv_ptr,
    rope_ptr,
    slots_ptr,
    q_norm_ptr,
    k_norm_ptr,
    q_out_ptr,
    k_ptr,
    v_ptr,
    eps,
    H: tl.constexpr,
    HKV: tl.constexpr,
    D: tl.constexpr,
    HALF_PAD: tl.constexpr,
    HEADS: tl.constexpr,
    NORM: tl.constexpr,
):
    """HEADS heads of one token, `[q heads | k heads | v heads]` in a row of qkv; in float32.

    Grid (tokens, blocks of heads). Pairs (i, i + D/2) are rotated; values are only moved.
    """
    HALF: tl.constexpr = D // 2
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    i = tl.arange(0, HALF_PAD)
    use = (head[:, None] < H + 2 * HKV) & (i[None, :] < HALF)
    at = token * ((H + 2 * HKV) * D) + head[:, None] * D + i[None, :]
    first = tl.load(qkv_ptr + at, mask=use, other=0.0).to(tl.float32)
    second = tl.load(qkv_ptr + at + HALF, mask=use, other=0.0).to(tl.float32)
    is_q, is_v = head < H, head >= H + HKV

    a, b = first, second
    if NORM:
        mean = tl.sum(first * first + second * second, axis=1) / D
        scale = 1.0 / tl.sqrt(mean + eps)
        live = i < HALF
        q_low = tl.load(q_norm_ptr + i, mask=live, other=0.0).to(tl.float32)
        q_high = tl.load(q_norm_ptr + HALF + i, mask=live, other=0.0).to(tl.float32)
        k_low = tl.load(k_norm_ptr + i, mask=live, other=0.0).to(tl.float32)
        k_high = tl.load(k_norm_ptr + HALF + i, mask=live, other=0.0).to(tl.float32)
        a = a * scale[:, None] * tl.where(is_q[:, None], q_low[None, :], k_low[None, :])
        b = b * scale[:, None] * tl.where(is_q[:, None], q_high[None, :], k_high[None, :])
    cos = tl.load(rope_ptr + token * D + i, mask=i < HALF, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(rope_ptr + token * D + HALF + i, mask=i < HALF, other=0.0).to(tl.float32)[None, :]
    low = tl.where(is_v[:, None], first, a * cos - b * sin)
    high = tl.where(is_v[:, None], second, b * cos + a * sin)

    dtype = q_out_ptr.dtype.element_ty
    low, high = low.to(dtype), high.to(dtype)
    slot = tl.load(slots_ptr + token).to(tl.int64)
    q_at = token * (H * D) + head[:, None] * D + i[None, :]
    tl.store(q_out_ptr + q_at, low, mask=use & is_q[:, None])
    tl.store(q_out_ptr + q_at + HALF, high, mask=use & is_q[:, None])
    is_k = (head >= H) & (head < H + HKV)
    k_at = slot * (HKV * D) + (head - H)[:, None] * D + i[None, :]
    tl.store(k_ptr + k_at, low, mask=use & is_k[:, None])
    tl.store(k_ptr + k_at + HALF, high, mask=use & is_k[:, None])
    v_at = k_at - HKV * D
    tl.store(v_ptr + v_at, low, mask=use & is_v[:, None])
    tl.store(v_ptr + v_at + HALF, high, mask=use & is_v[:, None])


@triton.jit
def silu_mul_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    """`out = silu(x[:width]) * x[width:]` of one row; grid (rows, blocks of the width)."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    use = i < width
    gate = tl.load(x_ptr + row * 2 * width + i, mask=use, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * width + width + i, mask=use, other=0.0).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + row * width + i, out.to(out_ptr.dtype.element_ty), mask=use)
