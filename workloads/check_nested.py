"""Rules of the nested columns: input segments, grammar, remote KV, encoder items, drafts."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.arrays import Offsets, one_array, ragged, required
from schedbench.workloads.place import Mask, Place

Numbers = npt.NDArray[np.int64]


def check_nested(table: pa.Table, place: Place) -> None:
    for name, check in _RULES.items():
        if name in table.column_names:
            check(table, place)


def _field(values: pa.Array, name: str, when_null: int) -> Numbers:
    """One field of a struct array as numbers, `when_null` where it or the struct is null."""
    child = values.flatten()[values.type.get_field_index(name)]
    numbers: Numbers = pc.fill_null(child.cast(pa.int64()), when_null).to_numpy()
    return numbers


def _rows_of(offsets: Offsets) -> Numbers:
    """The row each item of a list column stands in."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _refuse_items(
    place: Place,
    rows: Numbers,
    bad: Mask,
    column: str,
    found: Callable[[int], str],
    remedy: str,
) -> None:
    """Like `refuse_where`, for items of lists: name the row of the first item at fault."""
    items = np.flatnonzero(bad)
    if items.size:
        raise place.refuse(int(rows[items[0]]), column, found(int(items[0])), remedy)


def _same_row_before(rows: Numbers) -> Mask:
    """Which items follow another of the same row."""
    return np.concatenate(([False], rows[1:] == rows[:-1]))[: len(rows)]


def _before(values: Numbers) -> Numbers:
    return np.concatenate((values[:1], values[:-1]))


def _check_chunks(table: pa.Table, place: Place) -> None:
    offsets, items = ragged(table.column("chunks"))
    rows, follows = _rows_of(offsets), _same_row_before(_rows_of(offsets))
    delays, prompts = _field(items, "delay_ns", 0), _field(items, "prompt_tokens", 0)
    outputs = _field(items, "output_tokens", 0)
    least_output = np.where(prompts == 0, 0, 1)
    for bad, found, remedy in (
        (delays < 0, lambda i: f"delay {delays[i]} is negative", "Delays count from arrival"),
        (prompts < 0, lambda i: f"{prompts[i]} prompt tokens", "Use 0 to close the input"),
        (
            outputs < least_output,
            lambda i: f"a segment of {prompts[i]} prompt tokens emits {outputs[i]}",
            "A segment that adds input emits at least one token",
        ),
        (
            follows & (delays < _before(delays)),
            lambda i: f"delay {delays[i]} comes after {delays[i - 1]}",
            "Delays ascend: sort the segments",
        ),
        (
            follows & (_before(prompts) == 0),
            lambda i: f"a segment at {delays[i]} ns follows the one that closed the input",
            "Nothing comes after a close: drop it",
        ),
    ):
        _refuse_items(place, rows, bad, "chunks", found, remedy)


def _check_grammar(table: pa.Table, place: Place) -> None:
    grammar = one_array(table.column("grammar"))
    delays, rejects = _field(grammar, "delay_ns", 0), _field(grammar, "rejects_at", 1)
    place.refuse_where(
        delays < 0, "grammar", lambda row: f"delay {delays[row]} is negative", "Use 0 or more"
    )
    place.refuse_where(
        rejects < 1,
        "grammar",
        lambda row: f"rejects_at {rejects[row]} is no output token",
        "Output tokens count from 1; leave the field out if it never rejects",
    )


def _check_remote_kv(table: pa.Table, place: Place) -> None:
    remote = one_array(table.column("remote_kv"))
    has_value = np.asarray(remote.is_valid())
    prefix = _field(remote, "prefix_tokens", 0)
    valid = np.where(_field(remote, "valid_tokens", -1) == -1, prefix, 0)
    valid = np.where(valid == prefix, prefix, _field(remote, "valid_tokens", -1))
    prompts = required(table, "prompt_tokens")
    for name in ("prefix_tokens", "lookup_ns", "load_ns", "valid_tokens", "send_ns"):
        numbers = _field(remote, name, 0)
        place.refuse_where(
            numbers < 0,
            "remote_kv",
            lambda row, name=name, numbers=numbers: f"{name} {numbers[row]} is negative",
            "Times and counts are never negative",
        )
    place.refuse_where(
        has_value & (prefix > prompts),
        "remote_kv",
        lambda row: f"a prefix of {prefix[row]} tokens in a prompt of {prompts[row]}",
        "The prefix is part of the prompt",
    )
    place.refuse_where(
        has_value & (valid > prefix),
        "remote_kv",
        lambda row: f"{valid[row]} valid tokens of a prefix of {prefix[row]}",
        "No more can arrive intact than were sent",
    )


def _check_encoder(table: pa.Table, place: Place) -> None:
    offsets, items = ragged(table.column("encoder"))
    rows, follows = _rows_of(offsets), _same_row_before(_rows_of(offsets))
    starts, lengths = _field(items, "offset", 0), _field(items, "tokens", 0)
    embeds = _field(items, "embeds", 1)
    ends = starts + lengths
    prompts = required(table, "prompt_tokens")[rows]
    for bad, found, remedy in (
        (starts < 0, lambda i: f"offset {starts[i]} is negative", "Offsets count from 0"),
        (lengths < 1, lambda i: f"an item of {lengths[i]} tokens", "An item has at least one"),
        (
            (embeds < 0) | (embeds > lengths),
            lambda i: f"{embeds[i]} embeddings in {lengths[i]} tokens",
            "There are at most as many embeddings as tokens",
        ),
        (
            ends > prompts,
            lambda i: f"an item ends at {ends[i]} in a prompt of {prompts[i]}",
            "Items lie inside the prompt",
        ),
        (
            follows & (starts < _before(ends)),
            lambda i: f"an item at {starts[i]} begins before the last one ends at {ends[i - 1]}",
            "Items ascend and do not overlap",
        ),
    ):
        _refuse_items(place, rows, bad, "encoder", found, remedy)


def _check_spec(table: pa.Table, place: Place) -> None:
    spec = one_array(table.column("spec"))
    rates = pc.fill_null(spec.flatten()[spec.type.get_field_index("rate")], 0.0).to_numpy()
    place.refuse_where(
        ~((rates >= 0) & (rates <= 1)),
        "spec",
        lambda row: f"rate {rates[row]} is no probability",
        "The chance that a draft token is accepted lies between 0 and 1",
    )


def _check_observed(table: pa.Table, place: Place) -> None:
    observed = one_array(table.column("observed"))
    for name in ("ttft_ns", "e2e_ns", "cached_tokens"):
        numbers = _field(observed, name, 0)
        place.refuse_where(
            numbers < 0,
            "observed",
            lambda row, name=name, numbers=numbers: f"{name} {numbers[row]} is negative",
            "Leave out what was not recorded",
        )


_RULES = {
    "chunks": _check_chunks,
    "grammar": _check_grammar,
    "remote_kv": _check_remote_kv,
    "encoder": _check_encoder,
    "spec": _check_spec,
    "observed": _check_observed,
}
