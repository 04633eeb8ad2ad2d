"""The pool of stretches does what vLLM's does block by block: one list, a hash for each block."""

from __future__ import annotations

import copy
import gc
from collections import OrderedDict
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from schedbench.sched.kv_cache.block_pool import BlockPool
from schedbench.sched.kv_cache.block_table import PLACE_BITS, BlockTable
from schedbench.sched.kv_cache.what_if import WhatIfPool

if TYPE_CHECKING:
    from collections.abc import Callable


class ByBlock:
    """The rules, said of each block."""

    def __init__(self, num_blocks: int) -> None:
        self.free = OrderedDict.fromkeys(range(1, num_blocks))
        self.carriers: dict[int, OrderedDict[int, None]] = {}
        self.name_of: dict[int, int] = {}
        self.references = dict.fromkeys(range(1, num_blocks), 0)

    def prefix(self, names: list[int]) -> list[int]:
        return [next(iter(self.carriers[each])) for each in takewhile(self.carriers.get, names)]

    def hold(self, block_ids: list[int]) -> None:
        for block_id in block_ids:
            self.free.pop(block_id, None)
            self.references[block_id] += 1

    def take(self, count: int) -> list[int]:
        taken = list(self.free)[:count]
        self.hold(taken)
        for block_id in taken:
            self.forget(block_id)
        return taken

    def cache(self, block_id: int, name: int) -> None:
        self.name_of[block_id] = name
        self.carriers.setdefault(name, OrderedDict())[block_id] = None

    def forget(self, block_id: int) -> None:
        name = self.name_of.pop(block_id, None)
        if name is not None:
            del self.carriers[name][block_id]

    def give_back(self, block_ids: list[int]) -> None:
        for block_id in block_ids:
            self.references[block_id] -= 1
        freed = [each for each in dict.fromkeys(block_ids) if not self.references[each]]
        hashed = [each for each in reversed(freed) if each in self.name_of]
        bare = [each for each in reversed(freed) if each not in self.name_of]
        self.free = OrderedDict.fromkeys([*bare, *self.free, *hashed])


KEYS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 0, 1, 3]), st.integers(1, 4)), max_size=4
)
"""Key, first place and length of stretches: of a few keys, so that prefixes are shared."""

STEPS = st.sampled_from(["admit", "admit", "grow", "grow", "grow", "free", "free", "void", "reset"])


