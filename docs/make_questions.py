"""Writes docs/questions.md: what people ask, the command that answers it, its real output.

python docs/make_questions.py [NUMBER...]     all questions, or those with these numbers

The commands are run as they stand there, in order, in build/questions of a copy of the repository.
The question about real passes needs torch, and keeps its last output where there is none.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "questions.md"
HEAD = """# Questions

What people ask of vLLM's scheduler, the command that answers it, and what it prints. The page is
made by `docs/make_questions.py`; every output is that of the command above it, on the traces below.
The commands can be typed as they stand, from top to bottom, from the root of the repository on; 17
runs a model and needs the extra `torch` (`pip install '.[torch]'`). A second pass needs another
folder than `build/questions`, since nothing is written over: a trace is with `--force`, and a run
takes another `--out`.
Times are those of the roofline for Llama-3.1-8B on an H100, an estimate, unless it says otherwise.
The same on public traces: [public-traces.md](public-traces.md).

## The traces

"""

BEGIN = "mkdir -p build/questions && cd build/questions"

SETUP = (
    (
        "trace synth --requests 800 --seed 1 --arrivals gamma:rate=16,burstiness=0.2 "
        "--prompt lognormal:median=400,sigma=1,high=6000 "
        "--output lognormal:median=200,sigma=0.8,high=1200 -o chat.parquet"
    ),
    (
        "trace synth --requests 400 --seed 2 --arrivals poisson:rate=12 "
        "--prompt lognormal:median=200,sigma=2.2,high=60000 "
        "--output lognormal:median=100,sigma=0.7,high=600 -o long.parquet"
    ),
    (
        "trace synth --requests 600 --seed 3 --arrivals poisson:rate=30 --priority 0=1,5=2,9=4 "
        "--client 0=9,1=1 --lora 0=4,1=3,2=2,3=1 --prompt lognormal:median=300,sigma=0.8,high=4000 "
        "--output lognormal:median=150,sigma=0.7,high=800 -o tenants.parquet"
    ),
    (
        "trace synth --requests 600 --seed 4 --arrivals poisson:rate=12 --prefixes 6x240 "
        "--prompt lognormal:median=300,sigma=0.6,high=3000 --output lognormal:median=100,sigma=0.6 "
        "-o assistants.parquet"
    ),
    "replay chat.parquet --num-gpu-blocks 3000 --out runs/chat",
    "replay long.parquet --num-gpu-blocks 9000 --max-num-batched-tokens 2048 --out runs/long",
    (
        "replay tenants.parquet --num-gpu-blocks 2000 --max-num-seqs 48 "
        "--scheduling-policy priority --max-loras 2 --out runs/tenants"
    ),
)


@dataclass(frozen=True)
class Question:
    """What is asked, the commands (the last one answers), and what to look at."""

    number: int
    text: str
    commands: tuple[str, ...]
    look: str
    needs: str = ""
    parts: tuple[tuple[str, int], ...] = ()  # of the last output: from which lines on, how many
    brings: tuple[str, ...] = ()  # lines of the shell that make or fetch what the commands read
    is_whole: bool = False  # with what goes to stderr, and each command's output


QUESTIONS = (
    Question(
        1,
        "Why does my server preempt so much? Who is hit again and again?",
        ("explain runs/chat --preemptions",),
        "The recompute tax, who is hit how often, and a change of each flag that ends it.",
    ),
    Question(
        2,
        "Why does the TTFT of short prompts explode when a long prompt arrives?",
        ("explain runs/long --request 66",),
        "Behind whom it stood, what held it, and which change lets it in sooner.",
    ),
    Question(
        3,
        "What max_num_seqs for my traffic?",
        ("sweep chat.parquet --num-gpu-blocks 3000 --max-num-seqs 8:256:x2 --no-store",),
        "The binding limit of each row says where seats stop to matter.",
    ),
    Question(
        4,
        "What max_num_batched_tokens? Small is good for ITL, why?",
        (
            (
                "sweep long.parquet --num-gpu-blocks 9000 --max-num-batched-tokens 512:16384:x2 "
                "--no-store"
            ),
        ),
        "A decode that shares its pass with a prompt waits for both (mixed p99): longer with a "
        "larger budget, but in fewer passes, and the first token comes sooner.",
    ),
    Question(
        5,
        "Is chunked prefill hurting ITL?",
        (
            (
                "sweep long.parquet --num-gpu-blocks 9000 --max-model-len 65536 "
                "--max-num-batched-tokens 2048,65536 --enable-chunked-prefill on,off --no-store"
            ),
        ),
        "Decodes by themselves against those in a pass with a prompt, with small chunks, with "
        "large ones and without. Without chunks vLLM wants a budget that holds a whole prompt, and "
        "refuses the second row.",
    ),
    Question(
        6,
        "Why is the budget not what I set?",
        (
            (
                'config --serve-args "vllm serve meta-llama/Llama-3.1-8B '
                "--max-num-batched-tokens 4096 --max-num-seqs 64 --speculative-config "
                '\'{\\"method\\": \\"draft_model\\", \\"num_speculative_tokens\\": 3}\'"'
            ),
        ),
        "Each number with its formula, and vLLM's own warning (in part: flags and the pool stand "
        "beside it).",
        parts=(("what they become", 11), ("warning: the token budget", 1)),
        is_whole=True,
    ),
    Question(
        7,
        "Why are requests waiting when hardly any KV is used?",
        (
            "replay chat.parquet --num-gpu-blocks 27000 --max-num-seqs 12 --out runs/few-seats",
            "explain runs/few-seats --waiting",
        ),
        "What ended the loop for how many requests and for how long, with the KV in use meanwhile; "
        "what would hold a request that stood first; and what helps.",
    ),
    Question(
        8,
        "The engine is healthy but frozen: Running 0, Waiting N?",
        ("replay chat.parquet --num-gpu-blocks 380 --out runs/frozen",),
        "Exit code 3; the head request, the blocks it needs, those there are, the flag that helps.",
    ),
    Question(
        9,
        "Why is the prefix-cache hit rate 0 %, or strangely high?",
        (
            "replay assistants.parquet --block-size 784 --num-gpu-blocks 400 --out runs/hybrid",
            "explain runs/hybrid --prefix",
        ),
        "Where every token went: hit, evicted, not there yet, lost to whole blocks, or new.",
    ),
    Question(
        10,
        "Does priority work? My urgent request was not faster.",
        ("compare runs/tenants --by priority", "explain runs/tenants --waiting"),
        "Latencies by class; what ended the loop, and what would hold each class if it stood "
        "first; inversions with their cause; and the changes that were replayed and help.",
    ),
    Question(
        11,
        "Would a KV watermark help, and what value?",
        ("sweep chat.parquet --num-gpu-blocks 3000 --watermark 0,0.02,0.05,0.1 --no-store",),
        "Preemptions fall, and the wait for the first token grows.",
    ),
    Question(
        12,
        "What does full-prompt admission cost me?",
        (
            (
                "sweep long.parquet --num-gpu-blocks 5000 --max-num-batched-tokens 2048 "
                "--scheduler-reserve-full-isl on,off --no-store"
            ),
        ),
        "Thrash (preempt., recomp.) against idle blocks (KV mean) and a queue.",
    ),
    Question(
        13,
        "How many more KV blocks to reach the SLO?",
        ("sweep chat.parquet --num-gpu-blocks 2000:6000:+1000 --slo ttft:1s,tpot:20ms --no-store",),
        "The share within the SLO by pool, and where it stops to grow.",
    ),
    Question(
        14,
        "Which victim policy wastes least?",
        (
            (
                "sweep chat.parquet --num-gpu-blocks 3000 "
                "--policy-class default,least_recompute:LeastRecompute --no-store"
            ),
        ),
        "A policy of one's own against vLLM's ([policies.md](policies.md)): the recompute tax, how "
        "many are evicted, and how often the one hit most.",
        brings=("cp ../../docs/policies/least_recompute.py .",),
    ),
    Question(
        15,
        "Did release X change scheduling for my traffic?",
        (
            (
                "replay tenants.parquet --num-gpu-blocks 2000 --scheduling-policy priority "
                "--vllm-version 0.26.0 --out runs/v26"
            ),
            (
                "replay tenants.parquet --num-gpu-blocks 2000 --scheduling-policy priority "
                "--vllm-version 0.33.0 --out runs/v33"
            ),
            "compare runs/v26 runs/v33",
        ),
        "The first pass that is decided otherwise, then what it came to.",
    ),
    Question(
        16,
        "Is my scheduler change safe to merge?",
        (
            "gate chat.parquet --num-gpu-blocks 3000 --baseline chat.json --update",
            "gate chat.parquet --baseline chat.json",
        ),
        "Exact counters against a baseline ([gate.md](gate.md)); exit code 1 if one differs.",
    ),
    Question(
        17,
        "Did my scheduler or the GPU cause the slowdown?",
        (
            (
                "replay chat.parquet --limit 60 --runner torch --model tiny --device cpu "
                "--num-gpu-blocks 3000 --too-long drop --out runs/real"
            ),
            "explain runs/real --no-what-if",
        ),
        (
            "Real passes of a tiny model on a CPU ([gpu.md](gpu.md)): whose the time was, how "
            "far each pass is from what its work should take, and how many are beyond it. It needs "
            "the extra `torch`."
        ),
        needs="torch",
    ),
    Question(
        18,
        "Which tenant starves?",
        ("compare runs/tenants --by client",),
        "Waits and shares of each client, and Jain's index over the tokens served per request and "
        "the mean TTFT: a client that sends more is not favoured for it.",
    ),
    Question(
        19,
        "Is spec decode shrinking my batch?",
        (
            (
                "sweep chat.parquet --num-gpu-blocks 27000 --max-num-batched-tokens 1024 "
                "--max-num-seqs 192 --spec-method draft_model --spec-tokens 0,3,7 --no-store"
            ),
        ),
        "The last lines: how much of full passes drafts take and for how long, how many were cut "
        "off, how many decodes were left out, and what is kept for the drafter.",
    ),
    Question(
        20,
        "Does max_loras block others?",
        ("compare runs/tenants --by lora", "explain runs/tenants --waiting"),
        "How long each adapter waits, in how many passes it was set aside, how many in a row (the "
        "second output in part; all of it stands under 10).",
        parts=(("starved", 3), ("waits less", 8), ("adapter", 2)),
    ),
    Question(
        21,
        "Why is max_num_seqs not reached with async scheduling or pipelines?",
        (
            (
                "replay chat.parquet --num-gpu-blocks 27000 --max-num-seqs 64 "
                "--pipeline-parallel-size 4 --no-async-scheduling --out runs/pipeline"
            ),
            "explain runs/pipeline --waiting",
        ),
        "The last line: how often a request held a seat and got nothing, and why.",
    ),
    Question(
        22,
        "Is my trace sane?",
        ("trace check odd.csv --max-model-len 4K", "trace check broken.csv"),
        "What looks odd is named, with what was guessed of its times; a row that breaks a rule is "
        "refused by its number (exit code 2).",
        brings=(
            (
                'seq 0 399 | awk \'BEGIN {print "TIMESTAMP,ContextTokens,GeneratedTokens"} '
                '{printf "2023-11-16 18:00:%02d.0000000,%d,%d\\n", '
                "$1 / 60, $1 % 5 ? 4096 : 120 + $1, 1 + $1 % 40}' > odd.csv"
            ),
            "sed '9s/4096/-1/' odd.csv > broken.csv",
        ),
        is_whole=True,
    ),
)


def main(numbers: list[int]) -> None:
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    with tempfile.TemporaryDirectory() as name:
        folder = prepare(Path(name))
        parts = [HEAD + setup(folder)]
        for question in QUESTIONS:
            known = section_in(before, question)
            skips = numbers and question.number not in numbers
            if known and (skips or (question.needs and not is_there(question.needs))):
                parts.append(known)
            else:
                parts.append(answered(question, folder))
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def prepare(root: Path) -> Path:
    """The folder in which commands are run; what they fetch from `docs` lies where it would be."""
    (root / "docs").symlink_to(DOCS)
    shell(BEGIN, root)
    return root / "build" / "questions"


def is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def setup(folder: Path, commands: tuple[str, ...] = SETUP) -> str:
    for command in commands:
        run(command, folder)
    lines = [f"$ {BEGIN}", *(f"$ schedbench {command}" for command in commands)]
    return "\n".join(["```console", *lines, "```", ""])


def heading(question: Question) -> str:
    return f"## {question.number}. {question.text}"


def section_in(page: str, question: Question) -> str:
    """The question's section as it stands, or nothing."""
    found = re.search(re.escape(heading(question)) + r"\n[\s\S]*?(?=^## |\Z)", page, re.MULTILINE)
    return found[0].rstrip("\n") + "\n" if found else ""


