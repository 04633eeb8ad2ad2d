"""Paged attention in Triton: one kernel for chunks, one for decodes, one to combine splits.

Both walk a row's keys in steps of BN through its block table, with a running maximum and sum
(online softmax). Query heads that share a KV head stand beside each other in a tile, so that
each key is read once for all of them:

    tile rows of a chunk   | t0 h0 | t0 h1 | .. | t0 hG | t1 h0 | ..   (TILE_TOKENS * G <= BM)
    tile rows of a decode  | h0 | h1 | .. | hG | padding up to GP

Steps whose keys all rows see need no mask; the last steps have one. Pages may hold anything behind
a row's end: those places are never read.
"""

from __future__ import annotations

# fmt: off - arguments stand in lines by their kind: pointers, numbers, constants
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _step(
    q,
    acc,
    peak,
    total,
    table,
    k_ptr,
    v_ptr,
    base,
    last,
    head,
    scale,
    HKV: tl.constexpr,
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    PAGE: tl.constexpr,
    BN: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Take in the keys [base, base + BN); row i sees those up to and with `last[i]`."""
    key = base + tl.arange(0, BN)
    d = tl.arange(0, D_PAD)
    if MASKED:
        inside = key <= tl.max(last, axis=0)
        page = tl.load(table + key // PAGE, mask=inside, other=0)
    else:
        page = tl.load(table + key // PAGE)
    slot = page.to(tl.int64) * PAGE + key % PAGE
    at = slot[:, None] * (HKV * D) + head * D + d[None, :]
    if MASKED:
        use = inside[:, None] & (d[None, :] < D)
        k = tl.load(k_ptr + at, mask=use, other=0.0)
        v = tl.load(v_ptr + at, mask=use, other=0.0)
    elif D_PAD != D:
        k = tl.load(k_ptr + at, mask=d[None, :] < D, other=0.0)
        v = tl.load(v_ptr + at, mask=d[None, :] < D, other=0.0)
    else:
        k = tl.load(k_ptr + at)
        v = tl.load(v_ptr + at)
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    if MASKED:
        scores = tl.where(key[None, :] <= last[:, None], scores, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(scores, axis=1))
    safe = tl.where(new_peak == float("-inf"), 0.0, new_peak) if MASKED else new_peak
    weights = tl.exp2(scores - safe[:, None])
    shrink = tl.exp2(peak - safe)
    total = total * shrink + tl.sum(weights, axis=1)
    acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None], input_precision=PRECISION)
    return acc, new_peak, total


@triton.jit
def chunk_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    table_ptr,
    rows_ptr,
    seq_lens_ptr,
    cu_q_ptr,
    tile_seq_ptr,
    tile_start_ptr,
    table_stride,
    scale,
    H: tl.constexpr,
    HKV: tl.constexpr,
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    PAGE: tl.constexpr,
    TILE_TOKENS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One tile of a chunk's tokens and one KV head; grid (tiles, HKV)."""
    G: tl.constexpr = H // HKV
    tile, head = tl.program_id(0), tl.program_id(1)
    seq = tl.load(tile_seq_ptr + tile)
    start = tl.load(tile_start_ptr + tile)
    begin = tl.load(cu_q_ptr + seq)
    q_len = tl.load(cu_q_ptr + seq + 1) - begin
    length = tl.load(seq_lens_ptr + seq)
    context = length - q_len
    table = table_ptr + tl.load(rows_ptr + seq).to(tl.int64) * table_stride

    m = tl.arange(0, BM)
    d = tl.arange(0, D_PAD)
    token = start + m // G
    live = (m // G < TILE_TOKENS) & (token < q_len)
    at = (begin + token).to(tl.int64)[:, None] * (H * D) + (head * G + m % G)[:, None] * D
    use = live[:, None] & (d[None, :] < D)
    q = tl.load(q_ptr + at + d[None, :], mask=use, other=0.0)

    last = tl.where(live, context + token, context + start)
    end = tl.minimum(context + start + TILE_TOKENS, length)
    unmasked = (context + start + 1) // BN * BN
    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D_PAD], tl.float32)
    for base in range(0, unmasked, BN):
        acc, peak, total = _step(
            q,
            acc,
            peak,
            total,
            table,
            k_ptr,
            v_ptr,
            base,
            last,
            head,
            scale * LOG2_E,
            HKV,
            D,
            D_PAD,
            PAGE,
            BN,
            False,
            PRECISION,
        )
    for base in range(unmasked, end, BN):
        acc, peak, total = _step(
            q,
            acc,
            peak,
            total,
            table,
            k_ptr,
            v_ptr,
            base,
            last,
            head,
            scale * LOG2_E,
            HKV,
            D,
            D_PAD,
            PAGE,
            BN,
            True,
            PRECISION,
        )
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at + d[None, :], out, mask=use)


