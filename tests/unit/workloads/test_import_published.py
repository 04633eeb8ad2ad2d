"""Azure, Mooncake, BurstGPT and Bailian: what each column becomes."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedbench.errors import TraceError, UsageError
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.registry import load_trace
from schedbench.workloads.sniff import sniff
from schedbench.workloads.trace import Trace

Write = Callable[[str, str | bytes], Path]

AZURE_2023 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:15:46.6805900,374,44\r\n"
    "2023-11-16 18:15:46.6805907,396,109"
)
AZURE_2024 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-12 00:00:00.001163+00:00,1452,3\n"
    "2024-05-12 00:00:01+00:00,20,5\n"
)
AZURE_2025 = (
    "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
    "2024-10-15T12:00:05.819Z,2,949,126\n"
    "2024-10-15T12:00:05.820Z,0,10,1\n"
    "2024-10-15T12:00:05.821Z,1,300,1\n"
)
BURST = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
)


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def rows(trace: Trace, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(trace.table.column(name).to_pylist() for name in names), strict=True))


def test_azure_times_keep_all_seven_decimals(write: Write) -> None:
    trace = load_trace(write("a.csv", AZURE_2023))
    assert rows(trace, "arrival_ns", "prompt_tokens", "output_tokens") == [
        (0, 374, 44),
        (700, 396, 109),
    ]
    assert trace.epoch_ns == 1_700_158_546_680_590_000


def test_azure_times_may_lack_their_fraction(write: Write) -> None:
    trace = load_trace(write("a.csv.gz", gzip.compress(AZURE_2024.encode())))
    assert rows(trace, "arrival_ns") == [(0,), (998_837_000,)]
    assert trace.provenance["clock"]["zone"] == "stated"


def test_images_are_counted_or_given_tokens_each(write: Write) -> None:
    path = write("a.csv", AZURE_2025)
    assert rows(load_trace(path), "group") == [("2 images",), ("0 images",), ("1 image",)]
    trace = load_trace(path, options=ImportOptions(tokens_per_image=200))
    spans = [
        None
        if items is None
        else [(item["offset"], item["tokens"], item["hash"]) for item in items]
        for (items,) in rows(trace, "encoder")
    ]
    assert spans == [[(0, 200, 0), (200, 200, 1)], None, [(0, 200, 2)]]
    assert trace.provenance["inferred"] == ["encoder"]
    with pytest.raises(TraceError, match="row 0, column encoder: an item ends at 1000"):
        load_trace(path, options=ImportOptions(tokens_per_image=500))
    with pytest.raises(UsageError, match="needs a trace that counts images"):
        load_trace(write("b.csv", AZURE_2023), options=ImportOptions(tokens_per_image=1))


def test_burstgpt_is_read_by_name_whatever_the_order_of_columns(write: Write) -> None:
    header = "Log Type,Response tokens,Timestamp,Request tokens,Model,Total tokens\n"
    trace = load_trace(write("b.csv", header + "API log,9,1.5,7,GPT-4,16\n"))
    assert rows(trace, "prompt_tokens", "output_tokens", "group") == [(7, 9, "GPT-4 / API log")]
    assert trace.epoch_ns is None


def test_a_burstgpt_turn_waits_for_the_one_before_it_and_thinks_only_between(write: Write) -> None:
    trace = load_trace(
        write(
            "b.csv",
            BURST + "\n"
            "10,5,2.5,GPT-4,8,3,11,Conversation log\n"
            "11,,1,GPT-4,8,3,11,API log\n"
            "20,5,30,GPT-4,20,3,23,Conversation log\n"
            "25,5,1,GPT-4,30,3,33,Conversation log\n",
        )
    )
    assert rows(trace, "session", "turn", "after", "think_ns") == [
        (0, 0, None, None),
        (None, None, None, None),
        (0, 1, 0, 7_500_000_000),
        (0, 2, None, None),  # began while the turn before it was still running
    ]
    assert rows(trace, "observed")[0][0]["e2e_ns"] == 2_500_000_000
    assert sum(trace.provenance["changed"].values()) == 1


def test_a_dropped_turn_leaves_its_session_whole(write: Write) -> None:
    path = write(
        "b.csv",
        BURST + "\n"
        "10,5,1,GPT-4,8,3,11,Conversation log\n"
        "12,5,1,GPT-4,8,0,8,Conversation log\n"
        "15,5,1,GPT-4,8,3,11,Conversation log\n",
    )
    trace = load_trace(path, options=ImportOptions(on_zero_output="drop"))
    assert rows(trace, "turn", "after", "think_ns", "source_row") == [
        (0, None, None, 0),
        (1, 0, 4_000_000_000, 2),
    ]


def mooncake(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON values
    return {"input_length": 600, "output_length": 5, "hash_ids": [0, 1], **fields}


def test_mooncake_keeps_the_tail_id_and_counts_milliseconds(write: Write) -> None:
    trace = load_trace(write("m.jsonl", lines(mooncake(timestamp=3000), mooncake(timestamp=3027))))
    assert rows(trace, "arrival_ns", "hash_ids") == [(0, [0, 1]), (27_000_000, [0, 1])]
    assert trace.hash_block_tokens == 512


@pytest.mark.parametrize("labels", [(7, 8), ("x", "y")])
def test_turns_with_a_delay_wait_for_the_turn_before_them(
    write: Write, labels: tuple[Any, Any]
) -> None:
    one, other = labels
    trace = load_trace(
        write(
            "m.jsonl",
            lines(
                mooncake(session_id=one, timestamp=1000),
                mooncake(session_id=other, timestamp=1001),
                mooncake(session_id=one, delay=20),
                mooncake(session_id=other, timestamp=1500),
                mooncake(session_id=one, delay=5),
            ),
        )
    )
    assert rows(trace, "arrival_ns", "session", "turn", "after", "think_ns", "source_row") == [
        (0, 0, 0, None, None, 0),
        (1_000_000, 1, 0, None, None, 1),
        (20_000_000, 0, 1, 0, 20_000_000, 2),
        (25_000_000, 0, 2, 2, 5_000_000, 4),
        (500_000_000, 1, 1, None, None, 3),
    ]


def test_a_first_turn_needs_a_time(write: Write) -> None:
    path = write("m.jsonl", lines(mooncake(session_id="a", timestamp=0), mooncake(delay=5)))
    with pytest.raises(TraceError, match=r"row 1 \(line 2\), column timestamp: is missing, and"):
        load_trace(path)


def test_prompts_given_as_text_need_lengths(write: Write) -> None:
    path = write("m.jsonl", lines({"timestamp": 0, "text_input": "hello", "output_length": 1}))
    with pytest.raises(TraceError, match=r"tokenizer.*Add input_length"):
        load_trace(path)


def chat(number: int, parent: int, time: float, tokens: int, ids: list[int]) -> dict[str, Any]:
    return {
        "chat_id": number,
        "parent_chat_id": parent,
        "timestamp": time,
        "input_length": tokens,
        "output_length": 20,
        "type": "text",
        "turn": 1,
        "hash_ids": ids,
    }


def test_bailian_chats_form_sessions_and_name_the_blocks_of_their_answers(write: Write) -> None:
    trace = load_trace(
        write(
            "q.jsonl",
            lines(
                chat(160, 159, 0.5, 40, [7, 8, 9]),  # its parent is not in the file
                chat(161, -1, 0.5, 16, [5]),
                chat(162, 160, 62.5, 70, [7, 8, 19, 20, 21]),
                chat(163, 162, 63.0000000001, 16, [7]),
                chat(164, 161, 64, 20, [6, 50]),  # not its parent's prefix: nothing to infer
            ),
        )
    )
    names = ("request_id", "session", "turn", "after", "output_hash_ids", "group")
    assert rows(trace, *names) == [
        ("160", 0, 0, None, [19], "text"),
        ("161", 1, 0, None, None, "text"),
        ("162", 0, 1, 0, None, "text"),
        ("163", 0, 2, 2, None, "text"),
        ("164", 1, 1, 1, None, "text"),
    ]
    assert trace.provenance["inferred"] == ["output_hash_ids"]
    assert trace.provenance["changed"] == {
        "times with digits below 1 ns, rounded": 1,
        "chats that go on from one outside the file, taken for roots": 1,
    }


def test_every_format_is_known_by_its_content(write: Write) -> None:
    contents = {
        "azure": AZURE_2025,
        "burstgpt": BURST + "\n1,,1,m,1,1,2,API log\n",
        "mooncake": lines(mooncake(timestamp=0)),
        "bailian": lines(chat(1, -1, 0, 16, [1])),
        "schedbench": lines({"arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 1}),
        None: "a,b\n1,2\n",
    }
    assert {name: sniff(write("any", text)) for name, text in contents.items()} == {
        name: name for name in contents
    }


def test_provenance_states_source_and_rows(write: Write) -> None:
    trace = load_trace(write("a.csv", AZURE_2023))
    assert trace.provenance["files"][0]["bytes"] == len(AZURE_2023)
    assert trace.provenance["published"]["licence"] == "CC BY 4.0"
    assert trace.provenance["rows_read"] == 2
