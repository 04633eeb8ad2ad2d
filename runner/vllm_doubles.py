"""What vLLM's scheduler talks to besides the engine: a KV connector, a grammar, token ids.

The classes here import nothing of vLLM. Where it checks the type, the backend derives the
class in use from one of these and vLLM's own base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.runner.golden_backend import StoreClient


class TokenIds:
    """Token j of segment `key` as an integer; different keys share none."""

    SEGMENT_TOKENS = 1 << 24

    def __init__(self) -> None:
        self._bases: dict[str, int] = {}

    def _range(self, key: str, first: int, count: int) -> range:
        base = self._bases.setdefault(key, len(self._bases) * self.SEGMENT_TOKENS) + first
        return range(base, base + count)

    def prompt(self, segments: Sequence[tuple[str, int]]) -> list[int]:
        return [token for key, length in segments for token in self._range(key, 0, length)]

    def output(self, request_id: str, first: int, count: int) -> list[int]:
        return list(self._range(f"o:{request_id}", first, count))


class StoreConnector:
    """Scheduler side of a KV connector: asks the scenario's store."""

    store: StoreClient
    drops_preempted_output: bool | None = None  # None: as the role implies

    @property
    def requires_kv_delivery(self) -> bool:
        if self.drops_preempted_output is None:
            return bool(super().requires_kv_delivery)  # type: ignore[misc]
        return self.drops_preempted_output

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        return self.store.matched_tokens(
            request.request_id, request.num_tokens, num_computed_tokens
        )

    def update_state_after_alloc(
        self, request: Any, _blocks: Any, num_external_tokens: int
    ) -> None:
        if num_external_tokens:
            self.store.load_started(request.request_id)

    def request_finished(self, request: Any, _block_ids: Any) -> tuple[bool, None]:
        return self.store.request_finished(request.request_id), None

    def has_pending_block_frees(self) -> bool:
        return self.store.has_pending_block_frees

    def build_connector_meta(self, _scheduler_output: Any) -> None:
        """Nothing to tell the workers: there are none."""

    def start_load_kv(self, *_: Any, **__: Any) -> None: ...
    def wait_for_layer_load(self, *_: Any) -> None: ...
    def save_kv_layer(self, *_: Any, **__: Any) -> None: ...
    def wait_for_save(self) -> None: ...


class CountingGrammar:
    """Accepts every draft, and `reject_after` tokens of output (None: all)."""

    def __init__(self, reject_after: int | None) -> None:
        self._left = reject_after

    def accept_tokens(self, _request_id: str, tokens: list[int]) -> bool:
        if self._left is None:
            return True
        self._left -= len(tokens)
        return self._left >= 0

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        return tokens

    def rollback(self, num_tokens: int) -> None: ...
    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None: ...
    def reset(self) -> None: ...
    def is_terminated(self) -> bool:
        return False
