"""The `--map` that a file likely needs, by the names and types of its columns."""

from collections.abc import Mapping
from difflib import get_close_matches

import pyarrow as pa

from schedbench.workloads.exact import is_text
from schedbench.workloads.place import printable

_WORDS = {
    "arrival": ("arrival", "timestamp", "time", "start", "date", "ts", "t"),
    "prompt": ("prompt", "input", "context", "isl", "in"),
    "output": ("output", "completion", "generated", "response", "osl", "out"),
}
"""Parts of names, the likelier first; short ones count as whole names only."""
_WHOLE_NAME = 3
_NOT_LENGTHS = ("text", "hash", "id", "price", "cost")


def suggested_mapping(columns: Mapping[str, pa.DataType | None]) -> str:
    """`--map arrival=...,prompt=...,output=...`, NAME where no column's name fits."""
    taken: dict[str, str] = {}
    for target in _WORDS:
        left = {name: each for name, each in columns.items() if name not in taken.values()}
        taken[target] = _likeliest(target, left)
    arrival = taken["arrival"] + _unit(columns.get(taken["arrival"]))
    pairs = (("arrival", arrival), ("prompt", taken["prompt"]), ("output", taken["output"]))
    return "--map " + ",".join(f"{target}={printable(name)}" for target, name in pairs)


def _likeliest(target: str, columns: Mapping[str, pa.DataType | None]) -> str:
    for word in _WORDS[target]:
        for name, arrow in columns.items():
            plain = name.lower()
            fits = plain == word if len(word) <= _WHOLE_NAME else word in plain
            if fits and _may_hold(target, plain, arrow):
                return name
    return "NAME"


def _may_hold(target: str, name: str, arrow: pa.DataType | None) -> bool:
    if target == "arrival":
        return True
    is_number = arrow is None or pa.types.is_integer(arrow) or pa.types.is_floating(arrow)
    return is_number and not any(part in name.split("_") for part in _NOT_LENGTHS)


def _unit(arrow: pa.DataType | None) -> str:
    """None for dates by type; `:datetime` for text; the reader's choice for numbers."""
    if arrow is None or pa.types.is_integer(arrow) or pa.types.is_floating(arrow):
        return ":s"
    if pa.types.is_dictionary(arrow):
        return _unit(arrow.value_type)
    return ":datetime" if is_text(arrow) else ""


def did_you_mean(name: str, known: list[str]) -> str:
    """The nearest known name as a question, or nothing."""
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {printable(near[0])}?" if near else "."
