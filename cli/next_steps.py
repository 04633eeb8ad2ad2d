"""What to ask after a replay: the commands, as they would be typed."""

import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from schedbench.cli.values import shown_option, spellings

if TYPE_CHECKING:
    from schedbench.runner.run import Run

LOOSENED_BY = {
    "kv_blocks": "num_gpu_blocks",
    "seats": "max_num_seqs",
    "budget": "max_num_batched_tokens",
}
"""The flag to raise for each limit that can bind."""

_OF_A_REPLAY = ("--out", "--outputs", "--request-events", "--recorded", "--format")
_SWITCHES_OF_A_REPLAY = ("--json", "--plot", "--no-store")


def lines(run: "Run", words: Sequence[str]) -> list[str]:
    """Where the run is, why it went as it did, and what would change it.

    `words` is what was typed after `schedbench replay`.
    """
    from schedbench.results.untold import REAL_CLASS

    told = [f"kept in {run.path}"]
    if run.manifest["engine"] == REAL_CLASS:
        same = shlex.join(["schedbench", "replay", *without(words, ["--scheduler", "--out"])])
        return [*told, f"the same by this project's scheduler, and why:  {same}"]
    if find_spec("schedbench.cli.explain") is not None:
        told.append(f"what held it back:  schedbench explain {shlex.quote(str(run.path))}")
    return [*told, f"what would change:  {sweep_command(run, words)}"]


def sweep_command(run: "Run", words: Sequence[str]) -> str:
    """A sweep over the flag that held the replay back for longest, or more load if none did."""
    held = [label for label in run.summary["binding_limit"] if label in LOOSENED_BY]
    if not held:
        kept = without(words, [*_OF_A_REPLAY, "--speedup"])
        return shlex.join(["schedbench", "sweep", *kept, "--speedup", "1,2,4,8"])
    name = LOOSENED_BY[held[0]]
    now = run.manifest["scheduler"][name]
    kept = without(words, [*_OF_A_REPLAY, *spellings(name)])
    values = f"{now},{2 * now},{4 * now}"
    return shlex.join(["schedbench", "sweep", *kept, shown_option(name), values])


def without(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """What was typed, less some options with their values and what a sweep does not take."""
    kept, passes_over = [], False
    for word in words:
        name, equals, _ = word.partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        if passes_over:
            passes_over = False
        elif name in options:
            passes_over = not equals
        elif name not in _SWITCHES_OF_A_REPLAY:
            kept.append(word)
    return kept
