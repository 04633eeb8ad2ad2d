"""Drives the installed vLLM's own Scheduler or AsyncScheduler, on a CPU, without weights.

This file and vllm_recorder.py alone import vllm, and only inside functions: everything
else works where vLLM is absent. It drives the classes of every modelled release.
"""

import dataclasses
import functools
import json
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from schedbench.runner.golden_backend import (
    Emission,
    PassReport,
    QueueContents,
    Scheduled,
    StoreClient,
)
from schedbench.runner.installed import vllm_version
from schedbench.runner.vllm_doubles import CountingGrammar, StoreConnector, TokenIds
from schedbench.runner.vllm_endings import as_endings
from schedbench.sched.endings import Ending, ends_release
from schedbench.sched.request import PrefixIdentity

Row = Mapping[str, Any]
END_TOKEN = (1 << 40) + 1  # sampled where the model ends a request by itself; no segment has it
NAME_BYTES = 16  # of a block that is named by a trace
CONNECTOR_NAME = "SchedbenchConnector"
VLLM_ENVIRONMENT = {
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # V2 reports resumed requests among the new ones
    "VLLM_PLUGINS": "",
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "CRITICAL",  # what a scenario provokes is not for the screen
}
TINY_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "max_position_embeddings": 1 << 20,
    "vocab_size": 1024,
}


def prepare_environment() -> None:
    """Must run before the first import of vllm, which reads these at import."""
    os.environ.update(VLLM_ENVIRONMENT)
    logging.getLogger("vllm").setLevel(logging.CRITICAL)  # 0.33.0 configures no logger itself


