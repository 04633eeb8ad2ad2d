"""What happens to random golden scenarios from outside: aborts, pauses, resets, failed loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedbench.runner.fuzz_flags import chance

if TYPE_CHECKING:
    import random
    from collections.abc import Collection

    from schedbench.sched.behaviours import Behaviours

Row = dict[str, Any]
PAUSES = ("PAUSED_NEW", "PAUSED_ALL")


def draw_events(
    rng: random.Random, behaviour: Behaviours, features: Collection[str], requests: list[Row]
) -> list[Row]:
    events: list[Row] = []
    if "abort" in features:
        ids = [request["id"] for request in requests]
        for _ in range(rng.randint(1, 6)):
            event = {"op": "abort", "pass": rng.randrange(1, 60), "ids": [rng.choice(ids)]}
            events.append(event | ({"when": "before_update"} if chance(rng, 0.4) else {}))
    if "pause" in features:
        events += _pauses(rng)
    if "reset" in features:
        events += _resets(rng, forced="forced_reset" in features)
    if "failed_loads" in features:
        events += _failed_loads(rng, behaviour, requests)
    return events


def _pauses(rng: random.Random) -> list[Row]:
    """One pause, or several, some of which begin before the last has ended."""
    events: list[Row] = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        start = rng.randrange(1, 30)
        events.append({"op": "pause", "pass": start, "state": rng.choice(PAUSES)})
        events.append({"op": "pause", "pass": start + rng.randint(1, 9), "state": "UNPAUSED"})
    latest = max(event["pass"] for event in events)
    return [*events, {"op": "pause", "pass": latest + 1, "state": "UNPAUSED"}]


def _resets(rng: random.Random, *, forced: bool) -> list[Row]:
    events: list[Row] = []
    for _ in range(rng.randint(1, 3)):
        event = {"op": "reset_prefix_cache", "pass": rng.randrange(1, 50)}
        if chance(rng, 0.3):
            event["when"] = "before_update"
        events.append(event | {"preempt": forced and chance(rng, 0.8)})
    return events


def _failed_loads(rng: random.Random, behaviour: Behaviours, requests: list[Row]) -> list[Row]:
    loads = [request["id"] for request in requests if "remote_kv" in request]
    events: list[Row] = []
    for request_id in loads:
        if chance(rng, 0.5):
            event = {"pass": rng.randrange(1, 40), "id": request_id}
            if behaviour.failed_recving and chance(rng, 0.4):
                events.append({"op": "kv_failed"} | event | {"when": "report"})
            else:
                blocks = sorted({rng.randrange(4) for _ in range(rng.randint(1, 3))})
                events += [{"op": "kv_invalid"} | event | {"block": block} for block in blocks]
    if chance(rng, 0.3):  # and again, perhaps while what was cut back is still in flight
        events += [event | {"pass": event["pass"] + later} for event in events for later in (1, 2)]
    return events
