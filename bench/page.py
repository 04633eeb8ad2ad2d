"""The page of results, made from their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from targets import Target, targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Results = dict[str, Any]

TITLES = {
    "real": "Against the real class, and the floor of writing the log",
    "peers": "Whole processes, start-up included",
    "lengths": "How cost grows with the trace",
    "curves": "How cost grows with what runs, and with the blocks",
    "sweep": "A sweep on two cores",
}
EXPLAINED = {
    "real": (
        "Ours is one call of `schedbench.replay` with the run folder written, start-up and reading "
        "the trace left out, as `pip install .` gives it where there is a C compiler; `not "
        "compiled` is the same Python as an editable install runs it. The real class is vLLM "
        "0.26.0's `Scheduler` (`AsyncScheduler` where the case says async) with only "
        "`add_request`, `schedule` and `update_from_output` timed: "
        "import, making requests with their block hashes and the loop around are left out. Passes, "
        "tokens and preemptions are checked to be equal in every run. `log written again` is the "
        "same pass log written from memory through the run folder's writer, `log by pyarrow` by "
        "one plain `write_table`."
    ),
    "peers": "Each is started from nothing and does the whole trace on one replica.",
    "lengths": "Generated traces of a stable load, whole processes.",
    "curves": (
        "Replay calls: as many requests running as there are seats, nearly always; and the pool's "
        "tokens the same whatever the block size."
    ),
    "sweep": (
        "The same 64 points of the Azure hour as recorded, with `--jobs 1` and `--jobs 2`, in "
        "turn, passes timed by the default roofline. Two workers are two more processes to "
        "start, which weighs on a sweep of a few seconds."
    ),
}
TRIED = (
    (
        ("as recorded", "3 times as fast", "8 times as fast"),
        (
            "Azure. A replay is a step for every run of decodes and for every pass with a "
            "prompt, and a job for every request. What was tried: nobody walked and nothing "
            "built for a pass; blocks counted; facts packed as numbers and rows, digests, gaps "
            "and waits worked out of them thousands of passes at a time; constant columns "
            "sliced from one array; narrow columns; durations tallied by hashing; the steps "
            "compiled by mypyc. What is left is in three equal parts: the compiled steps, which "
            "still box their numbers; the rows with the digest, a hash of each pass that changed "
            "something; the folder, written, read back and summed up. It would take the digest of "
            "a batch in compiled code, and steps over plain C integers."
        ),
    ),
    (
        ("Mooncake conversation",),
        (
            "Prefixes. The peer keeps no log and shares blocks by its own rules; ours keeps "
            "vLLM's order of every block. The express way knows counted blocks only, so that a "
            "trace with hash ids builds a request and a pass each time. Tried: blocks named, given "
            "back and evicted by the stretch. It would take an express way over those stretches."
        ),
    ),
)
"""What was tried where a ratio is missed, and what it would take, by the entries it is about."""

HEAD = """# Performance

Made by `make bench TRACES=DIR`; do not edit. The figures behind it are in `bench/results.json`.

Contestants run in turn, on the same trace with the same flags. Figures are medians over the runs,
with the least and the greatest in brackets; a ratio is taken round by round. CPU seconds are of
all threads and decide, for other work on a machine disturbs the clock more; where the clock
decides, the row says so. Seconds belong to the machine and the hour they were measured at: read
the ratios.
"""


def page(results: Results) -> str:
    """Markdown for all sections that were measured."""
    sections = results["sections"]
    parts = [HEAD, *_targets(list(targets(sections)))]
    for name, title in TITLES.items():
        if name in sections:
            parts += [f"## {title}", EXPLAINED[name], _where(sections[name])]
            for entry in sections[name]["entries"]:
                parts += _entry(entry)
    parts += _reasons(sections)
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _targets(found: Sequence[Target]) -> Iterator[str]:
    yield "## What is wanted"
    rows = [
        [
            f"{each.entry}: {each.what}",
            f"{each.bound} {each.wanted:.4g}",
            _with_range(each.found, each.least, each.most, each.runs),
            str(each.runs),
            "yes" if each.met else "**no**",
        ]
        for each in found
    ]
    yield _table(["ratio", "wanted", "found", "runs", "reached"], rows)


def _where(section: Results) -> str:
    machine = section["machine"]
    first = " (the first requests of each trace only)" if section["quick"] else ""
    return (
        f"Measured {section['measured_at']}{first}: {machine['cores']} cores of "
        f"{machine['processor']}, {machine['memory_gib']} GiB, {machine['system']}, Python "
        f"{machine['python']}, revision {machine['revision'] or 'unknown'}; load "
        f"{section['load_before']} before and {section['load_after']} after."
    )


def _entry(entry: Results) -> Iterator[str]:
    yield f"### {entry['name']}"
    if "measured" in entry:
        yield _where(entry["measured"])
    contestants = entry["contestants"]
    columns: list[str] = [name for name in ("passes", "preempted") if name in _first(contestants)]
    if "exponent" in entry:
        columns.append("peak_mib")
    heads = ["", "CPU s", "clock s", *(name.replace("_", " ") for name in columns)]
    rows = [
        [name, _spread(each["cpu_s"]), _spread(each["wall_s"])]
        + [_cell(each.get(column, "")) for column in columns]
        for name, each in contestants.items()
    ]
    yield _table(heads, rows)
    if entry.get("ratios"):
        rows = [
            [name, _spread(each["cpu_s"]), _spread(each["wall_s"])]
            for name, each in entry["ratios"].items()
        ]
        yield _table(["ratio", "by CPU", "by the clock"], rows)
    for name, text in entry.get("caveats", {}).items():
        yield f"- *{name}*: {text}."


def _reasons(sections: Results) -> Iterator[str]:
    """The profile of every entry with a ratio that was missed."""
    missed = {(each.section, each.entry) for each in targets(sections) if not each.met}
    profiles = [
        (entry["name"], entry["profile"])
        for name, section in sections.items()
        for entry in section["entries"]
        if (name, entry["name"]) in missed and "profile" in entry
    ]
    names = {name for _, name in missed}
    tried = [text for entries, text in TRIED if names.intersection(entries)]
    if tried:
        yield "## Where a ratio is missed: what was tried, and what it would take"
        yield from tried
    if profiles:
        yield "## Where a ratio is missed: the profile"
        yield (
            "Lines in which our replay spends most time itself, measured apart from the runs above "
            "(a profiled run is slower), with nothing compiled, for a profiler does not see into "
            "that. The same for every case is in `bench/profiles/`."
        )
    for name, text in profiles:
        yield f"### {name}: profile"
        yield f"```text\n{text}\n```"


def _first(contestants: Results) -> Results:
    return dict(next(iter(contestants.values())))


def _cell(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, dict):
        return _spread(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _spread(value: Results) -> str:
    return _with_range(value["median"], value["min"], value["max"], len(value["runs"]))


def _with_range(median: float, least: float, most: float, runs: int) -> str:
    if runs == 1:
        return _number(median)
    return f"{_number(median)} [{_number(least)} to {_number(most)}]"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
