"""Writes docs/public-traces.md: what the commands of docs/questions.md say on the public traces.

python docs/make_public_answers.py TRACES [NUMBER...]     TRACES: the folder that holds them

Without numbers all questions are answered anew. The page has figures and no rows. Questions about
priorities, clients and adapters are missing, for these traces have none, and so are those that no
trace answers.
"""

import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from make_questions import DOCS, Question, answered, prepare, section_in, setup

PAGE = DOCS / "public-traces.md"
CONV, CODE = "azure_2023_conv.csv.gz", "azure_2023_code.csv.gz"
CHAT, MADE_UP = "mooncake_fast25_conversation.jsonl.gz", "mooncake_fast25_synthetic.jsonl.gz"
TRACES = (CONV, CODE, CHAT, MADE_UP)
PRESSED = f"{CONV} --limit 2000 --speedup 3 --num-gpu-blocks 4000"
BURSTS = f"{CODE} --limit 3000 --speedup 2 --num-gpu-blocks 6000"

HEAD = """# What the public traces say

Made by `make acceptance TRACES=DIR` on {day} with schedbench {version}: the commands of
[questions.md](questions.md) on the Azure LLM inference traces of 2023 (Patel et al., Splitwise,
ISCA 2024; CC BY 4.0) and the Mooncake traces (Qin et al., FAST 2025; Apache-2.0), as published.
Figures, and no rows. Times are those of the roofline for Llama-3.1-8B on an H100, an estimate.
The commands can be typed as they stand once the files of the traces lie in `build/questions`.

Numbers are those of the questions. 6, 16 and 17 are more about a configuration than about a
trace; for 10, 18 and 20 these traces have no priorities, clients or adapters.

## The runs

"""

SETUP = (
    f"replay {PRESSED} --out runs/conv",
    f"replay {BURSTS} --max-num-batched-tokens 2048 --out runs/code",
    f"replay {CHAT} --limit 2000 --num-gpu-blocks 60000 --out runs/mooncake",
)

