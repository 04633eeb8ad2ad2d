"""The torch runner against transformers: the same random weights, dense forward passes.

A small model of a family is saved as a hub would have it, loaded by the runner, and driven through
the scheduler with chunks, shared prefixes and evictions. Every sampled row's logits are compared
with those of a dense pass over all tokens that the request then has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from schedbench.runner.torch.rows import seed_of, tokens_of
from schedbench.sched.output import ModelRunnerOutput
from schedbench.sched.prefix_identity import PrefixNames
from schedbench.sched.request import Request
from schedbench.sched.scheduler import Scheduler

if TYPE_CHECKING:
    from pathlib import Path

    from schedbench.runner.torch.runner import TorchRunner
    from schedbench.sched.config import SchedulerConfig

VOCAB = 512
BLOCK = 16
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}


def make_model(family: str, folder: Path, **fields: object) -> Any:  # noqa: ANN401 - not typed
    """A small model of the family, saved to the folder as a hub would have it.

    `fields` are of its config, beside those of SMALL.
    """
    import transformers  # noqa: PLC0415 - seconds to import

    transformers.logging.disable_progress_bar()
    torch.manual_seed(7)
    extra: dict[str, Any] = {}
    match family:
        case "qwen3":
            extra = {"head_dim": 32, "tie_word_embeddings": True}
        case "qwen3_moe":
            extra = {
                "head_dim": 32, "num_experts": 8, "num_experts_per_tok": 2,
                "moe_intermediate_size": 48, "norm_topk_prob": True,
            }  # fmt: skip
        case "mixtral":
            extra = {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}
        case "mistral":
            extra = {"sliding_window": None}
        case "llama3":
            extra = {
                "rope_parameters": {
                    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                }
            }  # fmt: skip
    kind = "llama" if family == "llama3" else family
    config = transformers.AutoConfig.for_model(kind, **{**SMALL, **extra, **fields})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():  # norms and biases that differ from one and zero, so that they count
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                offset = 0.0 if name.endswith("bias") else 1.0
                weight.copy_(offset + 0.2 * torch.randn_like(weight))
    model.eval().save_pretrained(folder)
    return model


def make_requests(seed: int, count: int, *, longest: int = 90) -> list[Request]:
    """Requests of which some begin alike, for several blocks."""
    rng = np.random.default_rng(seed)
    names = PrefixNames(BLOCK, BLOCK)
    made = []
    for index in range(count):
        prompt = int(rng.integers(2, longest))
        group = int(rng.integers(0, 3))
        ids = [group * 1000 + block for block in range(prompt // BLOCK)]
        shared = ids if group else []
        request = Request(
            f"{index:09d}",
            num_prompt_tokens=prompt,
            max_tokens=int(rng.integers(2, 40)),
            arrival_time=index,
            identity=names.shared(prompt, shared),
        )
        made.append(request)
    return made


def known_tokens(request: Request, count: int) -> np.ndarray:
    """The first `count` tokens of a request, as the runner makes them."""
    places = np.arange(count, dtype=np.int32)
    hashes = [request.identity.block_hash(index) for index in range(-(-count // BLOCK))]
    seeds = np.array([seed_of(each) for each in hashes], dtype=np.uint32)[places // BLOCK]
    return tokens_of(seeds, places % BLOCK, VOCAB)


@dataclass
class Comparison:
    """Logits of a run beside the dense model's, and what happened on the way."""

    errors: list[float] = field(default_factory=list)
    num_preempted: int = 0
    num_resumed: int = 0
    num_chunks: int = 0
    num_mixed: int = 0
    num_prefix_hits: int = 0

    @property
    def worst(self) -> float:
        return max(self.errors)


def compare(
    model: Any,  # noqa: ANN401
    runner: TorchRunner,
    config: SchedulerConfig,
    requests: list[Request],
) -> Comparison:
    """Drive the scheduler with the runner; each sampled row against a dense forward pass."""
    found = Comparison()
    scheduler = Scheduler(config)

    def check(ids: list[str], logits: torch.Tensor) -> None:
        for request_id, row in zip(ids, logits, strict=True):
            request = scheduler.requests[request_id]
            tokens = known_tokens(request, request.num_computed_tokens)
            ids_tensor = torch.tensor(tokens[None].astype(np.int64), device=logits.device)
            with torch.no_grad():
                expected = model(ids_tensor).logits[0, -1]
            found.errors.append(float((row - expected).norm() / expected.norm()))

    runner.on_logits = check
    drive(scheduler, runner, requests, found)
    return found


def drive(
    scheduler: Scheduler, runner: TorchRunner, requests: list[Request], found: Comparison
) -> None:
    """Let the runner execute what the scheduler makes of the requests; count what happens."""
    runner.open(scheduler.config)
    for request in requests:
        scheduler.add_request(request)
    while scheduler.requests:
        output = scheduler.schedule()
        found.num_preempted += len(output.victims)
        found.num_resumed += len(output.scheduled_resumed_reqs)
        found.num_mixed += bool(output.prefills and output.decode_tokens)
        found.num_chunks += sum(request.is_prefill_chunk for request, _, _ in output.prefills)
        found.num_prefix_hits += sum(
            grant.num_computed_tokens > 0 and grant.request in output.scheduled_new_reqs
            for grant in output.prefills
        )
        runner.execute(output)
        sampled = dict.fromkeys(output.num_scheduled_tokens, 1)
        for request, _, _ in output.prefills:
            if request.is_prefill_chunk:
                del sampled[request.request_id]
        scheduler.update_from_output(output, ModelRunnerOutput(sampled))
    runner.close()
