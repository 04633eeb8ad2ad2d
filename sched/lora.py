"""LoRA: at most `max_loras` different adapters in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.endings import Ending, ends

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


def count_running(scheduler: Scheduler, this_pass: SchedulePass) -> None:
    """Note the adapters of the running requests, or of those scheduled in this pass.

    With the latter, those of requests stepped over do not count, so that an admission may take
    their slot. When both are then scheduled together the engine ends.
    """
    config = scheduler.config
    if config.max_loras is None:
        return
    counted = scheduler.running if config.behaviour.lora_running else this_pass.running
    this_pass.loras = {request.lora_id for request in counted if request.lora_id}
    if len(this_pass.loras) > config.max_loras:
        raise ends(Ending.LORA_SLOTS, config)


def slots_full(request: Request, this_pass: SchedulePass, config: SchedulerConfig) -> bool:
    """Whether the request's adapter would be one too many in this pass."""
    return (
        config.max_loras is not None
        and request.lora_id != 0
        and len(this_pass.loras) == config.max_loras
        and request.lora_id not in this_pass.loras
    )
