"""Names of blocks against the tokens that they stand for, which a trace does not have."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from schedbench.sched.prefix_identity import BlockNames, PrefixNames

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = [(4, 8), (8, 8), (16, 8), (1, 4), (8, 2)]  # of a block, of a hash block


class Turn(NamedTuple):
    """A request: its tokens, how many are its prompt's, and its names."""

    tokens: tuple[int, ...]
    prompt: int
    names: BlockNames


class Tree:
    """Ids by content, as whoever recorded the trace had them: one for each distinct prefix."""

    def __init__(self, block: int, hash_block: int, lookahead: int) -> None:
        self.block, self.hash_block, self.lookahead = block, hash_block, lookahead
        self.names = PrefixNames(block, hash_block, lookahead)
        self._ids: dict[tuple[int, ...], int] = {}

    def _ids_of(self, tokens: tuple[int, ...], first: int, last: int) -> list[int]:
        """Ids of hash blocks from `first` on that begin before token `last`."""
        ends = range((first + 1) * self.hash_block, last + self.hash_block, self.hash_block)
        return [self._ids.setdefault(tokens[: min(end, last)], len(self._ids)) for end in ends]

    def request(self, tokens: tuple[int, ...], prompt: int, *, output: bool) -> Turn:
        whole = prompt // self.hash_block
        known = len(tokens) // self.hash_block * self.hash_block  # of the output, whole ones only
        after = self._ids_of(tokens, whole, known) if output and known > prompt else []
        ids = self._ids_of(tokens, 0, prompt)
        return Turn(tokens, prompt, self.names.shared(prompt, ids, after))

    def num_named(self, num_tokens: int) -> int:
        """Blocks whose names cover no more than so many tokens."""
        return max(num_tokens - self.lookahead, 0) // self.block

    def content(self, turn: Turn, index: int) -> tuple[int, ...]:
        return turn.tokens[: (index + 1) * self.block + self.lookahead]


def _tokens(rng: Random) -> tuple[int, ...]:
    """A path in a narrow tree, so that many begin alike."""
    return tuple(int(rng.random() < 0.06) for _ in range(rng.randint(1, 40)))


@pytest.fixture(params=[(*sizes, ahead) for sizes in SIZES for ahead in (0, 1, 2, 3)])
def tree(request: pytest.FixtureRequest) -> Tree:
    return Tree(*request.param)


def _drawn(tree: Tree, *, output: Callable[[Random], bool]) -> list[Turn]:
    rng = Random(1)  # noqa: S311
    made = []
    for _ in range(60):
        tokens = _tokens(rng)
        made.append(tree.request(tokens, rng.randint(1, len(tokens)), output=output(rng)))
    return made


def test_blocks_of_one_name_have_the_same_tokens(tree: Tree) -> None:
    content: dict[int, tuple[int, ...]] = {}
    for turn in _drawn(tree, output=lambda rng: rng.random() < 0.5):
        for index in range(len(turn.tokens) // tree.block):
            name = turn.names.block_hash(index)
            assert content.setdefault(name, tree.content(turn, index)) == tree.content(turn, index)


def test_requests_under_one_id_share_the_names_of_all_blocks_that_it_covers(tree: Tree) -> None:
    rng = Random(2)  # noqa: S311
    for turn in _drawn(tree, output=lambda _: False):
        longer = turn.tokens[: turn.prompt] + _tokens(rng)
        again = tree.request(longer, turn.prompt, output=False)
        whole = turn.prompt // tree.hash_block * tree.hash_block
        further = tree.request(longer, len(longer), output=False)
        for other, covered in ((again, turn.prompt), (further, whole)):
            shared = tree.num_named(covered)
            assert _names(turn, shared) == _names(other, shared)


def test_a_next_turn_finds_all_that_the_one_before_has_computed(tree: Tree) -> None:
    rng = Random(3)  # noqa: S311
    for _ in range(100):
        talk = Tree(tree.block, tree.hash_block, tree.lookahead)
        tokens = _tokens(rng)
        turn = talk.request(tokens, rng.randint(1, len(tokens)), output=True)
        known = len(tokens) // talk.hash_block * talk.hash_block
        following = tokens + _tokens(rng)
        after = talk.request(following, len(following), output=False)
        assert _names(turn, talk.num_named(known)) == _names(after, talk.num_named(known))


def test_the_tail_of_a_prompt_has_one_name_alone_and_under_the_output_that_completes_it(
    tree: Tree,
) -> None:
    rng = Random(4)  # noqa: S311
    for _ in range(100):
        talk, tokens = Tree(tree.block, tree.hash_block, tree.lookahead), _tokens(rng)
        prompt = rng.randint(1, len(tokens))
        first, second = rng.sample([True, False], 2)
        turn = talk.request(tokens, prompt, output=first)
        alone = talk.request(tokens, prompt, output=second)
        shared = talk.num_named(prompt)
        assert _names(turn, shared) == _names(alone, shared)


def test_namespaces_share_no_name_under_equal_ids(tree: Tree) -> None:
    names = [tree.names.shared(32, list(range(40)), namespace=which) for which in (None, 1, 2)]
    found = [{each.block_hash(index) for index in range(tree.num_named(32))} for each in names]
    assert not set.intersection(*found)
    assert all(first.isdisjoint(second) for first, second in pairwise(found))


def test_names_by_the_stretch_are_the_names_one_by_one(tree: Tree) -> None:
    for turn in _drawn(tree, output=lambda rng: rng.random() < 0.5):
        count = len(turn.tokens) // tree.block + 2
        single = [turn.names.block_hash(index) for index in range(count)]
        assert len(set(single)) == count
        for first in range(count):
            found = [name for each in turn.names.stretches(first, count) for name in each]
            assert found == single[first:]


def _names(turn: Turn, count: int) -> list[int]:
    return [turn.names.block_hash(index) for index in range(count)]
