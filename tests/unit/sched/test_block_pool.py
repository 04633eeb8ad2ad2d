"""The pool of stretches does what vLLM's does block by block: one list, a hash for each block."""

from __future__ import annotations

from collections import OrderedDict
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from schedbench.sched.kv_cache.block_pool import BlockPool
from schedbench.sched.kv_cache.block_table import PLACE_BITS, BlockTable

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


KEYS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=4)
"""Stretches of names, from place 0 on: of a few keys, so that prefixes are shared."""

STEPS = st.sampled_from(["admit", "grow", "grow", "free", "free", "void", "reset"])


class Beside:
    """Both, told the same."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], num_blocks: int) -> None:
        self.draw = draw
        self.pool, self.rules = BlockPool(num_blocks), ByBlock(num_blocks)
        self.tables: list[tuple[BlockTable, list[int]]] = []  # with the names of their blocks

    def admit(self) -> None:
        pool, rules = self.pool, self.rules
        stretches = [
            range(key << PLACE_BITS, (key << PLACE_BITS) + length)
            for key, length in self.draw(KEYS)
        ]
        names = [name for stretch in stretches for name in stretch]
        hit = pool.cached_prefix(stretches)
        assert hit.ids == rules.prefix(names)
        if hit and self.draw(st.booleans()):
            hit.drop_last()
        if len(set(hit.ids)) < len(hit):
            return  # a prompt that would hold a block twice
        assert pool.num_free_among(hit) == sum(each in rules.free for each in hit.ids)
        rules.hold(hit.ids)
        self.tables.append((BlockTable([]), names))
        pool.borrow(self.tables[-1][0], hit)

    def grow(self) -> None:
        pool, rules = self.pool, self.rules
        table, names = self.draw(st.sampled_from(self.tables))
        count = self.draw(st.integers(0, min(4, len(rules.free))))
        taken = pool.get_new_blocks(count)
        assert taken == rules.take(count)
        table.ids += taken
        first = table.num_hashed
        full = self.draw(st.integers(first, max(first, min(len(table.ids), len(names)))))
        pool.cache(table, in_stretches(names[first:full]))
        for block_id, name in zip(table.ids[first:full], names[first:full], strict=True):
            rules.cache(block_id, name)

    def free(self) -> None:
        table, _ = self.tables.pop(self.draw(st.integers(0, len(self.tables) - 1)))
        self.rules.give_back(table.ids)
        before = self.pool.num_free
        assert self.pool.free(table) == len(self.rules.free) - before

    def void(self) -> None:
        table, _ = self.draw(st.sampled_from(self.tables))
        first = self.draw(st.integers(0, table.num_hashed))
        self.pool.forget(table, first)
        for block_id in table.ids[first : table.num_hashed]:
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


def in_stretches(names: list[int]) -> list[range]:
    """Names that follow on each other together."""
    groups = groupby(enumerate(names), lambda each: each[1] - each[0])
    together = [[name for _, name in group] for _, group in groups]
    return [range(each[0], each[-1] + 1) for each in together]
