"""Encoder outputs of multi-modal items: a compute budget a pass, and a cache with sharing.

Sizes are embeddings. An entry that no request refers to stays until room is needed and can be
taken over by another request; the oldest such entry goes first. Room is made while asking for it,
so entries evicted for an admission that fails later are gone all the same: vLLM 0.26.0 does so.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import EncoderInput, Request


@dataclass(slots=True)
class EncoderGrant:
    """Items to encode, and how many tokens and embeddings that leaves."""

    num_new_tokens: int
    budget_left: int
    inputs: list[int] = field(default_factory=list)


class EncoderCache:
    """References by request and item; `freed` lists what was evicted since it was last taken."""

    def __init__(self, size: int) -> None:
        self.num_free = size  # neither cached nor asked for
        self.num_freeable = size  # the same, and entries nobody refers to
        self._users: dict[str, set[str]] = {}  # identifier -> request ids
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
            del self._users[identifier]
            self.freed.append(identifier)
            self.num_free += size
        return True

    def allocate(self, request: Request, index: int) -> None:
        """Take the room that `make_room` made."""
        item = request.encoder_inputs[index]
        self._users.setdefault(item.identifier, set()).add(request.request_id)
        self._items.setdefault(request.request_id, set()).add(index)
        self.num_free -= item.num_embeds
        self.num_freeable -= item.num_embeds

    def free_computed(self, request: Request, shift: int) -> None:
        """Drop references to items whose tokens are in the KV cache for good."""
        done = request.num_computed_tokens - request.num_output_placeholders
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
        users.discard(request.request_id)
        if not users:
            self._freeable[item.identifier] = item.num_embeds
            self.num_freeable += item.num_embeds


def fit_inputs(
    cache: EncoderCache,
    request: Request,
    chunk: tuple[int, int],
    budget: int,
    config: SchedulerConfig,
) -> EncoderGrant:
    """Find the items a chunk (computed, new tokens) needs encoded; cut it before one that cannot.

    With a drafter that reads one token ahead the chunk is taken to reach one token further.
    """
    num_computed_tokens, num_new_tokens = chunk
    grant = EncoderGrant(num_new_tokens, budget)
    shift = config.encoder_shift
    asked = 0
    chosen: set[str] = set()
    window_end = num_computed_tokens + num_new_tokens + shift
    for index, item in enumerate(request.encoder_inputs):
        if item.offset + item.num_tokens <= num_computed_tokens:
            continue
        if item.offset >= window_end:
            break
        if item.identifier in chosen or cache.refer_if_cached(request, index):
            continue
        if config.disable_chunked_mm_input and _is_split(item, num_computed_tokens, grant):
            grant.num_new_tokens = max(0, item.offset - num_computed_tokens - shift)
            break
        if item.num_embeds > grant.budget_left or not cache.make_room(item.num_embeds + asked):
            grant.num_new_tokens = max(0, item.offset - num_computed_tokens - shift)
            break
        if not _has_embeds_in(item, num_computed_tokens, grant):
            continue
        asked += item.num_embeds
        grant.budget_left -= item.num_embeds
        chosen.add(item.identifier)
        grant.inputs.append(index)
    return grant


def _is_split(item: EncoderInput, num_computed_tokens: int, grant: EncoderGrant) -> bool:
    end = num_computed_tokens + grant.num_new_tokens
    return num_computed_tokens < item.offset and end < item.offset + item.num_tokens


def _has_embeds_in(item: EncoderInput, num_computed_tokens: int, grant: EncoderGrant) -> bool:
    """Whether the chunk reaches into the item itself, not only by the drafter's shift."""
    first = max(0, num_computed_tokens - item.offset)
    last = min(item.num_tokens, num_computed_tokens + grant.num_new_tokens - item.offset)
    return last != first
