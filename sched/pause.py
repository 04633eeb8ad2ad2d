"""How far the engine is held up from outside."""

from enum import Enum


class PauseState(Enum):
    """PAUSED_NEW admits nobody new; PAUSED_ALL schedules nothing at all."""

    UNPAUSED = 0
    PAUSED_NEW = 1
    PAUSED_ALL = 2
