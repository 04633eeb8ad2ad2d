"""Ctrl-C between two steps, and not in the middle of one, so that no row is lost."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class HeldBack:
    """Whether an interrupt has come meanwhile."""

    came = False

    def let_through(self) -> None:
        """Raise the KeyboardInterrupt that was held back, if there is one."""
        if self.came:
            self.came = False
            raise KeyboardInterrupt

    def note(self, *_: object) -> None:
        """Handle a SIGINT."""
        if self.came:  # whoever insists is not kept waiting
            raise KeyboardInterrupt
        self.came = True


@contextmanager
def interrupts_held_back() -> Iterator[HeldBack]:
    """Keep interrupts until they are asked for, or to the end.

    In another thread than the main one, or where somebody else handles them, nothing is held back.
    """
    held = HeldBack()
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield held
        return
    signal.signal(signal.SIGINT, held.note)
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    held.let_through()
