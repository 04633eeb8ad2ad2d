"""Writes docs/semantics.md from the table of behaviours: `python docs/make_semantics.py`."""

from pathlib import Path

from schedbench.sched.behaviours import NOT_MODELLED, RELEASES, Facts, all_facts

PAGE = Path(__file__).parent / "semantics.md"

FIRST = next(iter(RELEASES))
SECTIONS = {  # by the first behaviour of each
    "threshold_lone": "Budgets and caps",
    "self_evict_continue": "Eviction",
    "one_waiting_queue": "Waiting collections",
    "lookahead_hash": "Prefix cache",
    "pad_resumed": "Speculation",
    "lora_running": "LoRA, streaming, stops",
    "encoder_duplicate": "Encoder inputs",
    "config_partial_prefills": "Configuration",
}

HEAD = f"""# What releases of vLLM decide differently

Made by `docs/make_semantics.py` from `sched/behaviours.py`.

`--vllm-version` says which release is followed, decision for decision: {", ".join(RELEASES)}.
{FIRST} is the default. What a later release does differently is a list of named behaviours, each of
them a yes or no that is asked in the places named here and nowhere else; a test holds the table to
the code. Whatever is not listed is the same in all of these releases.

For each behaviour that shows in a pass there is a scenario which the real classes of the last
release without it and of the first with it were run on (`tests/unit/sched/behaviours/`). Both are
equalled in every column of every pass, and the switch changes what is decided. Statistics and
configuration have tests of their own.

A release between those modelled is refused, not rounded: each has a mixture of its own. Single
behaviours can be switched for a what-if: `--behaviour threshold-lone=on`, several with a `+`. Such
a mixture is no release, and every summary, `schedbench config` and the manifest say so. What an
upgrade changes on a trace, and which behaviour does it: [upgrade.md](upgrade.md).

*Since* is the first release whose source has the behaviour; lines are those of the first modelled
release that has it, in its `vllm/v1/core/sched/` and `vllm/v1/core/`, or in the file named.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for facts in all_facts():
        if facts.name in SECTIONS:
            parts.append(f"## {SECTIONS[facts.name]}\n")
        parts.append(_entry(facts))
    parts.append("## Differences without a switch\n")
    parts.append("\n".join(f"- `{name}`: {why}." for name, why in NOT_MODELLED.items()) + "\n")
    return "\n".join(parts)


def _entry(facts: Facts) -> str:
    name = facts.name.replace("_", "-")
    having = ", ".join(release for release in RELEASES if facts.name in RELEASES[release])
    needs = f" Needs `{facts.needs.replace('_', '-')}`." if facts.needs else ""
    lines = [
        f"### `{name}`\n",
        f"- Off: {facts.off}",
        f"- On: {facts.on}{needs}",
        f"- Changes: {facts.changes}. Since {facts.since}; of those modelled: {having}.",
        f"- Asked in: {facts.read_in}. Source: {facts.source}.",
        *(
            [f"- The flag that brings the old way back: `{facts.undone_by}`."]
            * bool(facts.undone_by)
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
