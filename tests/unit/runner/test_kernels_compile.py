"""The kernels through Triton's compiler and NVIDIA's assembler for an H100 or H200."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
SCRIPT = Path(__file__).parents[3] / "bench" / "compile_kernels.py"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    table = tmp_path_factory.mktemp("compiled") / "kernels.json"
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", table],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(table.read_text())
    return found


def test_no_kernel_spills_registers(compiled: list[dict[str, Any]]) -> None:
    assert len(compiled) >= 18
    assert [each for each in compiled if each["spill_bytes"]] == []
    assert max(each["registers"] for each in compiled) < 255


def test_products_become_the_matrix_instructions_of_the_gpu(
    compiled: list[dict[str, Any]],
) -> None:
    half = [each for each in compiled if "bfloat16" in each["shape"]]
    assert {each["matrix_op"] for each in half if each["kernel"] == "chunk"} == {"wgmma"}
    assert {each["matrix_op"] for each in half if each["kernel"] == "decode"} == {"mma.sync"}


def test_keys_are_copied_asynchronously_while_others_are_multiplied(
    compiled: list[dict[str, Any]],
) -> None:
    half = [each for each in compiled if "bfloat16" in each["shape"]]
    copies = {each["async_copy"] for each in half if each["kernel"] in ("chunk", "decode")}
    assert copies == {True}


def test_two_programs_fit_an_sm(compiled: list[dict[str, Any]]) -> None:
    decodes = [each for each in compiled if each["kernel"] == "decode"]
    assert max(each["shared_bytes"] for each in decodes) <= 228 * 1024 // 2
