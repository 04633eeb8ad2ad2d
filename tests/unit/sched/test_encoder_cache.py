"""When the encoder cache lets go of an item, and what it keeps for the next request."""

from __future__ import annotations

import pytest
from stepping import a_request

from schedbench.sched.behaviours import RELEASES
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.encoder_cache import EncoderCache, EncoderGrant
from schedbench.sched.request import EncoderInput

ITEM = EncoderInput(3, 4, 4, "image")  # tokens 3 to 6


def _holds_until(release: str, shift: int, placeholders: int) -> int:
    """The most computed tokens with which the item is still referred to."""
    for computed in range(40):
        cache = EncoderCache(10, SchedulerConfig(vllm_version=release).behaviour)
        request = a_request("a", 30, 9, encoder_inputs=(ITEM,))
        cache.allocate(request, EncoderGrant(1, 10, inputs=[0]))
        request.num_computed_tokens = computed
        request.num_output_placeholders = placeholders
        cache.free_computed(request, shift)
        if not cache.is_used_by(request):
            return computed - 1
    raise AssertionError("it is never let go of")


@pytest.mark.parametrize("placeholders", [0, 2])
@pytest.mark.parametrize("shift", [0, 1, 5])
@pytest.mark.parametrize("release", sorted(RELEASES))
def test_an_item_is_held_until_its_last_token_is_computed_and_the_drafter_is_past_it(
    release: str, shift: int, placeholders: int
) -> None:
    behind = 0 if SchedulerConfig(vllm_version=release).behaviour.encoder_shift else shift
    assert _holds_until(release, shift, placeholders) == 6 + behind + placeholders


def test_room_is_made_of_the_oldest_items_that_no_request_refers_to() -> None:
    cache = EncoderCache(10, SchedulerConfig().behaviour)
    items = tuple(EncoderInput(4 * at, 4, size, name) for at, (size, name) in enumerate(
        [(4, "a"), (3, "b"), (3, "c")]
    ))  # fmt: skip
    first, second = (a_request(name, 30, 9, encoder_inputs=items) for name in "xy")
    cache.allocate(first, EncoderGrant(1, 10, inputs=[0, 1, 2]))
    assert not cache.make_room(1)
    cache.free(first)
    assert (cache.num_free, cache.num_freeable) == (0, 10)
    assert cache.refer_if_cached(second, 1)
    assert (cache.num_free, cache.num_freeable) == (0, 7)
    assert not cache.make_room(8)
    assert cache.make_room(5)
    assert cache.take_freed() == ["a", "c"]
    assert cache.take_freed() == []
    assert not cache.refer_if_cached(second, 0)
    assert cache.num_free == 7
