"""Random golden scenarios: seeded, from the standard library, valid for a release of vLLM.

    python -m schedbench.runner.record_golden --fuzz FIRST COUNT FOLDER [--features a,b]

Each case draws some features, small pools and short requests, so that rare branches
(evictions, unwinding, set-aside requests, failed loads) are reached within some hundred passes.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from schedbench.runner.fuzz_events import draw_events
from schedbench.runner.fuzz_flags import (
    FEATURES,
    chance,
    draw_features,
    draw_flags,
    features_alone,
    is_free,
)
from schedbench.runner.golden_log import GoldenLog
from schedbench.sched.behaviours import MODELLED, Behaviours, resolve

if TYPE_CHECKING:
    from collections.abc import Collection

Row = dict[str, Any]
MAX_PASSES = 600
MAX_IDLE = 25
BASE_US, PER_TOKEN_US = 8000, 30
GROUPS = 4  # prompts of one group begin alike


def draw_scenario(
    seed: int, release: str = MODELLED[0], allowed: Collection[str] = tuple(FEATURES)
) -> GoldenLog:
    """The case of this seed; `allowed` restricts the features that may be drawn."""
    rng = random.Random(f"{release} {seed}")  # noqa: S311
    free = is_free(seed, release)
    features = features_alone(seed, release, allowed) or draw_features(
        rng, release, allowed, free=free
    )
    behaviour = resolve(release)
    flags = draw_flags(rng, behaviour, features)
    requests = Requests(rng, flags, features, behaviour, free=free).draw()
    header: Row = {
        "format": "schedbench-oracle/1",
        "vllm": release,
        "vllm_version": release,
        "name": f"fuzz.{seed}",
        "note": "Random: " + " ".join(sorted(features)),
        "config": flags,
        "clock": {"mode": "pass"},
        "block_tables": True,
        "skips_dead_inputs": True,
        "events": draw_events(rng, behaviour, features, requests),
        "max_passes": MAX_PASSES,
        "max_idle": MAX_IDLE,
    }
    if "flush" in features:
        header["flush_pass"] = True
    if "linear_clock" in features:
        header["clock"] = {"mode": "linear", "base_us": BASE_US, "per_token_us": PER_TOKEN_US}
        for request in requests:
            request["arrival"] = request["arrival"] * BASE_US + rng.randrange(BASE_US)
    return GoldenLog(header, requests)


class Requests:
    """Draws the request rows of one case."""

    def __init__(
        self,
        rng: random.Random,
        flags: Row,
        features: Collection[str],
        behaviour: Behaviours,
        *,
        free: bool,
    ) -> None:
        self._rng, self._flags, self._features = rng, flags, features
        self._behaviour = behaviour
        self._free = free  # may have what ends the engine
        self._clock = 0
        self._max_tokens = flags["max_model_len"]  # of prompt and output
        if not behaviour.pad_room and flags["async_scheduling"] and not free:
            # A padded decode that touches max_model_len fails in the next pass.
            self._max_tokens -= flags["num_speculative_tokens"] + 1
        self._longest_prompt = self._max_tokens - 1
        self._gap = rng.choice([0.3, 1.0, 2.0])
        self._rows: list[Row] = []

    def draw(self) -> list[Row]:
        most = 60 if "many_seqs" in self._features else 30
        for number in range(self._rng.randint(6, most)):
            self._clock += int(self._rng.expovariate(1 / self._gap)) if self._gap else 0
            if "streaming" in self._features and chance(self._rng, 0.4):
                self._rows += self._session(f"s{number}")
            else:
                self._rows.append(self._request(str(number)))
        return self._rows

    def _request(self, request_id: str) -> Row:
        rng = self._rng
        prompt = self._prompt(request_id)
        row: Row = {"id": request_id, "arrival": self._clock, "prompt": prompt}
        row["max_tokens"] = rng.choice([1, 2, 3, 5, 8, 13, 21, 34, 55])
        ahead = self._flags["async_scheduling"] and self._flags["num_speculative_tokens"]
        if ahead and not self._free:
            row["max_tokens"] = min(row["max_tokens"], self._max_tokens - _length(prompt))
        if "min_tokens" in self._features and chance(rng, 0.4):
            row["min_tokens"] = rng.randint(1, row["max_tokens"])
        if "stop" in self._features and chance(rng, 0.5):
            row["eos_after"] = rng.randint(1, row["max_tokens"])
        return row | self._extras(_length(prompt))

    def _extras(self, prompt_length: int) -> Row:
        rng, features = self._rng, self._features
        extras: Row = {}
        if "priority" in features:
            extras["priority"] = rng.randrange(-2, 3)
        if "lora" in features and chance(rng, 0.8):
            extras["lora"] = rng.randint(1, 4)
        if "prefix" in features and chance(rng, 0.1):
            extras["cache_salt"] = rng.choice(["a", "b"])
        if "grammar" in features and chance(rng, 0.4):
            extras["grammar"] = self._grammar()
        if "remote_kv" in features and chance(rng, 0.6):
            extras["remote_kv"] = self._remote_kv(prompt_length)
        if "encoder" in features and chance(rng, 0.7):
            extras["mm"] = self._encoder_inputs(prompt_length)
        if "speculation" in features:
            count = self._flags["num_speculative_tokens"]
            extras["accept"] = [rng.randint(0, count) for _ in range(rng.randint(1, 4))]
            if chance(rng, 0.7):
                extras["drafts"] = [rng.randint(0, count) for _ in range(rng.randint(1, 3))]
        return extras

    def _prompt(self, request_id: str) -> list[list[Any]]:
        rng, block = self._rng, self._flags["block_size"]
        length = rng.randint(1, self._longest_prompt)
        if chance(rng, 0.6):
            length = max(1, length // 3)
        if chance(rng, 0.15):
            length = max(1, length // block * block)
        if "prefix" not in self._features or chance(rng, 0.25) or length == 1:
            return [[f"u{request_id}", length]]
        if self._rows and chance(rng, 0.3):
            return self._next_turn(request_id, length)
        shared = rng.randint(1, length)
        shared = shared if chance(rng, 0.5) else max(1, shared // block * block)
        head = [f"g{rng.randrange(GROUPS)}", shared]
        return [head, [f"u{request_id}", length - shared]] if length > shared else [head]

    def _next_turn(self, request_id: str, length: int) -> list[list[Any]]:
        """An earlier prompt, some of its answer, and a new question; cut to fit."""
        rng = self._rng
        earlier = rng.choice(self._rows)
        most = earlier.get("eos_after", earlier["max_tokens"] + 1) - 1  # the end is no plain token
        answer = rng.randint(min(1, most), most)
        turn = [*earlier["prompt"], [f"o:{earlier['id']}", answer], [f"u{request_id}", length]]
        return _cut(turn, self._longest_prompt)

    def _grammar(self) -> Row:
        rng = self._rng
        grammar: Row = {"delay": rng.randint(0, 6)}
        if chance(rng, 0.15):
            grammar["fail"] = True
        elif chance(rng, 0.2):
            grammar["reject_after"] = rng.randint(1, 6)
        return grammar

    def _remote_kv(self, prompt_length: int) -> Row:
        rng, block = self._rng, self._flags["block_size"]
        tokens = rng.randint(0, prompt_length)
        if chance(rng, 0.5):
            tokens = tokens // block * block
        if chance(rng, 0.2):
            tokens = prompt_length
        remote: Row = {"tokens": tokens, "delay": rng.randint(0, 5)}
        if chance(rng, 0.35):
            remote["async"] = False
        if chance(rng, 0.15):
            remote["unknown_until"] = rng.randint(1, 12)
        if chance(rng, 0.2):
            remote["once"] = True
        if chance(rng, 0.25):
            remote["send_delay"] = rng.randint(1, 6)
        return remote

    def _encoder_inputs(self, prompt_length: int) -> list[Row]:
        rng, offset = self._rng, 0
        inputs: list[Row] = []
        lengths = [4, 8, 16, 24, 32]
        if "large_items" in self._features:
            lengths += [60, 110, 220]
        for _ in range(rng.randint(1, 4)):
            offset += rng.randint(0, 20)
            length = rng.choice(lengths)
            if offset + length > prompt_length:
                break
            name = f"i{rng.randrange(4)}"
            # One hash for several lengths is an error, and not defined before it was one.
            if not self._behaviour.encoder_mismatch or not chance(rng, 0.1):
                name += f"-{length}"
            elif inputs:
                name = inputs[-1]["hash"]
            inputs.append({"offset": offset, "length": length, "hash": name})
            offset += length
        return inputs

    def _session(self, request_id: str) -> list[Row]:
        """A first input, some more, and mostly the end of the session.

        Its tokens stay below max_model_len, unless what ends the engine may be: the first releases
        fail on a session that reaches it with passes in flight.
        """
        rng, turns = self._rng, self._rng.randint(1, 4)
        first = self._request(request_id) | {"resumable": True}
        first["max_tokens"] = min(first["max_tokens"], 8)
        for name in ("min_tokens", "eos_after"):
            if name in first:
                first[name] = min(first[name], first["max_tokens"])
        left = self._flags["max_model_len"] - 8 - turns * (first["max_tokens"] + 1)
        if not (self._free and chance(rng, 0.3)):
            first["prompt"] = _cut(first["prompt"], max(1, left // turns))
        if "mm" in first:
            first["mm"] = self._encoder_inputs(_length(first["prompt"]))
        rows, arrival = [first], self._clock
        for turn in range(1, turns):
            arrival += rng.randint(1, 12)
            prompt = [[f"{request_id}t{turn}", rng.randint(1, max(1, left // turns))]]
            follow: Row = {"arrival": arrival, "prompt": prompt, "max_tokens": self._of_turn(first)}
            if "encoder" in self._features and chance(rng, 0.5):
                follow["mm"] = self._encoder_inputs(_length(prompt))
            if "stop" in self._features and chance(rng, 0.5):
                follow["eos_after"] = rng.randint(1, follow["max_tokens"])
            rows.append({"id": request_id, "resumable": True} | follow)
        if chance(rng, 0.1):  # it is never closed
            return rows
        end = {"arrival": arrival + rng.randint(1, 20), "prompt": [[f"{request_id}end", 1]]}
        return [*rows, {"id": request_id, "resumable": False, "max_tokens": 1} | end]

    def _of_turn(self, first: Row) -> int:
        """The max_tokens of a session's next input, where that counts."""
        most: int = first["max_tokens"]
        return self._rng.randint(1, most) if self._behaviour.streaming_max_tokens else most


def _length(prompt: list[list[Any]]) -> int:
    return sum(length for _, length in prompt)


def _cut(prompt: list[list[Any]], longest: int) -> list[list[Any]]:
    """The first `longest` tokens of a prompt."""
    kept, left = [], longest
    for key, length in prompt:
        if left:
            kept.append([key, min(length, left)])
            left -= kept[-1][1]
    return kept
