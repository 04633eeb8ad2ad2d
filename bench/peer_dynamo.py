"""Replays a trace with the Rust replay of ai-dynamo-runtime and prints its summary.

.venv-peers-dynamo/bin/python bench/peer_dynamo.py TRACE.jsonl BLOCKS BLOCK_SIZE [PASS_MS]

TRACE is in Mooncake's format. A pass takes what Dynamo's default model says, or PASS_MS.
"""

from __future__ import annotations

import json
import sys

from dynamo._core import _normalize_mocker_config, run_mocker_trace_replay

HASH_BLOCK_TOKENS = 512


def main() -> None:
    """Replay, and print the summary as JSON."""
    path, blocks, block_size, *pass_ms = sys.argv[1:]
    engine = {
        "num_gpu_blocks": int(blocks),
        "block_size": int(block_size),
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "enable_prefix_caching": True,
    }
    if pass_ms:
        cost = float(pass_ms[0])
        engine["timing_model"] = {"type": "fixed", "prefill_ms": cost, "decode_ms": cost}
    result = run_mocker_trace_replay(
        [path],
        extra_engine_args=_normalize_mocker_config({"engine": engine}),
        num_workers=1,
        trace_block_size=HASH_BLOCK_TOKENS,
        trace_format="mooncake",
        replay_mode="offline",
    )
    print(json.dumps(result.summary))


if __name__ == "__main__":
    main()
