"""Values of scheduler flags as people type them, read by the type of the flag's field."""

import re
from dataclasses import fields
from fractions import Fraction
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from schedbench.bounds import Bounds, shortened
from schedbench.errors import UsageError
from schedbench.sched.config import RANGES, SchedulerConfig, option_of

FLAGS = {each.name: each for each in fields(SchedulerConfig)}
"""The fields of SchedulerConfig by name."""

SWITCH_WORDS = {"on": True, "off": False, "true": True, "false": False}
OTHER_SPELLINGS = {
    "num_gpu_blocks": "--num-gpu-blocks",
    "num_speculative_tokens": "--spec-tokens",
}
_DERIVED_BY = {
    "max_num_batched_tokens": "GPU",
    "max_num_seqs": "GPU",
    "max_model_len": "model",
    "num_gpu_blocks": "model and GPU",
}
_DEFAULT_OF = {
    "GPU": "an H100",
    "model": "llama-3.1-8b",
    "model and GPU": "llama-3.1-8b on an H100",
}
_HINTS = get_type_hints(SchedulerConfig)
_COUNT = re.compile(r"(-?\d+(?:\.\d+(?=[kmgt]))?)([KMGTkmgt]?)")
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40} | {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
}
MOST_DIGITS = 40  # of a number that is looked at further; any longer one is out of all bounds


def spellings(name: str) -> list[str]:
    """The options of a flag, the one that is shown first."""
    main, other = option_of(name), OTHER_SPELLINGS.get(name)
    return [main] if other is None else sorted([main, other], key=lambda each: each == main)


def shown_option(name: str) -> str:
    """The spelling that tables and messages use."""
    return spellings(name)[0]


def kind_of(name: str) -> Any:  # noqa: ANN401 - a type, or a Literal
    """The type of a flag, without the None that stands for "not given"."""
    hint = _HINTS[name]
    if get_origin(hint) in (Union, UnionType):
        return next(each for each in get_args(hint) if each is not type(None))
    return hint


def is_switch(name: str) -> bool:
    return kind_of(name) is bool


def choices_of(name: str) -> tuple[str, ...]:
    """The words a flag takes, or none where it takes a number."""
    kind = kind_of(name)
    return get_args(kind) if get_origin(kind) is Literal else ()


def parse_value(name: str, text: str) -> Any:  # noqa: ANN401 - by the flag's type
    """The value of a flag from its text. Raises UsageError naming flag, text and form or range."""
    kind, option = kind_of(name), option_of(name)
    if kind is bool:
        return parse_switch(text, option)
    if kind is int:
        return parse_count(text, option, RANGES[name])
    if kind is float:
        return parse_number(text, option, RANGES[name])
    if (words := choices_of(name)) and text not in words:
        raise UsageError(f"{option}: {text!r} is not one of {', '.join(words)}")
    return text


def parse_optional(name: str, text: str | None) -> Any:  # noqa: ANN401 - by the flag's type
    """The value of a flag that need not be given."""
    return None if text is None else parse_value(name, text)


def parse_switch(text: str, option: str) -> bool:
    if text.lower() not in SWITCH_WORDS:
        raise UsageError(f"{option}: {text!r} is neither on nor off")
    return SWITCH_WORDS[text.lower()]


def parse_count(text: str, option: str, bounds: Bounds) -> int:
    """A whole number; `2k` is 2,000 and `2K` 2,048, as vLLM reads them.

    Raises:
        UsageError: no whole number, or one out of bounds; it names option, text and bounds.
    """
    typed = text.strip().replace("_", "")
    match = _COUNT.fullmatch(typed)
    if match is None:
        raise UsageError(
            f"{option}: {shortened(text)!r} is no whole number; write one {bounds}, such as 2048, "
            "2k (2,000) or 2K (2,048)"
        )
    if len(typed) > MOST_DIGITS:
        raise UsageError(f"{option} is {shortened(text)}: it must be {bounds}")
    exact = Fraction(match[1]) * _SIZES[match[2]]
    if exact % 1:
        raise UsageError(f"{option}: {text!r} is {float(exact)}, which is no whole number")
    bounds.check(int(exact), option, text)
    return int(exact)


def parse_optional_count(text: str | None, option: str, bounds: Bounds) -> int | None:
    return None if text is None else parse_count(text, option, bounds)


def parse_number(text: str, option: str, bounds: Bounds) -> float:
    """A number with a point. Raises UsageError as `parse_count` does."""
    try:
        number = float(text)
    except ValueError:
        raise UsageError(
            f"{option}: {shortened(text)!r} is no number; write one {bounds}, such as 0.05"
        ) from None
    bounds.check(number, option, text)
    return number


def default_text(name: str) -> str | bool:
    """A flag's default as help shows it; False where it has none."""
    default = FLAGS[name].default
    if default is None:
        return False
    by = _DERIVED_BY.get(name)
    return f"by {by}; {show_value(default)} for {_DEFAULT_OF[by]}" if by else show_value(default)


def show_value(value: object) -> str:
    """A flag's value as a table shows it: no digit groups, so that it can be typed again."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
