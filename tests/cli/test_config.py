import ast
import csv
import io
import json
from pathlib import Path

from cli_runs import Cli

import schedbench
from schedbench.cli.values import FLAGS
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.inert import inert_flags

PACKAGE = Path(schedbench.__file__).parent


def test_each_flag_is_shown_with_where_its_value_is_from(cli: Cli) -> None:
    rows = csv.DictReader(io.StringIO(cli("config", "--watermark", "0.1", "--format", "csv").out))
    source = {row["flag"]: row["source"] for row in rows}
    assert len(source) == len(FLAGS)
    assert source["--watermark"] == "given"
    assert source["--num-gpu-blocks"] == "assumed"
    assert source["--max-loras"] == "default"


def test_each_derived_number_has_its_formula(cli: Cli) -> None:
    ran = cli("config", "--max-num-partial-prefills", "2", "--max-model-len", "10000")
    assert "400 = int(max_model_len * 0.04)" in ran.out
    assert "warning: --max-num-partial-prefills 2 only sets" in ran.err


def test_a_server_command_line_is_explained(cli: Cli) -> None:
    line = "vllm serve m --max-num-seqs 7 --host x"
    ran = cli("config", "--serve-args", line, "--json")
    found = json.loads(ran.out)
    (seats,) = [row for row in found["flags"] if row["flag"] == "--max-num-seqs"]
    assert (seats["value"], seats["source"]) == (7, "given")
    assert found["without_effect"] == {"the HTTP front end": ["--host"]}


def test_an_impossible_combination_is_shown_and_refused(cli: Cli) -> None:
    ran = cli("config", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192")
    assert ran.code == 2
    assert "--enable-chunked-prefill" in ran.out
    assert "vLLM refuses it" in ran.err


def test_every_place_that_a_flag_is_read_in_exists() -> None:
    places = [FLAGS[name].metadata["read_in"] for name in FLAGS]
    places += [each.read_in for each in SchedulerConfig().derived()]
    for place in places:
        for part in place.replace(", sched/", "; sched/").split(";"):
            path, _, names = part.strip().partition(":")
            source = (PACKAGE / path).read_text()
            defined = {
                node.name
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
            }
            missing = {name.strip() for name in names.split(",") if name.strip()} - defined
            assert not missing, f"{place}: {path} does not define {missing}"


def test_inert_flags_are_named_with_the_reason() -> None:
    inert = inert_flags(SchedulerConfig(max_num_scheduled_tokens=2048, watermark=0.00001))
    assert inert["max_num_batched_tokens"] == "--max-num-scheduled-tokens is the budget"
    assert inert["watermark"] == "less than one block of the pool"
    assert set(inert) <= set(FLAGS)
