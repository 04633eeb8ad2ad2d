"""Flags of `vllm serve` whose value is a JSON object: its fields, as flags of their own."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schedbench.errors import UnsupportedError, UsageError
from schedbench.sched.config import option_of


@dataclass(frozen=True, slots=True)
class Given:
    """One flag as it stands on the line, with its values; a switch has none."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JsonFlag:
    """`read`: flag by the object's field, of those that the scheduler reads.

    The fields in `passed_over` concern the model or the network.
    """

    read: Mapping[str, str]
    passed_over: frozenset[str]


JSON_FLAGS = {
    "--speculative-config": JsonFlag(
        {"method": "spec_method", "num_speculative_tokens": "num_speculative_tokens"},
        frozenset(
            [
                "model",
                "draft_tensor_parallel_size",
                "tensor_parallel_size",
                "quantization",
                "max_model_len",
                "revision",
                "code_revision",
                "prompt_lookup_max",
                "prompt_lookup_min",
                "attention_backend",
                "enforce_eager",
                "moe_backend",
                "kv_cache_dtype",
                "use_local_argmax_reduction",
                "use_heterogeneous_vocab",
                "rejection_sample_method",
            ]
        ),
    ),
    "--kv-transfer-config": JsonFlag(
        {"kv_role": "kv_role", "kv_load_failure_policy": "kv_load_failure_policy"},
        frozenset(
            [
                "engine_id",
                "kv_buffer_device",
                "kv_buffer_size",
                "kv_rank",
                "kv_parallel_size",
                "kv_ip",
                "kv_port",
                "kv_connector_extra_config",
                "kv_connector_module_path",
            ]
        ),
    ),
}


def spelled_out(name: str, text: str) -> Iterator[Given]:
    """The fields of an object that the scheduler reads. Raises UsageError, UnsupportedError."""
    flag, found = JSON_FLAGS[name], _object(name, text)
    for key, value in found.items():
        if key == "kv_connector":
            _refuse_what_stores(name, str(value))
        elif (field := flag.read.get(key)) is not None:
            yield Given(option_of(field), (str(value),))
        elif key not in flag.passed_over:
            raise UnsupportedError(
                f"--serve-args: {name}: the field {key} is not modelled; leave it out"
            )
    if name == "--speculative-config" and "method" not in found:
        raise UsageError(f"--serve-args: {name}: vLLM guesses a missing method; state it")


HANDING_ON = re.compile(r"(Nixl|P2pNccl|MoRIIO)\w*|MooncakeConnector\w*")
"""Connectors that hand KV from one engine to another; all others keep it, or are of one's own."""


def _refuse_what_stores(name: str, connector: str) -> None:
    if not HANDING_ON.fullmatch(connector):
        raise UnsupportedError(
            f"--serve-args: {name}: the connector {connector} is not modelled: only "
            "those are that hand KV from one engine to another (NixlConnector, MooncakeConnector, "
            "P2pNcclConnector, MoRIIOConnector). One that keeps KV blocks outside of "
            "the GPU's memory finds them again; leave it out"
        )


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"--serve-args: {name} is no JSON ({error}): {text}") from None
    if not isinstance(found, dict):
        raise UsageError(f"--serve-args: {name} takes a JSON object, not {text}")
    return found
