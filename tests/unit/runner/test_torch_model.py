from pathlib import Path

import pytest

from schedbench.sched.config import SchedulerConfig

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("safetensors")

from schedbench.errors import UsageError  # noqa: E402
from schedbench.runner.torch.build import EngineOptions  # noqa: E402
from schedbench.runner.torch.oracle import compare, make_model, make_requests  # noqa: E402
from schedbench.runner.torch.runner import TorchRunner  # noqa: E402

torch.set_num_threads(1)
TIGHT = SchedulerConfig(
    max_num_batched_tokens=48, max_num_seqs=8, max_model_len=256, num_gpu_blocks=16, block_size=16
)
FAMILIES = ("llama", "llama3", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral")


def _runner(folder: Path, **options: object) -> TorchRunner:
    made = EngineOptions(model=folder, weights=folder, device="cpu", **options)  # type: ignore[arg-type]
    return TorchRunner(made, paranoid=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_a_dense_forward_pass_through_chunks_shared_prefixes_and_preemptions(
    family: str, tmp_path: Path
) -> None:
    model = make_model(family, tmp_path)
    found = compare(model, _runner(tmp_path), TIGHT, make_requests(1, 20))
    assert found.num_preempted >= 3
    assert found.num_resumed >= 3
    assert found.num_chunks > 5
    assert found.num_mixed > 10
    assert found.num_prefix_hits >= 3
    assert len(found.errors) > 100
    assert found.worst < 1e-4


def test_the_plain_loop_gives_the_same_logits(tmp_path: Path) -> None:
    model = make_model("qwen3", tmp_path)
    found = compare(model, _runner(tmp_path, attention="loop"), TIGHT, make_requests(2, 8))
    assert found.worst < 1e-4


def test_a_checkpoint_without_a_tensor_is_refused_by_its_name(tmp_path: Path) -> None:
    make_model("llama", tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(
        config.replace('"num_hidden_layers": 3', '"num_hidden_layers": 4')
    )
    with pytest.raises(UsageError, match=r"model\.layers\.3\."):
        _runner(tmp_path).open(TIGHT)


def test_a_checkpoint_of_other_widths_is_refused(tmp_path: Path) -> None:
    make_model("llama", tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"vocab_size": 512', '"vocab_size": 513'))
    with pytest.raises(UsageError, match="embed_tokens"):
        _runner(tmp_path).open(TIGHT)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    make_model("llama", tmp_path)
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(UsageError, match=r"no \*\.safetensors"):
        _runner(tmp_path).open(TIGHT)
