import runpy
from pathlib import Path

import pytest

from schedbench.errors import UsageError
from schedbench.runner.batch_defaults import batch_defaults
from schedbench.runner.kvpool import PoolRequest, plan, plan_pool
from schedbench.runner.kvpool_log import from_log
from schedbench.runner.latency.hardware import GPUS, find_gpu, recognise_gpu
from schedbench.runner.models import BUILT_IN

LLAMA = BUILT_IN["llama-3.1-8b"]
BENCH = Path(__file__).parents[3] / "bench" / "kv_pool_logs.py"

V0_LOG = """
INFO worker.py:232] Memory profiling results: total_gpu_memory=23.58GiB \
initial_memory_usage=15.33GiB peak_torch_memory=17.06GiB memory_usage_post_profile=15.41GiB \
non_torch_memory=0.35GiB kv_cache_size=3.81GiB gpu_memory_utilization=0.90
INFO gpu_executor.py:113] # GPU blocks: 1952, # CPU blocks: 2048
"""
V1_LOG = """
INFO gpu_model_runner.py:2602] Model loading took 14.9888 GiB and 3.2 seconds
INFO gpu_worker.py:276] Available KV cache memory: 19.92 GiB
INFO kv_cache_utils.py:849] GPU KV cache size: 163,168 tokens
INFO kv_cache_utils.py:853] Maximum concurrency for 131,072 tokens per request: 1.24x
"""


@pytest.mark.parametrize(
    ("gpu", "utilization", "blocks"),
    [("H100", 0.9, 27638), ("H100", 0.92, 28448), ("H200", 0.9, 55567), ("H200", 0.92, 56998)],
)
def test_the_pool_of_llama_8b_follows_from_the_sum_of_terms(
    gpu: str, utilization: float, blocks: int
) -> None:
    planned = plan(LLAMA, gpu, gpu_memory_utilization=utilization)
    assert planned.num_gpu_blocks == blocks
    assert planned["usable_blocks"] == blocks - 1


def test_every_term_carries_its_formula_and_they_add_up() -> None:
    planned = plan(LLAMA, "H100", cuda_graph_bytes=2**28)
    assert all(term.formula for term in planned.terms)
    spent = ("weights", "activation_peak", "non_torch", "cuda_graphs", "kv_cache")
    assert sum(planned[name] for name in spent) == planned["requested"]
    assert planned["kv_cache"] // planned["block"] == planned["num_gpu_blocks"]


def test_the_formula_meets_the_public_logs() -> None:
    logs = runpy.run_path(str(BENCH))["LOGS"]
    assert len(logs) == 7
    for log in logs:
        bound = 0.015 if "ranks" in log.note else 0.002
        assert abs(log.error) < bound, log.name


def test_an_override_of_the_count_outranks_the_sum() -> None:
    assert plan(LLAMA, "L4", num_gpu_blocks=77).num_gpu_blocks == 77


def test_an_override_of_the_bytes_is_only_cut_into_blocks() -> None:
    assert plan(LLAMA, "L4", kv_cache_memory_bytes=2**30).num_gpu_blocks == 512


def test_an_fp8_cache_has_twice_the_blocks_for_the_same_bytes() -> None:
    planned = plan(LLAMA, "H100", kv_cache_memory_bytes=2**30, kv_cache_dtype="fp8")
    assert planned.num_gpu_blocks == 1024


def test_a_model_that_does_not_fit_is_refused_with_every_term() -> None:
    with pytest.raises(UsageError, match=r"weights = 131\.4.*tensor-parallel-size"):
        plan(BUILT_IN["llama-3.1-70b"], "H100")


def test_tensor_parallelism_makes_it_fit() -> None:
    planned = plan(BUILT_IN["llama-3.1-70b"], "H100", tensor_parallel_size=4)
    assert planned["block"] == 16 * 327_680 // 4
    assert planned.num_gpu_blocks > 20_000


