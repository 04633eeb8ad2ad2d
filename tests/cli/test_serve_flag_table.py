"""Each flag of each followed `vllm serve` is modelled, without effect, or refused, for a reason."""

import json
from pathlib import Path

import pytest

from schedbench.cli.configure import settle
from schedbench.cli.serve_args import SERVED, SHORT_FORMS, parse_serve_args
from schedbench.cli.serve_flags import NO_EFFECT, REFUSED, serve_flags
from schedbench.cli.serve_json import JSON_FLAGS
from schedbench.cli.values import FLAGS, spellings
from schedbench.errors import UnsupportedError

NAMES = Path(__file__).parent.parent / "support" / "serve_flags"
RELEASES = sorted(path.stem for path in NAMES.glob("*.json"))
MODELLED = {each for name in FLAGS for each in spellings(name)}
MODELLED |= {*SHORT_FORMS, *SERVED, *JSON_FLAGS, "--enable-lora"}


def flags_of(release: str) -> list[str]:
    found: list[str] = json.loads((NAMES / f"{release}.json").read_text())
    return [name for name in found if not name.startswith("--no-")]


def test_the_first_and_the_last_release_have_their_names_here() -> None:
    assert {"0.26.0", "0.33.0"} <= set(RELEASES)


@pytest.mark.parametrize("release", RELEASES)
def test_each_flag_of_a_release_has_one_place(release: str) -> None:
    table = serve_flags()
    assert len(flags_of(release)) > 250
    assert [name for name in flags_of(release) if (name in MODELLED) == (name in table)] == []


def test_no_flag_is_without_effect_and_refused() -> None:
    harmless = [word for names in NO_EFFECT.values() for word in names.split()]
    bare = [word.partition("|")[0].rstrip("?+") for word in (*harmless, *REFUSED)]
    assert len(set(bare)) == len(bare)


@pytest.mark.parametrize(
    "line",
    [
        "--quantization fp8",
        "-q awq",
        "--kv-cache-dtype fp8",
        "--kv-cache-memory-bytes 20G",
        "--kv-offloading-size 10",
        "--max-num-queued-reqs 5",
        """--kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}'""",
        """--kv-transfer-config '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}'""",
    ],
)
def test_what_changes_the_pool_or_its_blocks_is_refused(line: str) -> None:
    with pytest.raises(UnsupportedError, match=r"--serve-args: --?[a-z]"):
        parse_serve_args(f"vllm serve qwen3-8b {line}")


@pytest.mark.parametrize("line", ["--quantization None", "--kv-cache-dtype auto"])
def test_a_value_that_changes_nothing_may_stand(line: str) -> None:
    assert parse_serve_args(f"vllm serve qwen3-8b {line}").used == {}


@pytest.mark.parametrize(
    "name",
    [
        "openai/gpt-oss-120b",
        "google/gemma-3-27b-it",
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
        "ibm-granite/granite-4.0-h-small",
        "moonshotai/Kimi-Linear-48B-A3B-Instruct",
        "Qwen/Qwen3-8B-FP8",
    ],
)
def test_a_model_is_refused_by_name_as_its_folder_would_be(name: str) -> None:
    with pytest.raises(UnsupportedError, match="is not modelled"):
        settle({}, f"vllm serve {name} --num-gpu-blocks-override 301")


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "m"])
def test_other_names_are_taken(name: str) -> None:
    assert settle({}, f"vllm serve {name}").given == {}
