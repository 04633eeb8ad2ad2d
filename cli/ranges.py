"""Values of a sweep as people type them: `64,128`, `2048:16384:x2`, `64:256:+64`, `on,off`."""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from schedbench.cli.values import kind_of, parse_value
from schedbench.errors import UsageError
from schedbench.sched.config import RELEASES, option_of

ALL = "all"
FORMS = "write a list (64,128,256) or a range (64:256:+64, 2048:16384:x2)"
MOST_VALUES = 1000
LARGEST_STEP = 10**12
_PARTS = 3


def parse_flag_values(name: str, text: str) -> list[Any]:
    """The values of a scheduler flag. Raises UsageError naming option, text and form.

    `--vllm-version all` stands for every release that is modelled.
    """
    if name == "vllm_version" and text.strip() == ALL:
        return list(RELEASES)
    return parse_values(text, option_of(name), kind_of(name), lambda word: parse_value(name, word))


def parse_values(text: str, option: str, kind: object, parse: Callable[[str], Any]) -> list[Any]:
    """The values of any option whose single values `parse` reads."""
    parts = text.split(",")
    values = [value for part in parts for value in _values(part, option, kind, parse)]
    return _distinct(values, option, text)


def parse_speedups(text: str) -> list[str]:
    """Speed-ups stay text, since 1.1 is eleven tenths and not the nearest float."""
    parts = [each for part in text.split(",") for each in _values(part, "--speedup", str, str)]
    from schedbench.workloads.transform import parse_speedup

    for each in parts:
        parse_speedup(each)
    return _distinct(parts, "--speedup", text)


def parse_costs(text: str) -> list[str]:
    """Costs hold commas of their own: `pass:1ms,linear:8ms,0.03ms` are two."""
    from schedbench.runner.clock import parse_cost

    costs = re.split(r",(?=\s*[a-z]+\s*:)", text)
    for cost in costs:
        parse_cost(cost)
    return _distinct(costs, "--cost", text)


def _values(part: str, option: str, kind: object, parse: Callable[[str], Any]) -> list[Any]:
    """One value, or the values of one range; the end belongs to it if it is hit exactly."""
    words = part.strip().split(":")
    if len(words) == 1 or kind not in (int, float, str):
        return [parse(words[0] if len(words) == 1 else part)]
    if len(words) != _PARTS:
        raise UsageError(f"{option}: {part!r} has no step; {FORMS}")
    start, end = (_number(word, option, parse) for word in words[:2])
    numbers = list(_range(start, end, words[2], f"{option}: {part!r}"))
    if kind is int and any(number % 1 for number in numbers):
        raise UsageError(f"{option}: {part!r} comes upon fractions; take another step")
    return [parse(f"{number.normalize():f}") for number in numbers]


def _number(word: str, option: str, parse: Callable[[str], Any]) -> Decimal:
    try:
        number = Decimal(str(parse(word)))
    except InvalidOperation:
        raise UsageError(f"{option}: {word!r} is no number; {FORMS}") from None
    if not number.is_finite():
        raise UsageError(f"{option}: {word!r} is no finite number; {FORMS}")
    return number


def _range(start: Decimal, end: Decimal, step: str, where: str) -> Iterator[Decimal]:
    sign, digits = step[:1], step[1:]
    try:
        size = Decimal(digits if sign in ("+", "x") else "")
        is_step = abs(size) < LARGEST_STEP  # raises for a NaN
    except InvalidOperation:
        is_step = False
    if not is_step:
        raise UsageError(f"{where}: the step {step!r} is not +N or xN; {FORMS}")
    grows = (sign == "+" and size > 0) or (sign == "x" and size > 1 and start > 0)
    if not grows or start > end:
        raise UsageError(
            f"{where} does not go up: the first number is not above the second, and the step is "
            "+N, or xN with N above 1"
        )
    count, value = 0, start
    while value <= end:
        yield value
        value = value + size if sign == "+" else value * size
        count += 1
        if count > MOST_VALUES:
            raise UsageError(f"{where} has over {MOST_VALUES} values; take a larger step")


def _distinct(values: list[Any], option: str, text: str) -> list[Any]:
    if len(set(values)) < len(values):
        raise UsageError(f"{option}: {text!r} has a value twice; give each once")
    return values
