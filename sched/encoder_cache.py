"""Encoder outputs of multi-modal items: a compute budget a pass, and a cache with sharing.

Sizes are embeddings. An entry that no request refers to stays until room is needed and can be
taken over by another request; the oldest such entry goes first. Room is made while asking for it,
so entries evicted for an admission that fails later are gone all the same: vLLM does so.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.sched.behaviours import Behaviours
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import EncoderInput, Request
    from schedbench.sched.scheduler import Scheduler


@dataclass(slots=True)
class EncoderGrant:
    """Items to encode, and how many tokens and embeddings that leaves."""

    num_new_tokens: int
    budget_left: int
    inputs: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)  # items that repeat one of the inputs
    chosen: dict[str, int] = field(default_factory=dict)  # embeddings of the inputs, by name
    is_mismatch: bool = False  # an item is of another size than the entry of its name
    is_short: bool = False  # budget or cache had no room for an item


class EncoderCache:
    """References by request and item; `freed` lists what was evicted since it was last taken."""

    def __init__(self, size: int, behaviour: Behaviours) -> None:
        self.behaviour = behaviour
        self.num_free = size  # neither cached nor asked for
        self.num_freeable = size  # the same, and entries nobody refers to
        self._users: dict[str, set[str]] = {}  # identifier -> request ids
        self._sizes: dict[str, int] = {}  # identifier -> embeddings
        self._items: dict[str, set[int]] = {}  # request id -> indices of its cached items
        self._freeable: OrderedDict[str, int] = OrderedDict()  # oldest first
        self.freed: list[str] = []

    def what_if(self) -> EncoderCache:
        """Return a copy that can be spent without touching this one."""
        return copy.deepcopy(self)

    def refer_if_cached(self, request: Request, index: int) -> bool:
        identifier = request.encoder_inputs[index].identifier
        users = self._users.get(identifier)
        if users is None:
            return False
        if not users:
            self.num_freeable -= self._freeable.pop(identifier)
        users.add(request.request_id)
        self._items.setdefault(request.request_id, set()).add(index)
        return True

    def make_room(self, num_embeds: int) -> bool:
        """Whether so many embeddings fit; evicts unreferenced entries to that end."""
        if num_embeds <= self.num_free:
            return True
        if num_embeds > self.num_freeable:
            return False
        while num_embeds > self.num_free:
            identifier, size = self._freeable.popitem(last=False)
            del self._users[identifier], self._sizes[identifier]
            self.freed.append(identifier)
            self.num_free += size
        return True

    def is_mismatch(self, item: EncoderInput, grant: EncoderGrant) -> bool:
        """Whether an entry or a chosen item of the same name has another size."""
        known = grant.chosen.get(item.identifier, self._sizes.get(item.identifier))
        has_other_size = known is not None and known != item.num_embeds
        return has_other_size and self.behaviour.encoder_mismatch

    def allocate(self, request: Request, grant: EncoderGrant) -> None:
        """Take the room that `make_room` made."""
        for index in grant.inputs:
            item = request.encoder_inputs[index]
            self._users.setdefault(item.identifier, set()).add(request.request_id)
            self._sizes.setdefault(item.identifier, item.num_embeds)
            self._items.setdefault(request.request_id, set()).add(index)
            self.num_free -= item.num_embeds
            self.num_freeable -= item.num_embeds
        if self.behaviour.encoder_duplicate:
            for index in grant.duplicates:
                self.refer_if_cached(request, index)

    def is_used_by(self, request: Request) -> bool:
        return request.request_id in self._items

    def free_computed(self, request: Request, shift: int) -> None:
        """Drop references to items whose tokens are in the KV cache for good."""
        done = request.num_computed_tokens - request.num_output_placeholders
        if self.behaviour.encoder_shift:
            shift = 0  # the drafter looks ahead of what is computed, so not back into an item
        for index in list(self._items.get(request.request_id, ())):
            item = request.encoder_inputs[index]
            if item.offset + item.num_tokens + shift <= done:
                self._free_one(request, index)

    def free(self, request: Request) -> None:
        """Drop all references of a request that was evicted or has finished."""
        for index in list(self._items.get(request.request_id, ())):
            self._free_one(request, index)

    def take_freed(self) -> list[str]:
        taken, self.freed = self.freed, []
        if self.behaviour.encoder_freed:
            return [identifier for identifier in taken if identifier not in self._users]
        return taken

    def _free_one(self, request: Request, index: int) -> None:
        items = self._items[request.request_id]
        items.discard(index)
        if not items:
            del self._items[request.request_id]
        item = request.encoder_inputs[index]
        users = self._users.get(item.identifier)
        if not users:
            return
        others = (request.encoder_inputs[each].identifier for each in items)
        if self.behaviour.encoder_repeat and item.identifier in others:
            return
        users.discard(request.request_id)
        if not users:
            self._freeable[item.identifier] = item.num_embeds
            self.num_freeable += item.num_embeds


class Chunk(NamedTuple):
    """The tokens asked about: `num_new_tokens` after `num_computed_tokens`."""

    num_computed_tokens: int
    num_new_tokens: int
    shift: int  # how much further the drafter looks
    may_split: bool  # whether an item may be computed in parts

    @property
    def end(self) -> int:
        return self.num_computed_tokens + self.num_new_tokens

    @property
    def window_end(self) -> int:
        return self.end + self.shift


def fit_inputs(
    cache: EncoderCache,
    request: Request,
    chunk: tuple[int, int],
    budget: int,
    config: SchedulerConfig,
) -> EncoderGrant:
    """Find the items a chunk (computed, new tokens) needs encoded; cut it before one that cannot.

    With a drafter that reads ahead the chunk is taken to reach as much further.
    """
    asked = Chunk(*chunk, config.encoder_shift, not config.disable_chunked_mm_input)
    grant = EncoderGrant(asked.num_new_tokens, budget)
    for index in reached(request.encoder_inputs, asked):
        cut = look_at(cache, request, index, asked, grant)
        if cut is not None:
            grant.num_new_tokens = cut
            break
    if grant.is_mismatch:
        return EncoderGrant(0, budget, is_mismatch=True)
    return grant


def reached(items: Sequence[EncoderInput], chunk: Chunk) -> range:
    """The indices of the items that the chunk reaches into, found by bisection as vLLM does.

    Those of a session may be out of order, where it went on with less than it knew.
    """
    first = bisect_left(items, chunk.num_computed_tokens + 1, key=lambda item: item.end)
    return range(first, bisect_left(items, chunk.window_end, key=lambda item: item.offset))


def look_at(
    cache: EncoderCache, request: Request, index: int, chunk: Chunk, grant: EncoderGrant
) -> int | None:
    """Add an item to the grant if it has to be encoded; the tokens left if it cannot be."""
    item, behaviour = request.encoder_inputs[index], cache.behaviour
    before = max(0, item.offset - chunk.num_computed_tokens - chunk.shift)
    splits = not chunk.may_split and is_split(item, chunk, behaviour)
    if splits and behaviour.encoder_cut_early:
        return before
    if cache.is_mismatch(item, grant):
        grant.is_mismatch = True
        return 0
    if item.identifier in grant.chosen:
        grant.duplicates.append(index)
        return None
    if cache.refer_if_cached(request, index):
        return None
    if splits:
        return before
    asked = sum(grant.chosen.values())
    if item.num_embeds > grant.budget_left or not cache.make_room(item.num_embeds + asked):
        grant.is_short = True
        return unfit_cut(item, chunk, behaviour)
    if has_embeds_in(item, chunk, behaviour):
        grant.budget_left -= item.num_embeds
        grant.chosen[item.identifier] = item.num_embeds
        grant.inputs.append(index)
    return None


def unfit_cut(item: EncoderInput, chunk: Chunk, behaviour: Behaviours) -> int:
    """Tokens before an item that does not fit, as far as the drafter may look."""
    shift = 0 if behaviour.encoder_shift else chunk.shift
    left = max(0, item.offset - chunk.num_computed_tokens - shift)
    return min(left, chunk.num_new_tokens) if behaviour.encoder_shift else left


def is_split(item: EncoderInput, chunk: Chunk, behaviour: Behaviours) -> bool:
    """Whether the chunk begins before an item, or at it, and ends inside."""
    first = chunk.num_computed_tokens
    begins = first <= item.offset if behaviour.encoder_cut else first < item.offset
    return begins and chunk.end < item.offset + item.num_tokens


def has_embeds_in(item: EncoderInput, chunk: Chunk, behaviour: Behaviours) -> bool:
    """Whether the chunk reaches into the item, by itself or by what the drafter looks at."""
    end = chunk.window_end if behaviour.encoder_window else chunk.end
    first = max(0, chunk.num_computed_tokens - item.offset)
    return min(item.num_tokens, end - item.offset) != first


def unfit(scheduler: Scheduler, request: Request, grant: EncoderGrant) -> Verdict:
    """Say that the items leave no token; a mismatch ends the request with an error."""
    if grant.is_mismatch:
        scheduler.request_errors.add(request.request_id)
    return Verdict.ENCODER_UNFIT
