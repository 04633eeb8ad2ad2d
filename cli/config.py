"""`schedbench config`: what each flag becomes, and where it is read."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from schedbench.cli.configure import ABOUT_THE_SERVER, Settings, settle
from schedbench.cli.flags import Flags
from schedbench.cli.options import Printing
from schedbench.cli.serving import Serving
from schedbench.cli.values import FLAGS, show_value, shown_option
from schedbench.errors import SchedbenchError

if TYPE_CHECKING:
    from schedbench.results.sheet import Sheet, View
    from schedbench.runner.kvpool import Term
    from schedbench.sched.config import SchedulerConfig


def config(*, flags: Flags, serving: Serving, printing: Printing) -> None:
    """Show each flag, what it becomes with its formula, and where it is read.

    schedbench config --max-num-batched-tokens 4096 --max-num-partial-prefills 2

    schedbench config --model qwen3-8b --gpu L40S --gpu-memory-utilization 0.85

    schedbench config --serve-args "vllm serve MODEL --max-model-len 32K --enforce-eager"

    A combination that vLLM refuses ends with exit code 2, after the table.
    """
    from schedbench.cli.print_view import print_view

    settings = settle(flags.given, flags.serve_args, serving.given)
    derived = settings.deployment.derived(settings.flags)
    try:
        built = settings.config()
    except SchedbenchError:
        print_view(_view(settings, derived, None), printing.chosen)
        raise
    print_view(_view(settings, derived, built), printing.chosen)


def _view(settings: Settings, server: dict[str, Any], built: "SchedulerConfig | None") -> "View":
    from schedbench.results.sheet import View

    inert = built.inert() if built is not None else {}
    rows = [_row(name, settings, server, inert) for name in FLAGS]
    derived = [asdict(each) for each in built.derived()] if built is not None else []
    terms = _terms(settings)
    data = {
        "flags": rows,
        "derived": derived,
        "time": settings.deployment.description,
        "pool": [asdict(term) for term in terms],
        "without_effect": settings.without_effect,
        "possible": built is not None,
    }
    sheets = (_flags(rows), _derived(derived), _server(settings, terms), _places(rows))
    warnings = built.warnings() if built is not None else []
    if built is not None:
        warnings += settings.deployment.warnings(built, settings.flags)
    return View("", sheets, _flat(rows), data, tuple(warnings))


def _terms(settings: Settings) -> tuple["Term", ...]:
    """The sum that the KV pool is; none where the pool is given or no GPU's memory is known."""
    if "num_gpu_blocks" in settings.flags or settings.deployment.recorded is not None:
        return ()
    planned = settings.deployment.pool(settings.flags)
    return () if planned is None else planned.terms


def _row(
    name: str, settings: Settings, server: dict[str, Any], inert: dict[str, str]
) -> dict[str, Any]:
    if name in settings.given:
        source = "given"
    elif name in settings.standing_in:
        source = "set"
    else:
        source = "assumed" if name in ABOUT_THE_SERVER else "default"
    return {
        "flag": shown_option(name),
        "value": settings.flags.get(name, server.get(name, FLAGS[name].default)),
        "source": source,
        "inert": inert.get(name),
        "read_in": FLAGS[name].metadata["read_in"],
    }


def _flags(rows: list[dict[str, Any]]) -> "Sheet":
    from schedbench.results.sheet import Cell, Heading, Mark, Sheet

    titles = ("flag", "value", "is", "inert, because")
    headings = tuple(Heading(title, is_number=title == "value") for title in titles)
    cells = [
        (
            Cell(row["flag"]),
            Cell(show_value(row["value"])),
            Cell(row["source"], mark=Mark.PLAIN if row["source"] == "given" else Mark.QUIET),
            Cell(row["inert"] or "", mark=Mark.QUIET),
        )
        for row in rows
    ]
    return Sheet("", headings, tuple(cells))


def _derived(rows: list[dict[str, Any]]) -> "Sheet":
    from schedbench.results.sheet import facts

    told = [
        (row["name"], f"{show_value(row['value'])} = {row['formula']}  ({row['read_in']})")
        for row in rows
    ]
    return facts(told, "what they become")


def _server(settings: Settings, terms: Sequence["Term"]) -> "Sheet":
    """Where times, pool and the size of a pass come from."""
    from schedbench.results.sheet import facts

    deployment, given = settings.deployment, settings.flags
    told = [("time", deployment.description)]
    if deployment.recorded is None:
        rule = f"vLLM's default for {deployment.batch_rule(given).rule}"
        told += [
            (name, rule) for name in ("max_num_batched_tokens", "max_num_seqs") if name not in given
        ]
    told += [(term.name, f"{term.shown} = {term.formula}") for term in terms]
    return facts(told, "what serves, and how many KV blocks fit")


def _places(rows: list[dict[str, Any]]) -> "Sheet":
    from schedbench.results.sheet import facts

    return facts([(row["flag"], row["read_in"]) for row in rows], "where they are read")


def _flat(rows: list[dict[str, Any]]) -> "Sheet":
    from schedbench.results.sheet import Cell, Heading, Sheet

    cells = [tuple(Cell("", each) for each in row.values()) for row in rows]
    return Sheet("", tuple(Heading(title) for title in rows[0]), tuple(cells))