def test_a_tensor_parallel_size_that_cuts_a_head_is_refused() -> None:
    with pytest.raises(UsageError, match="does not divide"):
        PoolRequest(LLAMA, find_gpu("H100"), tensor_parallel_size=3)


def test_a_block_of_no_tokens_is_refused_as_the_scheduler_refuses_it() -> None:
    with pytest.raises(UsageError, match="--block-size is 0: it must be from 1"):
        plan(LLAMA, "H100", block_size=0)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_utilization_that_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="share"):
        plan(LLAMA, "H100", gpu_memory_utilization=share)


def test_a_v0_log_is_read() -> None:
    log = from_log(V0_LOG)
    assert (log.num_gpu_blocks, log.kv_cache_gib, log.utilization) == (1952, 3.81, 0.9)
    assert (log.total_gib, log.peak_gib, log.non_torch_gib) == (23.58, 17.06, 0.35)
    assert log.blocks() == 1952


def test_a_v1_log_is_read() -> None:
    log = from_log(V1_LOG)
    assert (log.kv_tokens, log.kv_cache_gib, log.weights_gib) == (163_168, 19.92, 14.9888)
    assert log.max_model_len == 131_072
    assert log.blocks(block_size=16) == 10_198


def test_of_several_starts_in_a_log_the_last_one_counts() -> None:
    later = V1_LOG.replace("163,168", "100,000")
    assert from_log(V1_LOG + later).kv_tokens == 100_000


def test_a_log_without_a_cache_line_is_refused() -> None:
    with pytest.raises(UsageError, match="KV cache"):
        from_log("INFO: Started server process")


@pytest.mark.parametrize(
    ("gib", "name", "usage", "limits"),
    [
        (79.19, "H100", "server", (8192, 1024)),
        (79.19, "H100", "llm", (16384, 1024)),
        (79.19, "NVIDIA A100-SXM4-80GB", "server", (2048, 256)),
        (79.19, "NVIDIA A100-SXM4-80GB", "llm", (8192, 256)),
        (22.0, "L4", "server", (2048, 256)),
        (191.7, "MI300X", "server", (8192, 1024)),
    ],
)
def test_the_defaults_of_a_pass_follow_vllms_table(
    gib: float, name: str, usage: str, limits: tuple[int, int]
) -> None:
    found = batch_defaults(int(gib * 2**30), name, usage)  # type: ignore[arg-type]
    assert (found.max_num_batched_tokens, found.max_num_seqs) == limits


def test_without_chunks_the_default_budget_holds_a_whole_prompt() -> None:
    found = batch_defaults(80 * 2**30, "H100", max_model_len=32_768, enable_chunked_prefill=False)
    assert found.max_num_batched_tokens == 32_768


def test_the_default_budget_is_never_more_than_all_requests_at_full_length() -> None:
    assert batch_defaults(0, "", max_model_len=4).max_num_batched_tokens == 1024


def test_the_plan_uses_the_defaults_of_the_card() -> None:
    small = plan_pool(PoolRequest(BUILT_IN["qwen3-0.6b"], find_gpu("L4")))
    assert small["activation_peak"] == 256 * 151_936 * 18


def test_every_row_of_the_hardware_table_names_its_source_and_what_nobody_checked() -> None:
    for gpu in GPUS:
        assert gpu.source
        assert set(gpu.unverified) <= set(gpu.__slots__)
    assert "bandwidth_gb_s" in find_gpu("L4").unverified
    assert find_gpu("A100-40GB").unverified == ()


def test_a_gpu_is_found_as_people_write_it_and_as_the_driver_reports_it() -> None:
    assert find_gpu("a100 80gb_sxm").name == "A100-80GB-SXM"
    assert recognise_gpu("NVIDIA H100 80GB HBM3") is find_gpu("H100")
    assert recognise_gpu("NVIDIA A100 80GB PCIe") is find_gpu("A100-80GB-PCIe")
    assert recognise_gpu("NVIDIA H100 NVL") is None


def test_an_unknown_gpu_lists_the_table() -> None:
    with pytest.raises(UsageError, match="H200"):
        find_gpu("TPU")
