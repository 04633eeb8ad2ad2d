"""Values brought to a column's type only where nothing is lost: 12.0 is 12, 12.5 is an error."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.place import Place, shown

_WHOLE_IN_DOUBLES = 1 << 53
_DIGITS = pa.decimal128(38, 9)
_RULE = {True: "is not a whole number that fits", False: "does not fit the type"}
_REMEDY = {True: "Write a whole number, without loss", False: "Correct the value"}


def exactly(values: pa.ChunkedArray, target: pa.DataType, column: str, place: Place) -> pa.Array:
    """Cast every row or name the first that cannot be."""
    if values.type == target and not pa.types.is_nested(target):
        return values
    plain = _decoded(values)
    _refuse_shape(plain.type, target, column, place)
    try:
        cast = _cast(plain, target)
    except pa.ArrowException as error:
        row = first_row_where(plain, lambda part: not _can_cast(part, target))
        is_count = bool(pa.types.is_integer(target))
        found = f"{shown(plain[row].as_py())} {_RULE[is_count]} {target}"
        raise place.refuse(row, column, found, _REMEDY[is_count]) from error
    if _holes(cast):
        row = first_row_where(cast, _holes)
        found = f"{shown(cast[row].as_py())} holds a null where {target} allows none"
        raise place.refuse(row, column, found, "Fill it in, or leave the whole value out")
    return cast


def loose(arrow: pa.DataType) -> pa.DataType:
    """A wide variant that allows nulls: what to parse text to, so that a row can be named."""
    if pa.types.is_dictionary(arrow):
        return arrow.value_type
    if pa.types.is_list(arrow):
        return pa.list_(loose(arrow.value_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, loose(field.type)) for field in arrow])
    return pa.int64() if pa.types.is_signed_integer(arrow) else arrow


def first_row_where(values: pa.ChunkedArray, wrong: Callable[[pa.ChunkedArray], bool]) -> int:
    """The first row at fault, by halving: `wrong` says whether a stretch of rows holds one."""
    return first_where(len(values), lambda first, end: wrong(values.slice(first, end - first)))


def first_where(rows: int, wrong: Callable[[int, int], bool]) -> int:
    """The same for anything with rows: `wrong(first, end)` judges rows [first, end)."""
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        if wrong(low, middle):
            high = middle
        else:
            low = middle
    return low


def _decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        return values.cast(values.type.value_type)
    return values


def _cast(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Raises ArrowInvalid where a value would change; `_holes` are left to be found later."""
    if pa.types.is_nested(target):
        return pa.chunked_array([_rebuilt(chunk, target) for chunk in values.chunks], target)
    if pa.types.is_dictionary(target):
        return pc.dictionary_encode(_cast(values, target.value_type)).cast(target)
    if pa.types.is_string(target) and pa.types.is_floating(values.type):
        values = values.cast(pa.int64())
    if pa.types.is_integer(target) and pa.types.is_floating(values.type):
        _refuse_beyond_doubles(values)
    if pa.types.is_integer(target) and is_text(values.type):
        values = _from_text(values)
    return values.cast(target)


def _refuse_beyond_doubles(values: pa.ChunkedArray) -> None:
    """Above 2**53 a double stands for several whole numbers: which one was meant is lost."""
    most = pc.max(pc.abs(values)).as_py()
    if most is not None and most > _WHOLE_IN_DOUBLES:
        raise pa.ArrowInvalid(f"{most} is beyond the whole numbers that a double can tell apart")


def _rebuilt(values: pa.Array, target: pa.DataType) -> pa.Array:
    """A nested array of the target type; Arrow's own cast refuses nulls under null parents."""
    if not pa.types.is_nested(target):
        return _cast(values, target)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target)
    absent = pc.is_null(values)
    if pa.types.is_list(target):
        items = _rebuilt(values.flatten(), target.value_type)
        lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int32())
        offsets = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), lengths]))
        return pa.ListArray.from_arrays(offsets, items, type=target, mask=absent)
    given = {field.name: child for field, child in zip(values.type, values.flatten(), strict=True)}
    children = [
        _rebuilt(given[field.name], field.type)
        if field.name in given
        else pa.nulls(len(values), field.type)
        for field in target
    ]
    children = [
        child if field.nullable else _zero_where(absent, child)
        for field, child in zip(target, children, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=absent)


def _zero_where(absent: pa.Array, child: pa.Array) -> pa.Array:
    """Parquet wants values, any will do, under an absent parent of a field that is not null."""
    return pc.if_else(absent, pa.scalar(0).cast(child.type), child) if child.null_count else child


def _from_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers written as text, `12`, ` 12 ` and `12.0` alike."""
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid:
        return pc.utf8_trim_whitespace(values).cast(_DIGITS).cast(pa.decimal128(29, 0))


def _can_cast(values: pa.ChunkedArray, target: pa.DataType) -> bool:
    try:
        _cast(values, target)
    except pa.ArrowException:
        return False
    return True


def is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def _refuse_shape(found: pa.DataType, target: pa.DataType, column: str, place: Place) -> None:
    """Types that Arrow would cast, but that mean something else: truth, time, other fields."""
    if pa.types.is_null(found):
        return
    wants_truth = pa.types.is_boolean(target)
    if pa.types.is_boolean(found) != wants_truth or pa.types.is_temporal(found):
        raise place.refuse_column(column, f"holds {found}, not {target}", "Convert it first")
    if pa.types.is_list(target):
        if not (pa.types.is_list(found) or pa.types.is_large_list(found)):
            raise place.refuse_column(column, f"holds {found}, not a list", "Write [a, b, ...]")
        _refuse_shape(found.value_type, target.value_type, column, place)
    if pa.types.is_struct(target):
        _refuse_fields(found, target, column, place)


def _refuse_fields(found: pa.DataType, target: pa.DataType, column: str, place: Place) -> None:
    if not pa.types.is_struct(found):
        raise place.refuse_column(column, f"holds {found}, not {target}", "Write {name: value}")
    given = {field.name: field for field in found}
    known = {field.name: field for field in target}
    if unknown := sorted(given.keys() - known.keys()):
        remedy = f"Its fields are {', '.join(known)}"
        raise place.refuse_column(column, f"has the unknown field {unknown[0]!r}", remedy)
    for name, field in known.items():
        if name in given:
            _refuse_shape(given[name].type, field.type, f"{column}.{name}", place)
        elif not field.nullable:
            raise place.refuse_column(column, f"lacks the field {name!r}", "It is required")


def _holes(values: pa.ChunkedArray) -> bool:
    """Whether a null stands inside a value, in a place whose type says `not null`."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return any(_array_holes(chunk) for chunk in chunks)


def _array_holes(values: pa.Array) -> bool:
    if pa.types.is_list(values.type):
        items = values.flatten()
        item_field = values.type.value_field
        return bool(not item_field.nullable and items.null_count) or _array_holes(items)
    if not pa.types.is_struct(values.type):
        return False
    present = values.filter(values.is_valid())
    children = zip(values.type, present.flatten(), strict=True)
    return any(bool(not f.nullable and c.null_count) or _array_holes(c) for f, c in children)