def answered(question: Question, folder: Path) -> str:
    """The section, with the output of the last command, or of each that prints something."""
    return f"{heading(question)}\n\n{question.look}\n\n" + "\n".join(blocks(question, folder))


def blocks(question: Question, folder: Path) -> Iterator[str]:
    for line in question.brings:
        shell(line, folder)
    quiet = [f"$ {line}" for line in question.brings]
    for place, command in enumerate(question.commands):
        sys.stderr.write(f"{question.number}: schedbench {command}\n")
        out = run(command, folder, with_errors=question.is_whole)
        is_last = place == len(question.commands) - 1
        if not is_last and command.split()[0] in ("replay", "gate"):
            quiet.append(f"$ schedbench {command}")
            continue
        shown = "\n".join(
            [*quiet, f"$ schedbench {command}", cut(out, question) if is_last else out]
        )
        quiet = []
        yield f"```console\n{shown}\n```\n"


def cut(text: str, question: Question) -> str:
    """The part of an output that answers; the whole where nothing is said."""
    if not question.parts:
        return text
    lines, shown = text.splitlines(), ["..."]
    for begin, count in question.parts:
        first = next(place for place, line in enumerate(lines) if line.startswith(begin))
        shown += [*lines[first : first + count], "..."]
    return "\n".join(shown)


def run(command: str, folder: Path, *, with_errors: bool = False) -> str:
    """What a command prints; what it says on the side too if asked for, or if that is all."""
    done = subprocess.run(
        [sys.executable, "-m", "schedbench", *shlex.split(command)],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "PYTHONPATH": str(DOCS.parent), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if with_errors else subprocess.PIPE,
        text=True,
        check=False,
    )
    text = done.stdout if done.stdout.strip() else done.stderr
    if done.returncode not in ((0, 2, 3) if with_errors else (0, 3)):
        raise SystemExit(f"schedbench {command}: exit code {done.returncode}\n{done.stderr}")
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    if done.returncode:
        lines.append(f"(exit code {done.returncode})")
    return "\n".join(lines)


def shell(line: str, folder: Path) -> None:
    subprocess.run(["bash", "-e", "-c", line], cwd=folder, check=True)  # noqa: S607 - ours


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