class VllmBackend:
    """The real class behind the Backend protocol; one instance a scenario.

    Raises:
        EngineEndsError: from any call, where the class fails in a way that has a name.
    """

    def __init__(self, flags: Row, store: StoreClient) -> None:
        prepare_environment()
        self._release = vllm_version()
        self._tokens = TokenIds()
        self._grammars: dict[str, Future[Any]] = {}
        self._reject_after: dict[str, int | None] = {}
        self._ends: dict[str, list[int | None]] = {}  # of each input: `eos_after`
        self._lookups: dict[str, int] = {}
        self._evictions: list[tuple[str, int]] = []
        self.blocks_freed_preempt = 0
        config = build_config(flags, store)
        self._scheduler = build_scheduler(flags, config)
        self._block_hasher = build_block_hasher(config)
        self._block_size = flags["block_size"]
        self._hash_lookahead_tokens = getattr(config, "num_hash_lookahead_tokens", None) or 0
        self._watch()

    def _watch(self) -> None:
        """Note evictions and cache lookups, which no SchedulerOutput reports."""
        scheduler, manager = self._scheduler, self._scheduler.kv_cache_manager
        preempt, look_up = scheduler._preempt_request, manager.get_computed_blocks  # noqa: SLF001
        finish = scheduler.finish_requests

        def noted_preempt(request: Any, *args: Any, **kwargs: Any) -> None:
            self._evictions.append((request.request_id, request.num_computed_tokens))
            before = self.num_free_blocks()
            preempt(request, *args, **kwargs)
            self.blocks_freed_preempt += self.num_free_blocks() - before

        def noted_look_up(request: Any, *args: Any) -> Any:
            found = look_up(request, *args)
            self._lookups[request.request_id] = found[1]
            return found

        def ordered_finish(request_ids: Any, status: Any) -> list[Any]:
            # The real method walks a set, so the order would change with the hash seed.
            if isinstance(request_ids, str):
                return list(finish(request_ids, status))
            wanted = set(request_ids)
            known = [request_id for request_id in scheduler.requests if request_id in wanted]
            return [request for request_id in known for request in finish(request_id, status)]

        scheduler._preempt_request = noted_preempt  # noqa: SLF001
        scheduler.finish_requests = ordered_finish
        manager.get_computed_blocks = noted_look_up

    @property
    def token_budget(self) -> int:
        return 0 if self._paused_all() else int(self._scheduler.max_num_scheduled_tokens)

    def _paused_all(self) -> bool:
        return bool(self._scheduler.pause_state.name == "PAUSED_ALL")

    def add_request(self, request: Row) -> None:
        real = self._build_request(request)
        if request["id"] not in self._scheduler.requests:
            self._ends[request["id"]] = []
        self._ends[request["id"]].append(request.get("eos_after"))
        if "grammar" in request:
            grammar: Future[Any] = Future()
            self._grammars[request["id"]] = grammar
            real.structured_output_request.grammar = grammar
            self._reject_after[request["id"]] = request["grammar"].get("reject_after")
        with as_endings(self._release):
            self._scheduler.add_request(real)

    def _build_request(self, request: Row) -> Any:
        from vllm.lora.request import LoRARequest
        from vllm.sampling_params import SamplingParams, StructuredOutputsParams
        from vllm.v1.request import Request

        lora = request.get("lora")
        return Request(
            request_id=request["id"],
            prompt_token_ids=self._tokens.prompt(request["prompt"]),
            sampling_params=SamplingParams(
                max_tokens=request["max_tokens"],
                min_tokens=request.get("min_tokens", 0),
                stop_token_ids=[END_TOKEN],
                structured_outputs=(
                    StructuredOutputsParams(json_object=True) if "grammar" in request else None
                ),
            ),
            pooling_params=None,
            arrival_time=request["arrival"],
            mm_features=[_encoder_input(item) for item in request.get("mm", ())],
            lora_request=LoRARequest(f"lora{lora}", lora, f"/lora/{lora}") if lora else None,
            cache_salt=request.get("cache_salt"),
            priority=request.get("priority", 0),
            block_hasher=self._hasher_for(request),
            resumable=bool(request.get("resumable")),
        )

    def _hasher_for(self, request: Row) -> Any:
        """What names a request's blocks: hashes over its tokens, or names that it brings along."""
        if self._block_hasher is None or "names" not in request:
            return self._block_hasher
        return named_hasher(request["names"], self._block_size, self._hash_lookahead_tokens)

    def compile_grammar(self, request_id: str, *, failed: bool) -> None:
        if failed:
            self._grammars[request_id].set_exception(ValueError("grammar does not compile"))
        else:
            grammar = _build_grammar(self._reject_after[request_id])
            self._grammars[request_id].set_result(grammar)

    def schedule(self, *, throttle_prefills: bool) -> Scheduled:
        with as_endings(self._release):
            output = self._scheduler.schedule(throttle_prefills)
        if any(count <= 0 for count in output.num_scheduled_tokens.values()):
            raise ends_release(Ending.NEGATIVE_GRANT, self._release)  # the update asserts it
        cached = output.scheduled_cached_reqs
        new = {data.req_id: data.num_computed_tokens for data in output.scheduled_new_reqs}
        continued = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        requests = self._scheduler.requests
        return Scheduled(
            output=output,
            tokens=dict(output.num_scheduled_tokens),
            new=list(new),
            resumed=[rid for rid in cached.req_ids if rid in cached.resumed_req_ids],
            computed=new | continued,
            drafts={rid: len(ids) for rid, ids in output.scheduled_spec_decode_tokens.items()},
            encoder_inputs=dict(output.scheduled_encoder_inputs),
            encoder_freed=list(output.free_encoder_mm_hashes),
            sampling=[
                rid for rid in output.num_scheduled_tokens if not requests[rid].is_prefill_chunk
            ],
        )

    def update(self, scheduled: Scheduled, report: PassReport) -> list[Emission]:
        from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput

        request_ids = list(scheduled.tokens)
        transfers: dict[str, Any] = {
            "finished_recving": report.loaded,  # lists, not sets: their order is the store's
            "finished_sending": report.sent,
            "invalid_block_ids": set(report.invalid_blocks),
        }
        can_fail_whole = (
            "failed_recving" in KVConnectorOutput.__dataclass_fields__
        )  # from 0.30.0 on
        if report.failed_loads and can_fail_whole:
            transfers["failed_recving"] = set(report.failed_loads)
        output = ModelRunnerOutput(
            req_ids=request_ids,
            req_id_to_index={rid: index for index, rid in enumerate(request_ids)},
            sampled_token_ids=[self._sample(rid, report) for rid in request_ids],
            kv_connector_output=KVConnectorOutput(**transfers),
        )
        with as_endings(self._release):
            outputs = self._scheduler.update_from_output(scheduled.output, output)
        known = self._scheduler.requests
        if any(rid in known and known[rid].num_computed_tokens < 0 for rid in request_ids):
            raise ends_release(Ending.NEGATIVE_COMPUTED, self._release)
        return [
            Emission(
                output.request_id,
                len(output.new_token_ids),
                None if output.finish_reason is None else str(output.finish_reason),
            )
            for client in outputs.values()
            for output in client.outputs
        ]

    def _sample(self, request_id: str, report: PassReport) -> list[int]:
        request = self._scheduler.requests.get(request_id)
        first = request.num_output_tokens if request is not None else 0
        tokens = self._tokens.output(request_id, first, report.sampled.get(request_id, 0))
        eos_after = None if request is None else self._eos_after(request)
        if eos_after is not None and first < eos_after <= first + len(tokens):
            tokens[eos_after - first - 1] = END_TOKEN
        return tokens

    def _eos_after(self, request: Any) -> int | None:
        """Output tokens after which the model ends a request, or its turn, by itself.

        A session has an end for each input; those that still wait in it are not in force.
        """
        return self._ends[request.request_id][-1 - len(request.streaming_queue or ())]

    def set_drafts(self, drafts: Mapping[str, int]) -> None:
        from vllm.v1.outputs import DraftTokenIds

        ids = [[0] * count for count in drafts.values()]
        self._scheduler.update_draft_token_ids(DraftTokenIds(list(drafts), ids))

    def finish_requests(self, request_ids: Sequence[str]) -> None:
        from vllm.v1.request import RequestStatus

        with as_endings(self._release):
            self._scheduler.finish_requests(request_ids, RequestStatus.FINISHED_ABORTED)

    def set_pause_state(self, state: str) -> None:
        from vllm.v1.core.sched.interface import PauseState

        self._scheduler.set_pause_state(PauseState[state])

    def reset_prefix_cache(self, *, preempt: bool) -> None:
        with as_endings(self._release):
            self._scheduler.reset_prefix_cache(reset_running_requests=preempt)

    def take_lookups(self) -> dict[str, int]:
        lookups, self._lookups = self._lookups, {}
        return lookups

    def take_evictions(self) -> list[str]:
        return [request_id for request_id, _ in self.take_victims()]

    def take_victims(self) -> list[tuple[str, int]]:
        """As `take_evictions`, each with the computed tokens it lost."""
        victims, self._evictions = self._evictions, []
        return victims

    @property
    def requests(self) -> dict[str, Any]:
        """All of vLLM's requests by id: the live ones, and those whose blocks are being sent."""
        found: dict[str, Any] = self._scheduler.requests
        return found

    @property
    def running(self) -> list[Any]:
        found: list[Any] = self._scheduler.running
        return found

    def queued(self) -> list[Any]:
        """Those of vLLM's requests that wait, holders of blocks first."""
        scheduler = self._scheduler
        holders = getattr(scheduler, "kv_holding_waiting", ())
        return [*holders, *scheduler.waiting, *getattr(scheduler, "skipped_waiting", ())]

    @property
    def num_holding_kv(self) -> int:
        return len(getattr(self._scheduler, "kv_holding_waiting", ()))

    @property
    def num_waiting_for_streaming_input(self) -> int:
        return int(self._scheduler.num_waiting_for_streaming_input)

    def is_live(self, request_id: str) -> bool:
        request = self._scheduler.requests.get(request_id)
        return request is not None and not request.is_finished()

    def num_unfinished(self) -> int:
        scheduler = self._scheduler
        return len(scheduler.requests) - int(scheduler.num_waiting_for_streaming_input)

    def has_finished_to_report(self) -> bool:
        return bool(self._scheduler.has_finished_requests())

    def queue_lengths(self) -> list[int]:
        scheduler = self._scheduler
        if not hasattr(scheduler, "deferred_waiting"):
            return [len(scheduler.running), len(scheduler.waiting), len(scheduler.skipped_waiting)]
        deferred = len(scheduler.deferred_waiting)
        waiting = len(scheduler.waiting) + len(scheduler.kv_holding_waiting) - deferred
        return [len(scheduler.running), waiting, deferred]

    def num_waiting(self) -> int:
        return len(self._scheduler.waiting)

    def queue_contents(self) -> QueueContents:
        scheduler = self._scheduler
        waiting = [request.request_id for request in scheduler.waiting]
        if not hasattr(scheduler, "deferred_waiting"):
            return QueueContents(waiting, _with_status(scheduler.skipped_waiting))
        holding = list(scheduler.kv_holding_waiting)
        deferred = [
            request
            for request in [*holding, *scheduler.waiting]
            if request in scheduler.deferred_waiting
        ]
        return QueueContents(waiting, _with_status(deferred), _with_status(holding))

    def num_free_blocks(self) -> int:
        return int(self._scheduler.kv_cache_manager.block_pool.get_num_free_blocks())

    def num_cached_blocks(self) -> int:
        blocks = self._scheduler.kv_cache_manager.block_pool.blocks
        return sum(block.block_hash is not None for block in blocks)

    def free_queue(self) -> list[int]:
        queue = self._scheduler.kv_cache_manager.block_pool.free_block_queue
        return [block.block_id for block in queue.get_all_free_blocks()]

    def block_ids(self, request_id: str) -> list[int]:
        if request_id not in self._scheduler.requests:
            return []
        return list(self._scheduler.kv_cache_manager.get_block_ids(request_id)[0])


