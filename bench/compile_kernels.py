"""Compile every Triton kernel for an H100 or H200 and read what the assembler says: no GPU needed.

python bench/compile_kernels.py [--json FILE]

A kernel that spills registers, or whose products no longer become the matrix instructions that
the GPU has, is slow in a way that no test of its results would notice.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from schedbench.runner.models import BUILT_IN, ModelSpec
from schedbench.runner.torch.attn import fused_kernels, kernels
from schedbench.runner.torch.attn.triton_paged import (
    HEADS_A_PROGRAM,
    OPTIONS,
    SILU_BLOCK,
    chunk_blocks,
    decode_blocks,
    precision_of,
)

TARGET = GPUTarget("cuda", 90, 32)
PAGE = 16
POINTERS = {torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.float32: "*fp32"}


@dataclass(frozen=True)
class Compiled:
    """What the assembler reports: registers a thread, bytes spilled or shared, instructions."""

    kernel: str
    shape: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    matrix_op: str
    async_copy: bool


def build(
    name: str,
    shape: str,
    kernel: Any,  # noqa: ANN401 - Triton is not typed
    types: dict[str, str],
    constants: dict[str, Any],
    warps: int,
    stages: int,
) -> Compiled:
    """Compile one kernel. Pointers and strides are taken as divisible by 16, as they are."""
    at = {each: index for index, each in enumerate(kernel.arg_names)}
    aligned = [[["tt.divisibility", 16]], ("table_stride", "width")]
    attributes = {
        (at[each],): aligned[0]
        for each, kind in types.items()
        if kind.startswith("*") or each in aligned[1]
    }
    signature = {each: types.get(each, "constexpr") for each in kernel.arg_names}
    source = ASTSource(
        kernel, signature, {(at[each],): value for each, value in constants.items()}, attributes
    )
    made = triton.compile(
        source, TARGET, options={"num_warps": warps, "num_stages": stages, **OPTIONS}
    )
    registers, spills = assemble(made.asm["ptx"])
    ptx = made.asm["ptx"]
    op = "wgmma" if "wgmma.mma_async" in ptx else "mma.sync" if "mma.sync" in ptx else "-"
    return Compiled(name, shape, registers, spills, made.metadata.shared, op, "cp.async" in ptx)


def assemble(ptx: str) -> tuple[int, int]:
    """Registers a thread and bytes spilled, as ptxas reports them."""
    ptxas = get_ptxas(TARGET.arch).path
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        done = subprocess.run(
            [ptxas, "-v", "--gpu-name=sm_90a", path, "-o", Path(folder) / "kernel.cubin"],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"ptxas: {done.stdout}{done.stderr}")
    registers = re.search(r"Used (\d+) registers", done.stderr)
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", done.stderr)
    assert registers is not None, done.stderr
    return int(registers[1]), sum(map(int, spills))


def chunk(spec: ModelSpec, dtype: torch.dtype) -> Compiled:
    pointer = POINTERS[dtype]
    blocks = chunk_blocks(spec.head_dim, spec.group_size, dtype.itemsize)
    types = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), pointer)
    names = ("table_ptr", "rows_ptr", "seq_lens_ptr", "cu_q_ptr", "tile_seq_ptr", "tile_start_ptr")
    types |= dict.fromkeys(names, "*i32") | {"table_stride": "i32", "scale": "fp32"}
    constants = heads(spec) | {
        "PAGE": PAGE,
        "TILE_TOKENS": blocks.bm // spec.group_size,
        "BM": blocks.bm,
        "BN": blocks.bn,
        "PRECISION": precision_of(dtype),
    }
    shape = f"{label(spec, dtype)} {blocks.bm}x{blocks.bn}"
    return build(
        "chunk", shape, kernels.chunk_kernel, types, constants, blocks.warps, blocks.stages
    )


def decode(spec: ModelSpec, dtype: torch.dtype, splits: int) -> Compiled:
    pointer = POINTERS[dtype]
    blocks = decode_blocks(spec.head_dim, spec.group_size, dtype.itemsize)
    types = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), pointer)
    types |= dict.fromkeys(("part_ptr", "peak_ptr", "total_ptr"), "*fp32")
    types |= dict.fromkeys(("table_ptr", "rows_ptr", "seq_lens_ptr"), "*i32")
    types |= {"table_stride": "i32", "scale": "fp32"}
    constants = heads(spec) | {
        "PAGE": PAGE,
        "GP": blocks.bm,
        "BN": blocks.bn,
        "SPLITS": splits,
        "PRECISION": precision_of(dtype),
    }
    shape = f"{label(spec, dtype)} {blocks.bm}x{blocks.bn}, {splits} splits"
    return build(
        "decode", shape, kernels.decode_kernel, types, constants, blocks.warps, blocks.stages
    )


def combine(spec: ModelSpec, dtype: torch.dtype, splits: int) -> Compiled:
    types = dict.fromkeys(("part_ptr", "peak_ptr", "total_ptr"), "*fp32")
    types["out_ptr"] = POINTERS[dtype]
    width = triton.next_power_of_2(spec.head_dim)
    constants = {"D": spec.head_dim, "D_PAD": width, "SPLITS": splits}
    shape = f"{label(spec, dtype)}, {splits} splits"
    return build("combine", shape, kernels.combine_kernel, types, constants, 2, 3)


def qkv_to_cache(spec: ModelSpec, dtype: torch.dtype) -> Compiled:
    names = ("qkv_ptr", "rope_ptr", "q_norm_ptr", "k_norm_ptr", "q_out_ptr", "k_ptr", "v_ptr")
    types = dict.fromkeys(names, POINTERS[dtype]) | {"slots_ptr": "*i32", "eps": "fp32"}
    constants = {
        "H": spec.num_heads,
        "HKV": spec.num_kv_heads,
        "D": spec.head_dim,
        "HALF_PAD": triton.next_power_of_2(spec.head_dim // 2),
        "HEADS": HEADS_A_PROGRAM,
        "NORM": spec.qk_norm,
    }
    kernel = fused_kernels.qkv_to_cache_kernel
    return build("qkv_to_cache", label(spec, dtype), kernel, types, constants, 4, 3)


def silu_mul(dtype: torch.dtype) -> Compiled:
    types = {"x_ptr": POINTERS[dtype], "out_ptr": POINTERS[dtype], "width": "i32"}
    kernel = fused_kernels.silu_mul_kernel
    return build("silu_mul", str(dtype)[6:], kernel, types, {"BLOCK": SILU_BLOCK}, 4, 3)


def heads(spec: ModelSpec) -> dict[str, Any]:
    return {
        "H": spec.num_heads,
        "HKV": spec.num_kv_heads,
        "D": spec.head_dim,
        "D_PAD": triton.next_power_of_2(spec.head_dim),
    }


def label(spec: ModelSpec, dtype: torch.dtype) -> str:
    return f"{spec.name} {str(dtype)[6:]} G={spec.group_size} D={spec.head_dim}"


def wide(head_dim: int) -> ModelSpec:
    """A model with other heads than the built-in ones have."""
    return ModelSpec(
        f"heads-{head_dim}", "llama", 4096, 32, 32, 8, head_dim, 14336, 128256, 8192, 1e4, 1e-5
    )


def compile_all() -> list[Compiled]:
    """Everything a timed pass of the built-in models can launch, and other head widths."""
    bf16 = torch.bfloat16
    specs = [BUILT_IN["llama-3.1-8b"], BUILT_IN["qwen3-0.6b"], wide(64), wide(96), wide(256)]
    done = [chunk(spec, bf16) for spec in specs]
    done += [decode(spec, bf16, splits) for spec in specs[:1] for splits in (1, 2, 8, 32)]
    done += [decode(spec, bf16, 4) for spec in specs[1:]]
    done += [combine(specs[0], bf16, splits) for splits in (2, 32)]
    done += [qkv_to_cache(spec, bf16) for spec in specs[:2]]
    done += [silu_mul(bf16), chunk(specs[0], torch.float32), decode(specs[0], torch.float32, 4)]
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the table there as well")
    given = parser.parse_args()
    done = compile_all()
    print(f"triton {triton.__version__}, sm_90a, block size {PAGE}")
    print(f"{'kernel':<13} {'shape':<48} {'regs':>5} {'spill':>6} {'shared':>8}  matrix op, copy")
    for each in done:
        copy = "cp.async" if each.async_copy else "-"
        print(
            f"{each.kernel:<13} {each.shape:<48} {each.registers:>5} {each.spill_bytes:>6} "
            f"{each.shared_bytes:>8}  {each.matrix_op}, {copy}"
        )
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in done], indent=1) + "\n")
    return int(any(each.spill_bytes for each in done))


if __name__ == "__main__":
    sys.exit(main())
