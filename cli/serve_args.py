"""A whole `vllm serve` command line: what of it counts, what has no effect, what is refused."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from schedbench.cli.serve_flags import ServeFlag, serve_flags
from schedbench.cli.serve_json import JSON_FLAGS, Given, spelled_out
from schedbench.cli.values import FLAGS, is_switch, spellings
from schedbench.errors import UnsupportedError, UsageError
from schedbench.sched.config import option_of

OPTION = "--serve-args"
_STARTS = (["vllm", "serve"], ["python", "-m", "vllm.entrypoints.openai.api_server"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_LEVEL = re.compile(r"-O(\d)")
ON, OFF = "on", "off"
SHORT_FORMS = {
    "-pp": "--pipeline-parallel-size",
    "-sc": "--speculative-config",
    "--spec-tokens": "--num-speculative-tokens",
    "-tp": "--tensor-parallel-size",
}
"""vLLM's own, of flags that are read here."""

SERVED = {
    "--model": "model",
    "--tensor-parallel-size": "tensor_parallel_size",
    "--dtype": "dtype",
    "--gpu-memory-utilization": "gpu_memory_utilization",
    "--enforce-eager": "enforce_eager",
}
"""Flags about model and GPU that are read here, by field of a Deployment."""

_DTYPES = {"half": "float16", "float": "float32"}  # other words that vLLM has for them


@dataclass
class ServeArgs:
    """`used`: text by field of SchedulerConfig. `without_effect`: flags by what they concern.

    `served`: text by field of a Deployment; the model as it stands on the line.
    """

    used: dict[str, str] = field(default_factory=dict)
    served: dict[str, Any] = field(default_factory=dict)
    without_effect: dict[str, list[str]] = field(default_factory=dict)
    has_lora: bool | None = None


def parse_serve_args(text: str) -> ServeArgs:
    """Sort the flags of a command line.

    Raises:
        UnsupportedError: a flag that would change decisions in a way that is not modelled.
        UsageError: a flag that no followed release of `vllm serve` has, or one without its value.
    """
    found = ServeArgs()
    words = _words(text)
    if words and not words[0].startswith("-"):
        found.served["model"] = words[0]
    for given in _flags(words):
        _sort(given, found)
    _settle_lora(found)
    return found


def refusal(name: str) -> str | None:
    """Why a flag of `vllm serve` is no option here; None if vLLM has no such flag either."""
    flag = serve_flags().get(name)
    if flag is None:
        return None
    if flag.is_refused:
        return f"{name}: {flag.reason}"
    return (
        f"{name} has no effect on scheduling, so it is no option here: it concerns "
        f"{flag.reason}. Leave it out, or give the whole command line with {OPTION}"
    )


def _words(text: str) -> list[str]:
    """The words after `vllm serve`; variables before it are passed over."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise UsageError(f"{OPTION}: {error}: {text!r}. Quote it as for a shell") from None
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words.pop(0)
    for start in _STARTS:
        if [word.rpartition("/")[2] for word in words[: len(start)]] == start:
            return words[len(start) :]
    if words and not words[0].startswith("-"):
        raise UsageError(
            f"{OPTION} begins with {words[0]!r}: give a command line that begins with "
            "`vllm serve`, or only its flags"
        )
    return words


def _flags(words: list[str]) -> Iterator[Given]:
    """Flags with their values. Words that belong to no flag are left out."""
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        if not word.startswith("-"):
            continue
        name, is_joined, joined = _name(word)
        least, most = _arity(name)
        values = [joined] if is_joined else []
        while not is_joined and len(values) < most and at < len(words):
            if words[at].startswith("-") and not _is_number(words[at]):
                break
            values.append(words[at])
            at += 1
        if len(values) < least:
            raise UsageError(f"{OPTION}: {name} stands without its value")
        if name in JSON_FLAGS:
            yield from spelled_out(name, values[0])
        else:
            yield Given(name, tuple(values))


def _name(word: str) -> tuple[str, bool, str]:
    """The flag's name with dashes, and what is joined to it: `--a_b=c`, `--x.y 1`, `-O3`."""
    if level := _LEVEL.fullmatch(word):
        return "-O", True, level[1]
    name, equals, value = word.partition("=")
    name = name.partition(".")[0] if name.startswith("--") or "." in name else name
    name = name.replace("_", "-")
    return SHORT_FORMS.get(name, name), bool(equals), value


def _is_number(word: str) -> bool:
    return bool(re.fullmatch(r"-\d+(\.\d+)?", word))


def _arity(name: str) -> tuple[int, int]:
    """Least and most values of a flag."""
    flag = serve_flags().get(name)
    takes = flag.takes if flag else "switch" if _own_switch(name) is not None else "value"
    return {"switch": (0, 0), "value": (1, 1), "list": (1, 1 << 20)}[takes]


def _own_switch(name: str) -> bool | None:
    """What a switch of the scheduler, or LoRA, is set to by this name."""
    switches = {option_of(each) for each in FLAGS if is_switch(each)}
    switches |= {"--enable-lora", "--enforce-eager"}
    if name in switches:
        return True
    return False if name.replace("--no-", "--", 1) in switches else None


def _sort(given: Given, found: ServeArgs) -> None:
    flag = serve_flags().get(given.name)
    if flag is not None:
        _pass_over(given, flag, found)
        return
    switched = _own_switch(given.name)
    base = given.name.replace("--no-", "--", 1) if switched is False else given.name
    if base == "--enable-lora":
        found.has_lora = switched
    elif base in SERVED:
        _serve(base, given, switched, found)
    else:
        text = given.values[0] if switched is None else ON if switched else OFF
        found.used[_field_of(base)] = text


def _serve(name: str, given: Given, switched: bool | None, found: ServeArgs) -> None:
    value = given.values[0] if switched is None else switched
    if name != "--dtype":
        found.served[SERVED[name]] = value
    elif value != "auto":
        found.served["dtype"] = _DTYPES.get(str(value), value)


def _pass_over(given: Given, flag: ServeFlag, found: ServeArgs) -> None:
    is_neutral = bool(given.values) and all(value in flag.neutral for value in given.values)
    if flag.is_refused and not is_neutral:
        raise UnsupportedError(f"{OPTION}: {' '.join([given.name, *given.values])}: {flag.reason}")
    about = "nothing, with the value given" if flag.is_refused else flag.reason
    names = found.without_effect.setdefault(about, [])
    if given.name not in names:
        names.append(given.name)


def _field_of(option: str) -> str:
    options = {spelling: name for name in FLAGS for spelling in spellings(name)}
    if option in options:
        return options[option]
    close = get_close_matches(option, [*options, *serve_flags()], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise UsageError(
        f"{OPTION}: `vllm serve` has no flag {option} in any release that is followed{hint}"
    )


def _settle_lora(found: ServeArgs) -> None:
    """Without --enable-lora there is no limit; with it, it is 1 unless --max-loras says more."""
    if found.has_lora:
        found.used.setdefault("max_loras", "1")
    elif "max_loras" in found.used:
        del found.used["max_loras"]
        found.without_effect.setdefault("LoRA, and --enable-lora is off", []).append("--max-loras")
