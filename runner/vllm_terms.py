"""Flags and requests as the driver of vLLM's own class takes them, and which release is there."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING, Any

from schedbench.errors import UnsupportedError
from schedbench.runner.installed import vllm_version
from schedbench.sched.behaviours import RELEASES, resolve

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import EncoderInput, Request
    from schedbench.workloads.trace import Trace

OLDEST = next(iter(RELEASES))


def flags_for(config: SchedulerConfig, *, has_encoder: bool) -> dict[str, Any]:
    """The flags as the real class's driver takes them (those of a golden log's header)."""
    return config.as_dict() | {
        "prefix_caching_hash_algo": "sha256",
        "async_scheduling": config.runs_ahead,
        "kv_connector": config.kv_role is not None,
        "kv_role": config.kv_role or "kv_both",
        "encoder_budget": config.encoder_budget if has_encoder else None,
        "encoder_cache_size": config.encoder_cache_embeds if has_encoder else None,
        "pipeline_depth": None,
        "throttle_interval": 1,
    }


class Terms:
    """Turns the requests of one trace into rows of a golden scenario.

    Prompts become segments that share tokens as the trace's ids say. Where it has ids of generated
    blocks as well, whose tokens nobody knows, a row brings names for its blocks along instead.
    """

    def __init__(self, trace: Trace) -> None:
        self._hash_block_tokens = trace.hash_block_tokens
        self._by_name = trace.has("output_hash_ids")

    def described(self, request: Request) -> dict[str, Any]:
        """A request as a golden scenario has it.

        Raises:
            UnsupportedError: an encoder item takes fewer embeddings than tokens.
        """
        row = request.tag
        found: dict[str, Any] = {
            "id": request.request_id,
            "arrival": request.arrival_time,
            "prompt": self._segments(request),
            "max_tokens": request.max_tokens,
            "priority": request.priority,
            "resumable": request.resumable,
        }
        if request.eos_after is not None:
            found["eos_after"] = request.eos_after
        if request.lora_id:
            found["lora"] = request.lora_id
        if row is not None and row.cache_salt is not None:
            found["cache_salt"] = str(row.cache_salt)
        if request.grammar is not None:
            found["grammar"] = {"reject_after": request.grammar.tokens_left}
        if request.encoder_inputs:
            found["mm"] = [_encoder_item(item) for item in request.encoder_inputs]
        if self._by_name:
            found["names"] = request.identity
        return found

    def _segments(self, request: Request) -> list[list[Any]]:
        row, length = request.tag, request.num_prompt_tokens
        if row is None or row.hash_ids is None or self._by_name:
            return [[f"p:{request.request_id}:{request.arrival_time}", length]]
        assert self._hash_block_tokens is not None
        left = length
        segments: list[list[Any]] = []
        for each in row.hash_ids:
            taken = min(self._hash_block_tokens, left)
            segments.append([f"h{each}", taken])
            left -= taken
        return [*segments, [f"p:{request.request_id}", left]] if left else segments


def _encoder_item(item: EncoderInput) -> dict[str, Any]:
    if item.num_embeds != item.num_tokens:
        raise UnsupportedError(
            f"encoder item {item.identifier} has {item.num_tokens} tokens and {item.num_embeds} "
            "embeds, and vLLM's own class is driven with items that have an embedding for each "
            "token; leave `embeds` out"
        )
    return {"offset": item.offset, "length": item.num_tokens, "hash": item.identifier}


def installed_release(wanted: str | None) -> str:
    """Release of the installed vLLM, which has to be the one asked for (None: any).

    Raises:
        UsageError: a release that is not modelled.
        UnsupportedError: vLLM is not installed, or of another release.
    """
    resolve(wanted or OLDEST)
    try:
        found = vllm_version()
    except PackageNotFoundError as error:
        raise UnsupportedError(
            "vLLM is not installed beside schedbench, so its class cannot be driven. "
            f"`make vllm-env VERSION={wanted or OLDEST}` builds an environment that has it, "
            "without a GPU; run the schedbench in it"
        ) from error
    if found not in RELEASES:
        raise UnsupportedError(
            f"the installed vLLM is {found}, and schedbench drives the classes of "
            f"{', '.join(RELEASES)}: `make vllm-env VERSION={wanted or OLDEST}` builds an "
            "environment with one of them; run the schedbench in it"
        )
    if wanted is not None and found != wanted:
        raise UnsupportedError(
            f"the installed vLLM is {found}, and --vllm-version is {wanted}: ask for "
            f"--vllm-version {found}, or run in an environment with {wanted}"
        )
    return found
