"""The free queue hands out blocks as vLLM's one linked list does."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.sched.kv_cache import free_queue
from schedbench.sched.kv_cache.free_queue import FreeBlockQueue


@pytest.mark.parametrize("few", [0, 2, 1024])
@given(st.data(), st.integers(3, 40))
def test_it_is_a_stack_before_a_list_that_hits_take_from(
    few: int, data: st.DataObject, num_blocks: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(free_queue, "FEW_GONE", few)
        queue = FreeBlockQueue(range(1, num_blocks))
        front, back = list(range(1, num_blocks))[::-1], OrderedDict[int, None]()
        held: list[int] = []
        for _ in range(40):
            match data.draw(st.sampled_from(["take", "hit", "tail", "head", "forget"])):
                case "take":
                    count = data.draw(st.integers(0, len(front) + len(back)))
                    taken = queue.popleft_n(count)
                    assert taken == [
                        front.pop() if front else back.popitem(last=False)[0] for _ in range(count)
                    ]
                    held += taken
                case "hit" if back:
                    block_id = data.draw(st.sampled_from(list(back)))
                    queue.remove(block_id)
                    del back[block_id]
                    held.append(block_id)
                case "tail":
                    given_back, held = held, []
                    queue.append_n(given_back)
                    back.update(dict.fromkeys(given_back))
                case "head":
                    given_back, held = held, []
                    queue.prepend_n(given_back)
                    front += reversed(given_back)
                case "forget":
                    queue.hashes_are_gone()
                    front, back = [*reversed(back), *front], OrderedDict()
            assert list(queue) == [*reversed(front), *back]
            assert len(queue) == len(front) + len(back)
            assert queue.num_in_front == len(front)