ANSWERS = (
    Question(
        1,
        "Why does my server preempt so much? Who is hit again and again?",
        (
            f"replay {CONV} --limit 1000 --speedup 3 --num-gpu-blocks 3000 --out runs/first",
            "explain runs/first --preemptions",
        ),
        "Azure's conversations, three times as fast, on a pool a tenth of an H100's.",
    ),
    Question(
        2,
        "Why does the TTFT of short prompts explode when a long prompt arrives?",
        ("explain runs/code --request 2881 --jobs 1",),
        "Azure's code completions come in bursts (in part: the request itself is left out).",
        parts=(("held by", 4), ("sooner with", 5)),
    ),
    Question(
        3,
        "What max_num_seqs for my traffic?",
        (f"sweep {PRESSED} --max-num-seqs 16:256:x2 --no-store",),
        "The binding limit of each row says where seats stop to matter.",
    ),
    Question(
        4,
        "What max_num_batched_tokens? Small is good for ITL, why?",
        (f"sweep {BURSTS} --max-num-batched-tokens 512:8192:x2 --no-store",),
        "Long prompts and short outputs: nearly every decode shares its pass with a prompt.",
    ),
    Question(
        5,
        "Is chunked prefill hurting ITL?",
        (
            (
                f"sweep {BURSTS} --max-model-len 8192 --max-num-batched-tokens 2048,8192 "
                "--enable-chunked-prefill on,off --no-store"
            ),
        ),
        "What hurts is the size of a chunk, and not that there are chunks.",
    ),
    Question(
        7,
        "Why are requests waiting when hardly any KV is used?",
        (
            f"replay {CONV} --limit 2000 --speedup 3 --max-num-seqs 32 --out runs/few-seats",
            "explain runs/few-seats --waiting",
        ),
        "All seats were taken.",
    ),
    Question(
        8,
        "The engine is healthy but frozen: Running 0, Waiting N?",
        (f"replay {CONV} --limit 2000 --speedup 3 --num-gpu-blocks 498 --out runs/frozen",),
        "The longest prompt fits into this pool, and its answer does not.",
    ),
    Question(
        9,
        "Why is the prefix-cache hit rate 0 %, or strangely high?",
        ("explain runs/mooncake --prefix",),
        "Mooncake's conversations share prefixes of whole blocks.",
    ),
    Question(
        11,
        "Would a KV watermark help, and what value?",
        (f"sweep {PRESSED} --watermark 0,0.02,0.05,0.1 --no-store",),
        "Preemptions fall, and the wait for the first token grows.",
    ),
    Question(
        12,
        "What does full-prompt admission cost me?",
        (
            (
                f"sweep {CODE} --limit 3000 --speedup 2 --num-gpu-blocks 1000 "
                "--max-num-batched-tokens 2048 --scheduler-reserve-full-isl on,off --no-store"
            ),
        ),
        "Thrash (preempt., recomp.) against idle blocks (KV mean) and a queue.",
    ),
    Question(
        13,
        "How many more KV blocks to reach the SLO?",
        (
            (
                f"sweep {CONV} --limit 2000 --speedup 3 --num-gpu-blocks 4000:12000:+2000 "
                "--slo ttft:1s,tpot:50ms --no-store"
            ),
        ),
        "The share within the SLO by pool, and where it stops to grow.",
    ),
    Question(
        14,
        "Which victim policy wastes least?",
        (f"sweep {PRESSED} --policy-class default,least_recompute:LeastRecompute --no-store",),
        "A policy of one's own, held against vLLM's ([policies.md](policies.md)).",
        brings=("cp ../../docs/policies/least_recompute.py .",),
    ),
    Question(
        15,
        "Did release X change scheduling for my traffic?",
        (
            f"replay {PRESSED} --vllm-version 0.26.0 --out runs/v26",
            f"replay {PRESSED} --vllm-version 0.33.0 --out runs/v33",
            "compare runs/v26 runs/v33",
        ),
        "The first pass that is decided otherwise, then what it came to.",
    ),
    Question(
        19,
        "Is spec decode shrinking my batch?",
        (
            (
                f"sweep {CONV} --limit 2000 --speedup 3 --max-num-batched-tokens 1024 "
                "--max-num-seqs 192 --spec-method draft_model --spec-tokens 0,3,7 --no-store"
            ),
        ),
        "The last lines: how much of full passes drafts take, and for how long.",
    ),
    Question(
        21,
        "Why is max_num_seqs not reached with async scheduling or pipelines?",
        (
            (
                f"replay {CONV} --limit 2000 --speedup 3 --max-num-seqs 64 "
                "--pipeline-parallel-size 4 --no-async-scheduling --out runs/pipeline"
            ),
            "explain runs/pipeline --waiting",
        ),
        "The last line: how often a request held a seat and got nothing, and why.",
    ),
    Question(
        22,
        "Is my trace sane?",
        (
            *(f"trace check {name}" for name in TRACES[:-1]),
            f"trace check {MADE_UP} --max-model-len 128K",
        ),
        "Times on a grid, lengths that were cut at the source, rows too long for a model.",
    ),
)


def main(traces: Path, numbers: list[int]) -> None:
    missing = [name for name in TRACES if not (traces / name).is_file()]
    if missing:
        raise SystemExit(f"{traces} lacks {', '.join(missing)}; they are needed for {PAGE.name}")
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    head = HEAD.format(day=datetime.now(UTC).date(), version=version("schedbench"))
    with tempfile.TemporaryDirectory() as name:
        folder = prepare(Path(name))
        for trace in TRACES:
            (folder / trace).symlink_to((traces / trace).resolve())
        parts = [head + setup(folder, SETUP)]
        for question in ANSWERS:
            known = section_in(before, question)
            is_kept = known and numbers and question.number not in numbers
            parts.append(known if is_kept else answered(question, folder))
    PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]])