class Beside:
    """Both, told the same."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], num_blocks: int) -> None:
        self.draw = draw
        self.pool, self.rules = BlockPool(num_blocks), ByBlock(num_blocks)
        self.tables: list[tuple[BlockTable, list[int]]] = []  # with the names of their blocks

    def admit(self) -> None:
        pool, rules = self.pool, self.rules
        names = names_of(self.draw(KEYS))
        for name in names:
            carriers = [table.ids[index] for table, index, _ in pool.carriers(name)]
            assert carriers == list(rules.carriers.get(name, ()))
        for _ in range(self.draw(st.sampled_from([1, 1, 3]))):  # alike, before any is cached
            hit = pool.cached_prefix(self.pieces(names))
            assert hit.ids == rules.prefix(names)
            if hit and self.draw(st.booleans()):
                hit.drop_last()
            assert pool.num_free_among(hit) == sum(each in rules.free for each in hit.ids)
            rules.hold(hit.ids)
            self.tables.append((BlockTable([]), names))
            pool.borrow(self.tables[-1][0], hit)

    def pieces(self, names: list[int]) -> list[range]:
        """Names that follow on each other together, some of them cut once more."""
        pieces = []
        for together in in_stretches(names):
            cut = self.draw(st.integers(0, len(together)))
            pieces += [piece for piece in (together[:cut], together[cut:]) if piece]
        return pieces

    def grow(self) -> None:
        pool, rules = self.pool, self.rules
        table, names = self.draw(st.sampled_from(self.tables))
        count = self.draw(st.integers(0, min(4, len(rules.free))))
        taken = pool.get_new_blocks(count)
        assert taken == rules.take(count)
        table.ids += taken
        first = table.num_named
        full = self.draw(st.integers(first, max(first, min(len(table.ids), len(names)))))
        pool.cache(table, self.pieces(names[first:full]))
        for block_id, name in zip(table.ids[first:full], names[first:full], strict=True):
            rules.cache(block_id, name)

    def free(self) -> None:
        table, _ = self.tables.pop(self.draw(st.integers(0, len(self.tables) - 1)))
        self.rules.give_back(table.ids)
        before = self.pool.num_free
        assert self.pool.free(table) == len(self.rules.free) - before

    def void(self) -> None:
        table, _ = self.draw(st.sampled_from(self.tables))
        first = self.draw(st.integers(0, table.num_named))
        self.pool.forget(table, first)
        for block_id in table.ids[first : table.num_named]:
            self.rules.forget(block_id)

    def reset(self) -> None:
        if self.pool.reset_prefix_cache():
            self.rules.carriers.clear()
            self.rules.name_of.clear()

    def are_equal(self) -> None:
        pool, rules = self.pool, self.rules
        assert list(pool.free_queue) == list(rules.free)
        assert pool.num_free == len(pool.free_queue) == len(rules.free)
        assert pool.num_cached == len(rules.name_of)
        assert pool.num_bare == sum(each not in rules.name_of for each in rules.free)


@given(st.data(), st.integers(3, 30))
def test_it_answers_as_a_pool_of_single_blocks_does(data: st.DataObject, num_blocks: int) -> None:
    both = Beside(data.draw, num_blocks)
    for _ in range(30):
        step = data.draw(STEPS)
        if both.tables or step in {"admit", "reset"}:
            getattr(both, step)()
        both.are_equal()


def test_of_blocks_with_one_name_that_is_hit_which_got_it_first() -> None:
    pool = BlockPool(4)
    tables = [BlockTable(pool.get_new_blocks(1)) for _ in range(3)]
    for table in tables:
        pool.cache(table, [range(5, 6)])
    for table in tables:
        assert pool.cached_prefix([range(5, 6)]).ids == table.ids
        pool.forget(table, 0)
    assert not pool.cached_prefix([range(5, 6)])


@given(st.data(), st.integers(3, 30))
def test_a_dry_run_answers_as_the_pool_would_and_touches_nothing(
    data: st.DataObject, num_blocks: int
) -> None:
    both = Beside(data.draw, num_blocks)
    for _ in range(12):
        step = data.draw(STEPS)
        if both.tables or step in {"admit", "reset"}:
            getattr(both, step)()
    held = [table for table, _ in both.tables]
    pool, tables = copy.deepcopy((both.pool, held))
    dry = WhatIfPool(both.pool)
    pairs = list(zip(tables, [each.what_if(each.ids.copy()) for each in held], strict=True))
    for _ in range(8):
        assert pool.num_free == dry.num_free
        if pairs and data.draw(st.booleans()):
            real, copied = pairs.pop(data.draw(st.integers(0, len(pairs) - 1)))
            assert pool.free(real) == dry.free(copied)
            continue
        names = names_of(data.draw(KEYS))
        stretches = in_stretches(names)
        hits = pool.cached_prefix(stretches), dry.cached_prefix(stretches)
        assert hits[0].ids == hits[1].ids
        assert pool.num_free_among(hits[0]) == dry.num_free_among(hits[1])
        own = BlockTable([]), BlockTable([])
        pool.borrow(own[0], hits[0])
        dry.borrow(own[1], hits[1])
        count = data.draw(st.integers(0, pool.num_free))
        own[0].ids += (taken := pool.get_new_blocks(count))
        own[1].ids += dry.get_new_blocks(count)
        assert own[0].ids == own[1].ids
        named = in_stretches(names[len(hits[0]) : len(hits[0]) + len(taken)])
        pool.cache(own[0], named)
        dry.cache(own[1], named)
        pairs.append(own)
    both.are_equal()


def test_what_is_evicted_is_let_go_of_without_a_search_for_cycles() -> None:
    gc.collect()
    pool, before = BlockPool(9), num_tables()
    gc.disable()
    try:
        for key in range(20):
            table = BlockTable(pool.get_new_blocks(4))
            pool.cache(table, [range(key << PLACE_BITS, (key << PLACE_BITS) + 3)])
            pool.free(table)
        assert num_tables() - before == 3  # whose blocks are cached: 7 of the 8
    finally:
        gc.enable()


def num_tables() -> int:
    return sum(type(each) is BlockTable for each in gc.get_objects())


def names_of(stretches: list[tuple[int, int, int]]) -> list[int]:
    """Of all of them, each once."""
    begins = [(key << PLACE_BITS | place, length) for key, place, length in stretches]
    return [*dict.fromkeys(name + i for name, length in begins for i in range(length))]


def in_stretches(names: list[int]) -> list[range]:
    """Names that follow on each other together."""
    groups = groupby(enumerate(names), lambda each: each[1] - each[0])
    together = [[name for _, name in group] for _, group in groups]
    return [range(each[0], each[-1] + 1) for each in together]
