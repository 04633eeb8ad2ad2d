"""Writes docs/recording.md: `python docs/make_recording.py`.

Settings and columns come from the code, the figures from docs/recording-overhead.txt, which is what
bench/recording_overhead.py printed; the rest of the page stands here.
"""

from collections.abc import Sequence
from pathlib import Path

from schedbench.results.columns import Column
from schedbench.results.recorded_log import ADDED_COLUMNS, ENDED_COLUMNS, NOT_TOLD, SOMETIMES_TOLD
from schedbench.runner.recording_settings import KNOWN, PREFIX
from schedbench.runner.vllm_recorder import BASES
from schedbench.sched.behaviours import RELEASES

PAGE = Path(__file__).parent / "recording.md"
OVERHEAD = Path(__file__).parent / "recording-overhead.txt"
MODULE = "schedbench.runner.vllm_recorder"
SYNCHRONOUS, ASYNCHRONOUS = BASES

HEAD = f"""# Recording a server

Made by `docs/make_recording.py`.

A scheduler class for vLLM's `--scheduler-cls` writes down what a server decides while it runs, and
changes none of it: a pass log with this project's columns, and a trace to replay. It is a subclass
of the installed vLLM's own class, made when vLLM asks for it; {", ".join(RELEASES)} are known to
work, any other release is refused.

    pip install schedbench                       # into vLLM's environment
    export {PREFIX}DIR=/data/recordings
    vllm serve MODEL --scheduler-cls {MODULE}.{ASYNCHRONOUS}

With `--no-async-scheduling` (and where vLLM turns asynchronous scheduling off) it is
`{SYNCHRONOUS}`; the wrong one of the two is refused when the server starts. vLLM warns
that a custom scheduler class is named; that is this one.

    schedbench trace import /data/recordings/20260731T141503Z-engine0 -o served.parquet
    schedbench replay served.parquet --model llama-3.1-8b --gpu H100-SXM --max-num-seqs 128

The second line asks what the same traffic would have met under other flags. With the recorded times
and flags a replay makes the recorded passes again, and `compare` says so:

    schedbench replay served.parquet --recorded /data/recordings/20260731T141503Z-engine0 --out same
    schedbench compare /data/recordings/20260731T141503Z-engine0 same

In such a replay passes start and end when they did on the server, requests come when the scheduler
was given them and leave when they were aborted, also in the middle of a pass; the decisions are
this project's. `tests/parity/test_recording.py` holds all columns that the class tells to be equal,
on random traffic with preemptions, shared prefixes, aborts, adapters and priorities, synchronous
and asynchronous, around the real class of both releases.

## Settings

vLLM hands a scheduler class no options of its own, so these are environment variables. One that
does not exist, or that cannot be, is refused when the server starts.

| variable | default | meaning |
| --- | --- | --- |
"""

WRITES = f"""
## What it writes

A folder for each engine that starts, `<UTC time>-engine<data-parallel rank>`: `manifest.json` (the
scheduler's flags, the release, counts, losses) and three tables as Parquet files. Each file is
complete before it gets its name. `complete` in the manifest turns true on a clean shutdown; until
then, and after a crash, everything in the files can be read, imported and replayed.

`passes` has the columns of [the pass log](pass-log.md). Null are those that vLLM's class does not
tell: {", ".join(f"`{name}`" for name in NOT_TOLD)}; and, with a KV connector or while a streaming
session waits, {", ".join(f"`{name}`" for name in SOMETIMES_TOLD)}. `duration_ns` runs from
`schedule()`, or from the end of the pass before if that is later, to `update_from_output()`. Passes
in which vLLM has nobody to schedule, and only tells its workers who finished, are left out.

`added` has a row for each request that the scheduler was given:

"""

ENDED = """
`ended` has one for each that it let go of, written when it ends:

"""

