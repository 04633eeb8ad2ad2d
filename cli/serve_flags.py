"""Every flag of all followed `vllm serve` that neither the scheduler nor time depends on, and why.

A name is followed by `?` where it is a switch (with a `--no-` form), by `+` where it takes several
values, and by `|` and its short forms.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal

from schedbench.sched.config import SchedulerConfig, option_of

Takes = Literal["value", "switch", "list"]
_MARKS: dict[str, Takes] = {"?": "switch", "+": "list"}


@dataclass(frozen=True, slots=True)
class ServeFlag:
    """`neutral`: with one of these values a refused flag changes nothing, and may stand."""

    name: str
    takes: Takes
    reason: str
    is_refused: bool = False
    neutral: tuple[str, ...] = ()


NO_EFFECT = {
    "the HTTP front end": """
        --host --port --uds --uvicorn-log-level --disable-uvicorn-access-log?
        --disable-access-log-for-endpoints --allow-credentials? --allowed-origins
        --allowed-methods --allowed-headers --api-key+ --ssl-keyfile --ssl-certfile --ssl-ca-certs
        --enable-ssl-refresh? --ssl-cert-reqs --ssl-ciphers --root-path --middleware
        --enable-request-id-headers? --disable-fastapi-docs? --h11-max-incomplete-event-size
        --h11-max-header-count --enable-offline-docs? --tokens-only? --fingerprint-mode
        --fingerprint-value --api-server-count|-asc --grpc? --headless? --shutdown-timeout
        --grpc-port --log-level --logging-config --sse-keep-alive-interval --watchdog-config
        --enable-fault-tolerance? --fault-tolerance-config --enable-scale-out?
        --served-model-name+ --fail-on-environ-validation? --enable-flash-late-interaction?
        """,
    "the form of prompts and answers": """
        --lora-modules+ --chat-template --chat-template-content-format
        --trust-request-chat-template? --default-chat-template-kwargs --response-role
        --return-tokens-as-token-ids? --enable-auto-tool-choice?
        --exclude-tools-when-tool-choice-none? --tool-call-parser --tool-parser-plugin
        --tool-server --enable-prompt-tokens-details? --enable-force-include-usage?
        --enable-tokenizer-info-endpoint? --tokenizer --tokenizer-mode --tokenizer-revision
        --skip-tokenizer-init? --max-logprobs --logprobs-mode --use-fp64-gumbel?
        --generation-config --override-generation-config --logits-processors+
        --io-processor-plugin --renderer-num-workers --reasoning-parser
        --reasoning-parser-plugin --reasoning-config --structured-outputs-config
        --anthropic-disabled-thinking-effort --cohere-format --cohere-is-reasoning-model?
        --max-lora-cls-labels --reasoning-effort-map --return-sampling-mask? --tool-strict-level
        --watermark-config --aux-output-config
        --stream-interval --enable-prompt-embeds?
        """,
    "logs and metrics": """
        --log-config-file --max-log-len --enable-per-request-metrics?
        --enable-server-load-tracking? --enable-log-outputs? --enable-log-deltas?
        --log-error-stack? --disable-log-stats? --aggregate-engine-logging?
        --enable-log-requests? --show-hidden-metrics-for-version --otlp-traces-endpoint
        --collect-detailed-traces+ --kv-cache-metrics? --kv-cache-metrics-sample
        --cudagraph-metrics? --enable-layerwise-nvtx-tracing? --enable-mfu-metrics?
        --enable-logging-iteration-details? --jit-monitor-mode --jit-monitor-verbose?
        --custom-histogram-buckets --per-request-spec-decode-metrics?
        --profiler-config --kv-events-config
        """,
    "which model runs, and its weights": """
        --runner --convert --trust-remote-code? --seed --hf-config-path
        --allowed-local-media-path --allowed-media-domains+ --revision --code-revision
        --allow-deprecated-quantization?
        --enable-return-routed-experts? --config-format --hf-token --hf-overrides
        --model-class-overrides --enable-sleep-mode? --enable-cumem-allocator? --model-impl
        --override-attention-dtype --load-format --download-dir --safetensors-load-strategy
        --safetensors-prefetch-num-threads --safetensors-prefetch-block-size
        --model-loader-extra-config --ignore-patterns+ --use-tqdm-on-load?
        --pt-load-map-location --max-parallel-loading-workers --weight-transfer-config
        --sleep-mode-backend --sleep-mode-offload-cudagraph? --sleep-preserve-parameter-names+
        --enable-nccl-comm-suspend? --enable-trace-replay?
        --additional-config --spec-model
        """,
    "how long a pass takes, beyond what the model of time knows": """
        --disable-cascade-attn? --attention-backend --attention-config|-ac --compilation-config|-cc
        --cudagraph-capture-sizes+ --max-cudagraph-capture-size --kernel-config
        --ir-op-priority --enable-flashinfer-autotune? --enable-bf16x3-router-gemm?
        --moe-backend --linear-backend --optimization-level|-O --distributed-executor-backend
        --master-addr --master-port --nnodes|-n --node-rank|-r --distributed-timeout-seconds
        --cpu-distributed-timeout-seconds --numa-bind? --numa-bind-nodes+ --numa-bind-cpus+
        --device-ids --enable-expert-parallel?|-ep --enable-ep-weight-filter? --all2all-backend
        --enable-dbo? --ubatch-size --dbo-decode-token-threshold --dbo-prefill-token-threshold
        --disable-nccl-for-dp-synchronization? --enable-eplb? --eplb-config
        --expert-placement-strategy --enable-elastic-ep? --ray-workers-use-nsight?
        --disable-custom-all-reduce? --worker-cls --worker-extension-cls --gdn-prefill-backend
        --dcp-q-replicate? --elastic-ep-max-dp-size --enable-batch-sharded-sampling?
        --enable-hc-sp? --enable-shm-tensor-arena? --monokernel? --sparse-indexer-topk-backend
        --dcp-comm-backend --dcp-kv-cache-interleave-size --cp-kv-cache-interleave-size
        """,
    "how many KV blocks fit, beyond what the formula knows; --num-gpu-blocks says": """
        --offload-backend --cpu-offload-gb
        --cpu-offload-params+ --offload-group-size --offload-num-in-group
        --offload-prefetch-step --offload-params+
        """,
    "how blocks are hashed, not which are equal": "--prefix-caching-hash-algo",
    "the adapters' weights": """
        --max-lora-rank --lora-dtype --enable-tower-connector-lora? --max-cpu-loras
        --fully-sharded-loras? --lora-target-modules+ --default-mm-loras
        --specialize-active-lora? --enable-mixed-moe-lora-format? --enable-moe-shared-loras?
        """,
    "data-parallel engines, and --data-parallel-size is 1": """
        --data-parallel-rank|-dpn --data-parallel-start-rank|-dpr --data-parallel-size-local|-dpl
        --data-parallel-address|-dpa --data-parallel-rpc-port|-dpp --data-parallel-backend|-dpb
        --data-parallel-hybrid-lb?|-dph --data-parallel-external-lb?|-dpe
        --data-parallel-multi-port-external-lb?|-dpm --data-parallel-supervisor-port
        --dp-sync-interval
        --dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s
        --dp-supervisor-probe-failure-threshold --prefill-schedule-interval
        """,
    "what becomes of images, audio and video before they are scheduled": """
        --language-model-only? --limit-mm-per-prompt --enable-mm-embeds? --media-io-kwargs
        --mm-processor-kwargs --mm-processor-cache-gb --mm-processor-cache-type
        --mm-shm-cache-max-object-size-mb --mm-encoder-only? --mm-encoder-tp-mode
        --mm-encoder-attn-backend --mm-encoder-attn-dtype --mm-encoder-fp8-scale-path
        --mm-encoder-fp8-scale-save-path --mm-encoder-fp8-scale-save-margin
        --mm-device-do-normalize? --mm-hasher-algorithm --mm-processor-device
        --trust-request-mm-kwargs? --video-pruning-method
        --interleave-mm-strings? --skip-mm-profiling? --video-pruning-rate --mm-tensor-ipc
        --mm-ipc-gpu-memory-gb --disable-chunked-mm-input?
        """,
    "models with state-space layers, and full attention is replayed": """
        --mamba-cache-dtype --mamba-ssm-cache-dtype --mamba-block-size --mamba-cache-mode
        --kda-decode-backend --kda-prefill-backend --mamba-ssu-algorithm --replayssm-buffer-len
        --use-replayssm? --enable-mamba-shared-prefix-checkpoint?
        --enable-mamba-fine-grained-prefix-cache?
        --mamba-backend --enable-mamba-cache-stochastic-rounding? --mamba-cache-philox-rounds
        """,
    "models with several kinds of attention, and full attention is replayed": """
        --prefix-cache-retention-interval --swa-bounded-replay?
        --disable-sliding-window? --disable-hybrid-kv-cache-manager? --kv-sharing-fast-prefill?
        """,
}
"""What flags concern that no decision of the scheduler depends on."""

_HOST = "KV blocks that are kept in the host's memory are not modelled; leave it out"
_CONTEXT = "context parallelism changes what a KV block holds and is not modelled; leave it out"
_WIDTHS = (
    "it changes the bytes of weights or KV blocks, which are modelled in --dtype only; leave it out"
)
_QUEUE = "requests that the front end turns away are not modelled; leave it out"
REFUSED = {
    "--quantization|-q": (_WIDTHS, ("None", "none")),
    "--quantization-config": (_WIDTHS, ()),
    "--kv-cache-dtype": (_WIDTHS, ("auto",)),
    "--kv-cache-dtype-skip-layers+": (_WIDTHS, ()),
    "--calculate-kv-scales?": (_WIDTHS, ()),
    "--kv-cache-memory-bytes": (
        "the pool of so many bytes is not derived here; give --num-gpu-blocks-override",
        (),
    ),
    "--device-memory-utilization": ("give --gpu-memory-utilization, which is read", ()),
    "--max-num-queued-reqs": (_QUEUE, ()),
    "--max-num-queued-tokens": (_QUEUE, ()),
    "--engram-config": ("memory looked up by n-grams is not modelled; leave it out", ()),
    "--ec-manager-config": (
        "another manager of the encoder cache is not modelled; leave it out",
        (),
    ),
    "--ec-transfer-config": ("encoder outputs from elsewhere are not modelled; leave it out", ()),
    "--kv-offloading-size": (_HOST, ()),
    "--kv-offloading-backend": (_HOST, ("native",)),
    "--decode-context-parallel-size|-dcp": (_CONTEXT, ("1",)),
    "--prefill-context-parallel-size|-pcp": (_CONTEXT, ("1",)),
    "--data-parallel-size|-dp": (
        "each engine schedules a share of the traffic; replay one share and leave it out",
        ("1",),
    ),
    "--scheduler-cls": ("another class decides otherwise; leave it out", ()),
    "--performance-mode": (
        "it changes the defaults of --max-num-batched-tokens and --max-num-seqs; give those two",
        ("balanced", "interactivity"),
    ),
    "--prefix-match-unit": ("prefixes are matched by --block-size here; leave it out", ()),
    "--pooler-config": ("pooling models generate no tokens and are not modelled", ()),
    "--diffusion-config|-dc": ("diffusion models are not modelled", ()),
    "--config": ("a file of flags is not read; give the flags themselves", ()),
}
"""Flags that would change decisions in a way that is not built: the reason and the remedy."""


@cache
def serve_flags() -> dict[str, ServeFlag]:
    """All of them by name, short forms included; without what the scheduler reads by now."""
    found: dict[str, ServeFlag] = {}
    for about, names in NO_EFFECT.items():
        for word in names.split():
            found |= _with_short_forms(word, about)
    for word, (reason, neutral) in REFUSED.items():
        found |= _with_short_forms(word, reason, is_refused=True, neutral=neutral)
    read = {option_of(each.name) for each in fields(SchedulerConfig)}
    return {name: flag for name, flag in found.items() if flag.name not in read}


def _with_short_forms(
    word: str, reason: str, *, is_refused: bool = False, neutral: tuple[str, ...] = ()
) -> dict[str, ServeFlag]:
    marked, *short = word.split("|")
    name = marked.rstrip("?+")
    takes = _MARKS.get(marked[len(name) :], "value")
    flag = ServeFlag(name, takes, reason, is_refused, neutral)
    return dict.fromkeys([name, *short, *_negations(flag)], flag)


def _negations(flag: ServeFlag) -> Iterator[str]:
    if flag.takes == "switch":
        yield f"--no-{flag.name.removeprefix('--')}"