def _with_status(requests: Any) -> list[list[str]]:
    return [[request.request_id, request.status.name] for request in requests]


def _encoder_input(item: Row) -> Any:
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

    return MultiModalFeatureSpec(
        data=None,
        modality="image",
        identifier=item["hash"],
        mm_position=PlaceholderRange(offset=item["offset"], length=item["length"]),
        mm_hash=item["hash"],
    )


@functools.cache
def _model_folder() -> tempfile.TemporaryDirectory[str]:
    """A model that exists as a config.json only; removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="schedbench-model-")
    Path(folder.name, "config.json").write_text(json.dumps(TINY_LLAMA), encoding="utf-8")
    return folder


@functools.cache
def _model_config(max_model_len: int) -> Any:
    """The first one costs some ten seconds: vLLM inspects the model class in a subprocess."""
    from vllm.config import ModelConfig

    return ModelConfig(
        model=_model_folder().name,
        skip_tokenizer_init=True,
        max_model_len=max_model_len,
        dtype="float32",
    )


def build_config(flags: Row, store: StoreClient) -> Any:
    """VllmConfig of the flags of a golden header.

    Raises:
        ValueError: vLLM refuses the combination.
    """
    from vllm.config import CacheConfig, DeviceConfig, LoRAConfig, VllmConfig

    config = VllmConfig(
        model_config=_model_config(flags["max_model_len"]),
        scheduler_config=_scheduler_config(flags),
        cache_config=CacheConfig(
            block_size=flags["block_size"],
            enable_prefix_caching=flags["enable_prefix_caching"],
            prefix_caching_hash_algo=flags["prefix_caching_hash_algo"],
        ),
        device_config=DeviceConfig(device="cpu"),
        lora_config=LoRAConfig(max_loras=flags["max_loras"]) if flags["max_loras"] else None,
        kv_transfer_config=_kv_transfer_config(flags, store),
        speculative_config=_speculative_config(flags),
    )
    config.cache_config.num_gpu_blocks = flags["num_gpu_blocks"]
    _name_drafter(config, flags)
    # Set last: validation refuses combinations that the scheduler class itself handles.
    config.scheduler_config.async_scheduling = flags["async_scheduling"]
    return config


def _scheduler_config(flags: Row) -> Any:
    from vllm.config import SchedulerConfig

    known = {field.name for field in dataclasses.fields(SchedulerConfig) if field.init}
    settings = {name: value for name, value in flags.items() if name in known}
    settings |= {"async_scheduling": False, "disable_hybrid_kv_cache_manager": True}
    return SchedulerConfig(
        **settings, max_model_len=flags["max_model_len"], is_encoder_decoder=False
    )


def _speculative_config(flags: Row) -> Any:
    """Built as ngram, which needs no second model; `_name_drafter` puts the real name in."""
    if not flags["num_speculative_tokens"]:
        return None
    from vllm.config import SpeculativeConfig

    known = {field.name for field in dataclasses.fields(SpeculativeConfig)}
    names = ("disable_eagle_block_drop", "disable_lookahead_block_hashes")
    return SpeculativeConfig(
        method="ngram",
        num_speculative_tokens=flags["num_speculative_tokens"],
        prompt_lookup_max=flags["num_speculative_tokens"],
        **{name: flags[name] for name in names if name in flags and name in known},
    )


def _name_drafter(config: Any, flags: Row) -> None:
    speculative = config.speculative_config
    if speculative is None:
        return
    speculative.method = flags["spec_method"]
    if flags.get("mtp_layers"):
        layers = SimpleNamespace(num_nextn_predict_layers=flags["mtp_layers"])
        speculative.draft_model_config = SimpleNamespace(hf_config=layers)
    # The drafter's name decides how many slots of the batch are left for tokens.
    config.scheduler_config.max_num_scheduled_tokens = flags["max_num_scheduled_tokens"]
    config._set_max_num_scheduled_tokens()  # noqa: SLF001


def _kv_transfer_config(flags: Row, store: StoreClient) -> Any:
    if not flags["kv_connector"]:
        return None
    from vllm.config import KVTransferConfig
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

    connector = type(
        CONNECTOR_NAME,
        (StoreConnector, KVConnectorBase_V1),
        {"store": store, "drops_preempted_output": flags.get("drop_preempted_output")},
    )
    KVConnectorFactory._registry[CONNECTOR_NAME] = lambda: connector  # noqa: SLF001
    return KVTransferConfig(
        kv_connector=CONNECTOR_NAME,
        kv_role=flags.get("kv_role", "kv_both"),
        kv_load_failure_policy=flags["kv_load_failure_policy"],
    )


def _build_grammar(reject_after: int | None) -> Any:
    from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

    return type("Grammar", (CountingGrammar, StructuredOutputGrammar), {})(reject_after)


def build_scheduler(flags: Row, config: Any) -> Any:
    """The class vLLM's engine would pick, with a pool of one full-attention group."""
    import torch
    from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    block_size = flags["block_size"]
    spec = FullAttentionSpec(
        block_size=block_size, num_kv_heads=1, head_size=64, dtype=torch.float32
    )
    scheduler_class = AsyncScheduler if flags["async_scheduling"] else Scheduler
    scheduler = scheduler_class(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(
            flags["num_gpu_blocks"], [], [KVCacheGroupSpec(["layer0"], spec)]
        ),
        structured_output_manager=StructuredOutputManager(config),
        block_size=block_size,
        hash_block_size=block_size,
    )
    if flags["encoder_budget"] is not None:
        scheduler.max_num_encoder_input_tokens = flags["encoder_budget"]
        scheduler.encoder_cache_manager = EncoderCacheManager(flags["encoder_cache_size"])
    return scheduler


def build_block_hasher(config: Any) -> Any:
    """None without prefix caching or connector: then nothing asks for hashes."""
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

    cache = config.cache_config
    if not cache.enable_prefix_caching and config.kv_transfer_config is None:
        return None
    hash_function = get_hash_fn_by_name(cache.prefix_caching_hash_algo)
    init_none_hash(hash_function)
    lookahead = getattr(config, "num_hash_lookahead_tokens", None)
    extra = () if lookahead is None else (lookahead,)
    return get_request_block_hasher(cache.block_size, hash_function, *extra)


def named_hasher(names: PrefixIdentity, block_size: int, lookahead_tokens: int) -> Any:
    """Block hashes made of names instead of tokens, as soon as the tokens are there."""
    from vllm.v1.core.kv_cache_utils import BlockHash

    def hash_new_blocks(request: Any) -> list[Any]:
        first = len(request.block_hashes)
        end = max(request.num_tokens - lookahead_tokens, 0) // block_size
        return [
            BlockHash(names.block_hash(index).to_bytes(NAME_BYTES, "little", signed=True))
            for index in range(first, end)
        ]

    return hash_new_blocks