REST = """
Times are whole nanoseconds of the recording's clock, which starts at the arrival of the first
request; no two events have the same. `arrival_ns` is the front end's own time of arrival,
`added_ns` when the scheduler was given the request; an import keeps both, and what the requests met
as `observed`.

## Privacy

Never written: prompts, outputs, token ids, adapter names, sampling parameters but the cap on the
output. Request ids are left out unless asked for. Prefix hashes are hashed again with a secret of
32 bytes that is drawn for each recording and kept in memory only, so that equal prefixes within a
recording have equal ids and nobody can try known texts against them; an import numbers them from 0.
What remains tells lengths and times, and who shared a prefix with whom.

## What it costs

On the scheduler's thread a pass is a few stamps and counts and two appends to a queue; rows, hashes
and files are made on a thread of its own, which shares Python's lock with the scheduler and so
works while that waits for the GPU. When the writer falls behind, messages are dropped and counted
in the manifest (`dropped`), and the server never waits. Memory is bounded by the queue, the rows of
a file and the requests alive. A full disk or a fault in the recorder ends the recording, is logged
once, and leaves the server alone.

Measured against the plain class, side by side in one run, on a loaded machine with two cores and no
GPU (`.venv-vllm/bin/python bench/recording_overhead.py --rounds 7 --passes 120`); a pass is
`add_request`, `schedule` and `update_from_output` together, and "by clock" includes whatever else
the machine did:

"""

LIMITS = """
## Limits

- A recording that lost messages, or whose server speculates, has a KV connector or several kinds of
  KV cache, is refused by `--recorded`; its trace is still one for modelled times.
- Multi-modal inputs, grammars, streaming input and requests that do not read the prefix cache are
  in the pass log and not in the trace; pauses, resets of the prefix cache and passes that were told
  to hold prefill back are counted too. The manifest has the numbers under `not_in_trace`, an import
  prints them, and a replay with recorded times stops at the first pass that differs.
- A request that was aborted or failed, or was alive when the recording ended, leaves the trace at
  that time; how long its output would have been is not known, and its cap stands for it. A stop
  string is an abort to vLLM's scheduler, and so it is here.
- A model that ended by itself with the last token that the cap allowed has reason `length` in a
  replay; nothing else follows from it.
- Under `--scheduling-policy priority`, requests of equal priority that arrived at the same instant
  (the sequences of one request with `n` above 1, mostly) are ordered by vLLM by their ids and here
  by the order in which they were added. They are counted under `not_in_trace`.
- Ids are 64 bits wide. Should two blocks share one by chance, the import says so and refuses.
- Pooling models generate no tokens and are refused.

## Without a class of one's own

Where `--scheduler-cls` cannot be used, vLLM's own output has a part of it.

**Spans.** `vllm serve MODEL --otlp-traces-endpoint URL` sends a span for each request that
finished. Written by an OpenTelemetry collector's file exporter (JSON), they are a trace:

    schedbench trace import spans.jsonl -o served.parquet

It has arrivals, lengths, the cap where the client gave one, and TTFT and E2E as `observed`; no
prefixes, no priorities, no aborted requests. A request with `n` sequences has a span for each with
the same id: `--dedupe-ids suffix` tells them apart.

**Iteration details.** `vllm serve MODEL --enable-logging-iteration-details` logs what was in each
pass and how long it took. The log of one engine, from one start of the server, becomes a run:

    schedbench trace import server.log --input-format vllm-iterations -o runs/served
    schedbench compare runs/modelled runs/served --across-traces

It has tokens, requests and durations, one pass after the other without the time between them; what
is not in the log is null and is not compared. `prefill_tokens` are those of requests without an
output token so far, so that what is computed again after a preemption counts as decode there.

The lines of `--enable-log-requests` say when a request came and what its parameters were, not how
long its prompt and its output are, and are not read.
"""


def page() -> str:
    """The whole page."""
    settings = "".join(
        f"| `{PREFIX}{name}` | {default} | {meaning} |\n"
        for name, (default, meaning) in KNOWN.items()
    )
    figures = "".join(f"    {line}\n" for line in OVERHEAD.read_text().splitlines())
    tables = (WRITES, _table(ADDED_COLUMNS), ENDED, _table(ENDED_COLUMNS))
    return "".join([HEAD, settings, *tables, REST, figures, LIMITS])


def _table(columns: Sequence[Column]) -> str:
    lines = ["| column | unit | meaning | null |", "| --- | --- | --- | --- |"]
    lines += [f"| `{c.name}` | {c.unit} | {c.meaning} | {c.null_when} |" for c in columns]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
