"""Rules of the nested columns: input segments, grammar, remote KV, encoder items, drafts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.arrays import one_array, ragged, required
from schedbench.workloads.place import Mask, Place

Numbers = npt.NDArray[np.int64]

MOST_NS = 1 << 60
"""Of a time: 36 years. Sums of a few of them still are 64-bit numbers."""


@dataclass(frozen=True, slots=True)
class Items:
    """The structs of a column laid end to end, and the row that each stands in."""

    column: str
    structs: pa.Array
    rows: Numbers
    place: Place

    @classmethod
    def of(cls, table: pa.Table, column: str, place: Place) -> "Items":
        values = table.column(column)
        if not pa.types.is_list(values.type):
            return cls(column, one_array(values), np.arange(len(values)), place)
        offsets, structs = ragged(values)
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        return cls(column, structs, rows, place)

    def field(self, name: str) -> pa.Array:
        return self.structs.flatten()[self.structs.type.get_field_index(name)]

    def numbers(self, name: str, when_null: int = 0) -> Numbers:
        values: Numbers = pc.fill_null(self.field(name).cast(pa.int64()), when_null).to_numpy()
        return values

    def follows(self) -> Mask:
        """Which items come after another one of the same row."""
        return np.concatenate(([False], self.rows[1:] == self.rows[:-1]))[: len(self.rows)]

    def refuse(self, bad: Mask, found: Callable[[int], str], remedy: str) -> None:
        """Raise for the first item that is marked, naming its row."""
        items = np.flatnonzero(bad)
        if items.size:
            at = int(items[0])
            raise self.place.refuse(int(self.rows[at]), self.column, found(at), remedy)

    def refuse_above(self, name: str) -> None:
        values = self.numbers(name)
        self.refuse(
            values > MOST_NS,
            lambda i: f"{name} is {values[i]}, above {MOST_NS}, 36 years",
            "Times are nanoseconds: check the unit",
        )

    def refuse_below(self, name: str, least: int, remedy: str) -> None:
        values = self.numbers(name, when_null=least)
        self.refuse(values < least, lambda i: f"{name} is {values[i]}, below {least}", remedy)


def check_nested(table: pa.Table, place: Place) -> None:
    prompts = required(table, "prompt_tokens")
    for column, check in _RULES.items():
        if column in table.column_names:
            items = Items.of(table, column, place)
            for name in _times_of(items.structs.type):
                items.refuse_above(name)
            check(items, prompts[items.rows].astype(np.int64))


def waits_ns(table: pa.Table) -> float:
    """All times that rows may wait for one another and for the world, laid end to end."""
    total = 0.0
    if "think_ns" in table.column_names:
        total += _sum_of(table.column("think_ns"))
    for column in {"chunks", "grammar", "remote_kv"} & set(table.column_names):
        structs = Items.of(table, column, Place("")).structs
        for name in _times_of(structs.type):
            total += _sum_of(structs.flatten()[structs.type.get_field_index(name)])
    return total


def _sum_of(values: pa.Array) -> float:
    """In doubles, which never overflow: whole numbers of 64 bits would."""
    return float(pc.fill_null(values, 0).to_numpy().sum(dtype=np.float64))


def _times_of(arrow: pa.StructType) -> list[str]:
    return [field.name for field in arrow if field.name.endswith("_ns")]


def _previous(values: Numbers) -> Numbers:
    return np.concatenate((values[:1], values[:-1]))


def _check_chunks(items: Items, _prompts: Numbers) -> None:
    delays, prompts = items.numbers("delay_ns"), items.numbers("prompt_tokens")
    outputs, follows = items.numbers("output_tokens"), items.follows()
    items.refuse_below("delay_ns", 0, "Delays count from the arrival")
    items.refuse_below("prompt_tokens", 0, "Use 0 to close the input")
    items.refuse(
        outputs < np.where(prompts == 0, 0, 1),
        lambda i: f"a segment of {prompts[i]} prompt tokens emits {outputs[i]}",
        "A segment that adds input emits at least one token",
    )
    items.refuse(
        follows & (delays < _previous(delays)),
        lambda i: f"delay {delays[i]} comes after {delays[i - 1]}",
        "Delays ascend: sort the segments",
    )
    items.refuse(
        follows & (_previous(prompts) == 0),
        lambda i: f"a segment at {delays[i]} ns follows the one that closed the input",
        "Nothing comes after a close: drop it",
    )


def _check_grammar(items: Items, _prompts: Numbers) -> None:
    items.refuse_below("delay_ns", 0, "Use 0 for a grammar that is ready at once")
    items.refuse_below("rejects_at", 1, "Output tokens count from 1; null never rejects")


def _check_remote_kv(items: Items, prompts: Numbers) -> None:
    for name in ("prefix_tokens", "lookup_ns", "load_ns", "valid_tokens", "send_ns"):
        items.refuse_below(name, 0, "Times and counts are never negative")
    prefix, valid = items.numbers("prefix_tokens"), items.numbers("valid_tokens")
    items.refuse(
        prefix > prompts,
        lambda i: f"a prefix of {prefix[i]} tokens in a prompt of {prompts[i]}",
        "The prefix is part of the prompt",
    )
    items.refuse(
        valid > prefix,
        lambda i: f"{valid[i]} valid tokens of a prefix of {prefix[i]}",
        "No more can arrive intact than were sent",
    )


def _check_encoder(items: Items, prompts: Numbers) -> None:
    items.refuse_below("offset", 0, "Offsets count from the prompt's first token")
    items.refuse_below("tokens", 1, "An item covers at least one token")
    items.refuse_below("embeds", 0, "Leave embeds out if there are as many as tokens")
    starts, tokens, embeds = (items.numbers(name) for name in ("offset", "tokens", "embeds"))
    ends = starts + tokens
    items.refuse(
        embeds > tokens,
        lambda i: f"{embeds[i]} embeddings in {tokens[i]} tokens",
        "There are at most as many embeddings as tokens",
    )
    items.refuse(
        ends > prompts,
        lambda i: f"an item ends at {ends[i]} in a prompt of {prompts[i]}",
        "Items lie inside the prompt",
    )
    items.refuse(
        items.follows() & (starts < _previous(ends)),
        lambda i: f"an item at {starts[i]} begins before the last one ends at {ends[i - 1]}",
        "Items ascend and do not overlap",
    )


def _check_spec(items: Items, _prompts: Numbers) -> None:
    rates = pc.fill_null(items.field("rate"), 0.0).to_numpy()
    items.refuse(
        ~((rates >= 0) & (rates <= 1)),
        lambda i: f"rate {rates[i]} is no probability",
        "The chance that a draft token is accepted lies between 0 and 1",
    )


def _check_observed(items: Items, _prompts: Numbers) -> None:
    for name in ("ttft_ns", "e2e_ns", "cached_tokens"):
        items.refuse_below(name, 0, "Leave out what was not recorded")


_RULES = {
    "chunks": _check_chunks,
    "grammar": _check_grammar,
    "remote_kv": _check_remote_kv,
    "encoder": _check_encoder,
    "spec": _check_spec,
    "observed": _check_observed,
}