@triton.jit
def decode_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    part_ptr,
    peak_ptr,
    total_ptr,
    table_ptr,
    rows_ptr,
    seq_lens_ptr,
    table_stride,
    scale,
    H: tl.constexpr,
    HKV: tl.constexpr,
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    PAGE: tl.constexpr,
    GP: tl.constexpr,
    BN: tl.constexpr,
    SPLITS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One decode, one KV head, one part of its keys; grid (rows, HKV, SPLITS).

    A row of length 0 pads a batch: it reads nothing and its output is 0.
    """
    G: tl.constexpr = H // HKV
    seq, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(seq_lens_ptr + seq)
    table = table_ptr + tl.load(rows_ptr + seq).to(tl.int64) * table_stride
    share = tl.cdiv(length, SPLITS * BN) * BN
    begin = split * share
    end = tl.minimum(begin + share, length)

    g = tl.arange(0, GP)
    d = tl.arange(0, D_PAD)
    at = seq.to(tl.int64) * (H * D) + (head * G + g)[:, None] * D + d[None, :]
    use = (g[:, None] < G) & (d[None, :] < D)
    q = tl.load(q_ptr + at, mask=use, other=0.0)
    last = tl.zeros([GP], tl.int32) + (end - 1)
    unmasked = begin + tl.maximum(end - begin, 0) // BN * BN
    peak = tl.full([GP], float("-inf"), tl.float32)
    total = tl.zeros([GP], tl.float32)
    acc = tl.zeros([GP, D_PAD], tl.float32)
    for base in range(begin, unmasked, BN):
        acc, peak, total = _step(
            q,
            acc,
            peak,
            total,
            table,
            k_ptr,
            v_ptr,
            base,
            last,
            head,
            scale * LOG2_E,
            HKV,
            D,
            D_PAD,
            PAGE,
            BN,
            False,
            PRECISION,
        )
    for base in range(unmasked, end, BN):
        acc, peak, total = _step(
            q,
            acc,
            peak,
            total,
            table,
            k_ptr,
            v_ptr,
            base,
            last,
            head,
            scale * LOG2_E,
            HKV,
            D,
            D_PAD,
            PAGE,
            BN,
            True,
            PRECISION,
        )
    if SPLITS == 1:
        out = tl.where(total[:, None] > 0.0, acc / total[:, None], 0.0)
        tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=use)
    else:
        slot = (seq.to(tl.int64) * H + head * G + g) * SPLITS + split
        tl.store(part_ptr + slot[:, None] * D + d[None, :], acc, mask=use)
        tl.store(peak_ptr + slot, peak, mask=g < G)
        tl.store(total_ptr + slot, total, mask=g < G)


@triton.jit
def combine_kernel(
    part_ptr,
    peak_ptr,
    total_ptr,
    out_ptr,
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """Weigh the parts of one row and head by what their softmax saw; grid (rows * H,)."""
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, SPLITS)
    d = tl.arange(0, D_PAD)
    peak = tl.load(peak_ptr + row * SPLITS + s)
    total = tl.load(total_ptr + row * SPLITS + s)
    highest = tl.max(peak, axis=0)
    highest = tl.where(highest == float("-inf"), 0.0, highest)
    weight = tl.exp2(peak - highest)
    part = tl.load(
        part_ptr + (row * SPLITS + s)[:, None] * D + d[None, :], mask=d[None, :] < D, other=0.0
    )
    sums = tl.sum(weight * total, axis=0)
    out = tl.sum(weight[:, None] * part, axis=0) / tl.where(sums > 0.0, sums, 1.0)
    tl.store(out_ptr + row * D + d, out.to(out_ptr.dtype.element_ty), mask=d < D)
