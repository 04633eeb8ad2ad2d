"""Flags as a `vllm serve` command line."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from schedbench.cli.values import show_value
from schedbench.sched.config import option_of

MODEL = "MODEL"
NO_FLAG = ("encoder_cache_size", "max_num_encoder_input_tokens", "is_encoder_decoder")
"""Fields of vLLM's config classes that `vllm serve` has no flag for."""

IN_JSON = {
    "--speculative-config": {"num_speculative_tokens": "num_speculative_tokens"}
    | {"spec_method": "method"},
    "--kv-transfer-config": {"kv_role": "kv_role"}
    | {"kv_load_failure_policy": "kv_load_failure_policy"},
}
"""Flags that stand in a JSON object: the object's field by the flag's name."""


def serve_line(flags: Mapping[str, Any]) -> str:
    """The command line that sets these flags; MODEL stands for the model, which is not known."""
    words = ["vllm", "serve", MODEL, *_plain(flags), *_objects(flags)]
    return shlex.join(words)


def without_flag(flags: Mapping[str, Any]) -> list[str]:
    """Flags that cannot be set there."""
    return [name for name in flags if name in NO_FLAG]


def _plain(flags: Mapping[str, Any]) -> Iterator[str]:
    inside = {name for fields in IN_JSON.values() for name in fields}
    for name, value in flags.items():
        if value is None or name in NO_FLAG or name in inside:
            continue
        option = option_of(name)
        if name == "max_loras":
            yield "--enable-lora"
        if isinstance(value, bool):
            yield option if value else option.replace("--", "--no-", 1)
        else:
            yield from (option, show_value(value))


def _objects(flags: Mapping[str, Any]) -> Iterator[str]:
    for option, fields in IN_JSON.items():
        found = {fields[name]: flags[name] for name in fields if flags.get(name) is not None}
        if option == "--speculative-config" and not found.get("num_speculative_tokens"):
            continue
        if found:
            yield from (option, json.dumps(found))
