"""Writes docs/invariants.md: python docs/make_invariants.py.

Each law says where it is held; tests/invariants/test_law_book.py holds this list to the code.
"""

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "invariants.md"
sys.path.insert(0, str(ROOT / "tests" / "support"))

from random_cases import BREAKS, FEATURES  # noqa: E402 - of the tests

STATE, PASS, RUN = "after every call", "after every schedule()", "at the end of a run"
LAWS_PY, RUN_PY, WATCHED = (f"tests/support/{each}.py" for each in ("laws", "run_laws", "watched"))


class Law(NamedTuple):
    """What always holds, when it is looked at, and the function that looks."""

    title: str
    text: str
    when: str
    file: str
    function: str


LAWS = {
    1: Law(
        "One collection",
        "Every live request stands in exactly one of `running`, `waiting` and the second queue "
        "(`skipped_waiting`; in 0.33.0 `kv_holding_waiting`), and one that has ended in none. It "
        "is in `running` exactly if its status is RUNNING; a blocked one is in the second queue; "
        "between two passes nothing is left set aside.",
        STATE, LAWS_PY, "one_collection",
    ),
    2: Law(
        "Budget",
        "A pass never spends more tokens than its budget. Whoever is scheduled gets at least one, "
        "and no more than the long-prefill threshold. Tokens of prefill, decode and drafts add up "
        "to those spent. No more adapters run together than `max_loras`.",
        PASS, LAWS_PY, "budget",
    ),
    3: Law(
        "Order",
        "Requests are scheduled in the order of `running`, and those granted as running, new or "
        "resumed are those scheduled: nobody twice, nobody unlisted.",
        PASS, LAWS_PY, "order",
    ),
    4: Law(
        "Seats",
        "Running requests and sessions that wait for their next input never exceed "
        "`max_num_seqs`, and those sessions are counted right.",
        STATE, LAWS_PY, "seats",
    ),
    5: Law(
        "Blocks",
        "Every block but the null block is either free or held, never both, and nowhere twice; "
        "the free ones are counted right. A live request has room for all its computed tokens, an "
        "evicted one holds nothing.",
        STATE, LAWS_PY, "blocks",
    ),
    6: Law(
        "Reference counts",
        "A block counts as many references as there are tables, and frees put off, that hold it.",
        STATE, LAWS_PY, "reference_counts",
    ),
    7: Law(
        "Hashes",
        "A lookup finds exactly the blocks that carry a hash, and their count is right. Without "
        "prefix caching there are none. A request's cached blocks carry the names of its content. "
        "Free blocks without a hash stand before those with one.",
        STATE, LAWS_PY, "hashes",
    ),
    8: Law(
        "Encoder cache",
        "Entries and free embeddings add up to the cache's size. An entry may be dropped exactly "
        "if nobody uses it.",
        STATE, LAWS_PY, "encoder_cache",
    ),
    9: Law(
        "Every token once",
        "A grant begins where the one before it ended. Only an eviction, a rejected draft or a "
        "failed load takes computed tokens back.",
        PASS, WATCHED, "_follow_scheduled",
    ),
    10: Law(
        "Waits",
        "The times that the requests table gives to each verdict are those of a diary in which "
        "every waiting request is walked one by one.",
        RUN, RUN_PY, "waits_add_up",
    ),
    11: Law(
        "Time",
        "The clock never goes back. With one pass in flight none starts before the one before it "
        "has ended. A request arrives, is scheduled, gets a token and ends in that order.",
        RUN, RUN_PY, "times_are_in_order",
    ),
    12: Law(
        "Hash seed",
        "The same input and the same seed give the same rows, under any `PYTHONHASHSEED`.",
        "in processes of their own", "tests/invariants/test_hash_seed.py",
        "test_rows_do_not_depend_on_the_hash_seed",
    ),
    13: Law(
        "True verdicts",
        "What ended a loop is true of the state it left: `budget_spent` leaves nothing to spend, "
        "`queues_empty` leaves nobody, and so on. The binding limit is that of the verdict, or "
        "the KV blocks if anybody was evicted.",
        PASS, LAWS_PY, "verdicts",
    ),
    14: Law(
        "Cancelled admissions",
        "A pass that a preemption closed tells how many waited, how many of them would have been "
        "admitted beside the victims, and what budget was stranded. Counting them touches nothing, "
        "and the admission loop itself, run on a copy of everything, admits as many.",
        PASS, LAWS_PY, "cancelled",
    ),
    15: Law(
        "Nobody is lost",
        "Every row of the trace is in the requests table once and ends at most once. One that "
        "finished has the tokens and the reason that the trace says.",
        RUN, RUN_PY, "nobody_is_lost",
    ),
    16: Law(
        "Tables agree",
        "The pass log and the requests table tell of the same admissions, evictions, tokens, "
        "prefix hits, ends and aborts.",
        RUN, RUN_PY, "tables_agree",
    ),
    17: Law(
        "An end",
        "A replay ends. If it ends as stalled, another pass would schedule and evict nothing.",
        RUN, RUN_PY, "hold_to_a_true_stall",
    ),
    18: Law(
        "Short ways",
        "Going through decodes without looking at each, and keeping blocks in counts, change no "
        "row of any table.",
        "beside a plain run", "tests/invariants/test_short_way.py",
        "test_both_ways_give_equal_rows_where_prefixes_are_shared",
    ),
    19: Law(
        "Forward passes decide nothing",
        "Under the same times a replay with real forward passes makes the rows of one without, "
        "and writes no block that two live requests hold.",
        "beside a plain run; needs torch", "tests/invariants/test_torch_runner.py",
        "test_any_trace_under_any_flags_is_executed_and_decided_as_without_it",
    ),
}  # fmt: skip

HEAD = f"""# Invariants

Made by `docs/make_invariants.py`.

What holds in every state of the scheduler, every pass and every run, with any flags and any policy.
Random traces with random flags over {len(FEATURES)} features are replayed under all of them
(`tests/invariants/test_laws.py`); a broken law is an error that begins with its number. That each
law notices what breaks it is shown by faults planted one by one
(`tests/invariants/test_laws_notice.py`).

    make test                                                     60 random cases a test
    HYPOTHESIS_PROFILE=thorough pytest tests/invariants           5,000
"""

BREAKS_HEAD = """
## What vLLM 0.26.0 itself breaks

Decisions are vLLM's, also where features that are rarely used together break a law there. The law
stays, and the random cases of these tests leave out what breaks it (`BREAKS` in
`tests/support/random_cases.py`).

| what happens | together | left out of random cases |
| --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    lines = ["", "| | law | looked at | by |", "| --- | --- | --- | --- |"]
    for number, law in LAWS.items():
        where = f"`{law.function}` in `{law.file}`"
        lines.append(f"| {number} | **{law.title}.** {law.text} | {law.when} | {where} |")
    breaks = [
        f"| {what} | {', '.join(sorted(each.together))}"
        f"{f', without {each.unless}' if each.unless else ''} | {each.left_out} |"
        for what, each in BREAKS.items()
    ]
    return HEAD + "\n".join(lines) + "\n" + BREAKS_HEAD + "\n".join(breaks) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
