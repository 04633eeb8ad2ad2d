"""transformers' own models as the forward pass: `--frontend hf`."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hf_fields import HF_FIELDS

from schedbench.sched.config import SchedulerConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("safetensors")

from schedbench.errors import UnsupportedError, UsageError  # noqa: E402
from schedbench.runner.model_config import load_model  # noqa: E402
from schedbench.runner.models import BUILT_IN  # noqa: E402
from schedbench.runner.torch.attn.select import relative_error  # noqa: E402
from schedbench.runner.torch.build import EngineOptions  # noqa: E402
from schedbench.runner.torch.model.decoder import Tokens  # noqa: E402
from schedbench.runner.torch.model.hf import (  # noqa: E402
    FAMILIES,
    HfDecoder,
    hf_spec,
    paged_attention,
)
from schedbench.runner.torch.oracle import (  # noqa: E402
    Comparison,
    compare,
    drive,
    make_model,
    make_requests,
)
from schedbench.runner.torch.runner import TorchRunner  # noqa: E402
from schedbench.sched.scheduler import Scheduler  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

torch.set_num_threads(1)
TIGHT = SchedulerConfig(
    max_num_batched_tokens=48, max_num_seqs=8, max_model_len=256, num_gpu_blocks=16, block_size=16
)


def _runner(folder: Path) -> TorchRunner:
    made = EngineOptions(folder, device="cpu", weights=folder, frontend="hf")
    return TorchRunner(made, paranoid=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_admitted_model_type_equals_its_dense_pass_through_chunks_prefixes_and_evictions(
    family: str, tmp_path: Path
) -> None:
    model = make_model(family, tmp_path, **HF_FIELDS.get(family, {}))
    found = compare(model, _runner(tmp_path), TIGHT, make_requests(1, 12))
    assert found.num_preempted >= 3
    assert found.num_resumed >= 3
    assert found.num_prefix_hits >= 3
    assert len(found.errors) > 100
    assert found.worst < 1e-4


@pytest.mark.parametrize("family", ["llama3", "qwen2", "qwen3", "qwen3_moe", "mixtral"])
def test_both_frontends_give_the_same_logits_of_the_same_weights(
    family: str, tmp_path: Path
) -> None:
    make_model(family, tmp_path)
    own = _logits(EngineOptions(tmp_path, device="cpu", weights=tmp_path))
    theirs = _logits(EngineOptions(tmp_path, device="cpu", weights=tmp_path, frontend="hf"))
    assert len(own) > 100
    assert [request_id for request_id, _ in own] == [request_id for request_id, _ in theirs]
    for (_, ours), (_, other) in zip(own, theirs, strict=True):
        assert relative_error(other, ours) < 1e-5


def _logits(options: EngineOptions) -> list[tuple[str, Any]]:
    """Each sampled row with its logits, of one and the same stream."""
    found: list[tuple[str, Any]] = []
    runner = TorchRunner(
        options, on_logits=lambda ids, rows: found.extend(zip(ids, rows.clone(), strict=True))
    )
    drive(Scheduler(TIGHT), runner, make_requests(3, 8), Comparison())
    return found


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-0.6b", "qwen3-30b-a3b"])
def test_a_built_in_name_means_the_same_model_with_either_frontend(name: str) -> None:
    ours, theirs = load_model(name), hf_spec(name)
    assert theirs.num_params == ours.num_params
    assert theirs.kv_bytes_per_token() == ours.kv_bytes_per_token()
    assert theirs.max_position_embeddings == ours.max_position_embeddings


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"model_type": "gpt_oss"}, "gpt_oss"),
        ({"model_type": "falcon_h1"}, "falcon_h1"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding_window"),
        ({"model_type": "llama", "quantization_config": {"quant_method": "fp8"}}, "quantization"),
    ],
)
def test_a_config_that_paged_attention_cannot_hold_is_refused_before_anything_is_made(
    fields: dict[str, Any], named: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(UnsupportedError, match=named):
        hf_spec(tmp_path)


@pytest.mark.parametrize(
    ("keywords", "value_width", "named"),
    [
        ({"sliding_window": 8}, 16, "a window"),
        ({"softcap": 30.0}, 16, "a soft cap"),
        ({"s_aux": object()}, 16, "sinks"),
        ({"attention_mask": object()}, 16, "not plainly causal"),
        ({}, 8, "keys of width 16 and values of 8"),
    ],
)
def test_attention_refuses_what_it_would_leave_out(
    keywords: dict[str, Any], value_width: int, named: str
) -> None:
    key, value = torch.zeros(1, 2, 3, 16), torch.zeros(1, 2, 3, value_width)
    with pytest.raises(UnsupportedError, match=named):
        paged_attention(torch.nn.Module(), key, key, value, **keywords)


def test_a_model_that_goes_by_our_attention_is_refused() -> None:
    nothing = torch.zeros(1, dtype=torch.int32)

    def forward(**_: object) -> SimpleNamespace:
        return SimpleNamespace(logits=torch.zeros(1, 1, 4))

    decoder = HfDecoder(BUILT_IN["tiny"], forward, torch.zeros(2, 2, 1, 1, 2, 16), None)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="has 2 layers, and 0 of them"):
        decoder.forward(Tokens(nothing, nothing, nothing, None), None)  # type: ignore[arg-type]


def test_a_checkpoint_without_a_tensor_is_refused_by_its_name(tmp_path: Path) -> None:
    make_model("llama", tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(
        config.replace('"num_hidden_layers": 3', '"num_hidden_layers": 4')
    )
    with pytest.raises(UsageError, match=r"no tensor model\.layers\.3\."):
        _runner(tmp_path).open(TIGHT)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"frontend": "jax"}, "own or hf"), ({"frontend": "hf", "zipf": 1.0}, "--zipf")],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        EngineOptions("tiny", **options)


def test_a_run_says_whose_model_ran(tmp_path: Path) -> None:
    make_model("granitemoe", tmp_path, **HF_FIELDS["granitemoe"])
    options = EngineOptions(tmp_path, device="cpu", frontend="hf")
    info = TorchRunner(options).open(TIGHT)
    assert "transformers' " in info.description
    assert info.details["ops"] == f"transformers {transformers.__version__}, not tuned"
    assert info.details["parameters"] == hf_spec(tmp_path).num_params
    assert "routing" in info.details
