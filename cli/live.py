"""`schedbench verify` beside the installed vLLM: a trace in lock-step, or random cases."""

from pathlib import Path
from typing import TYPE_CHECKING

from schedbench.cli import console
from schedbench.errors import OutputError

if TYPE_CHECKING:
    from schedbench.runner.fuzz_parity import Case
    from schedbench.runner.lockstep import Divergence, Lockstep
    from schedbench.runner.run import ReplayOptions
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

SHOWN = 12  # entries of a long list


def verify_live(trace: "Trace", config: "SchedulerConfig", options: "ReplayOptions") -> bool:
    """Compare on a trace; says what came of it, and whether all passes were equal."""
    from schedbench.cli.progress import ReplayProgress
    from schedbench.runner.lockstep import verify_trace

    with ReplayProgress(trace.num_requests, by_arrivals=True) as progress:
        runner = options.deployment.make_runner()
        found = verify_trace(trace, config, runner, options, progress)
    if found.divergence is None:
        console.result(_equal(found, config))
        return True
    console.result("\n".join(divergence_lines(found.divergence)))
    return False


def _equal(found: "Lockstep", config: "SchedulerConfig") -> str:
    ahead = "asynchronous" if config.runs_ahead else "synchronous"
    return f"equal: {found.num_passes} passes beside vLLM {found.vllm_version}, {ahead} scheduling"


def divergence_lines(parted: "Divergence") -> list[str]:
    """Both decisions, the state before, and the verdicts that led there."""
    lines = [f"different: pass {parted.index}, {parted.half}: {', '.join(parted.columns)}"]
    for name, (ours, theirs) in parted.columns.items():
        lines += [f"  {name}", f"    ours  {_short(ours)}", f"    vLLM  {_short(theirs)}"]
    lines.append("  before it")
    lines += [f"    {name}: {_short(value)}" for name, value in parted.state.items()]
    if parted.led_there:
        lines.append("  what led there")
        lines += [f"    {verdicts}" for verdicts in parted.led_there]
    return lines


def _short(value: object) -> str:
    if isinstance(value, list) and len(value) > SHOWN:
        return f"{value[:SHOWN]} and {len(value) - SHOWN} more"
    return str(value)


def verify_random(seed: int, count: int, features: list[str], out: Path) -> bool:
    """Compare random cases; those that differ are shrunk and written to `out`."""
    from schedbench.cli.progress import LiveLine
    from schedbench.runner.fuzz_parity import fuzz
    from schedbench.runner.vllm_backend import vllm_version
    from schedbench.runner.vllm_terms import installed_release

    release = installed_release(None)
    line = LiveLine()
    different = 0
    for case in fuzz(
        seed, count, release, features, lambda done: line.show(f"{done} of {count} cases")
    ):
        line.clear()
        different += 1
        console.result(_case_line(case, out))
    line.clear()
    if different:
        console.result(
            f"different: {different} of {count} random cases beside vLLM {vllm_version()}"
        )
        return False
    console.result(f"equal: {count} random cases from seed {seed} beside vLLM {vllm_version()}")
    return True


def _case_line(case: "Case", out: Path) -> str:
    from schedbench.runner.golden_log import write_log

    path = out / f"shrunk.{case.seed}.jsonl.gz"
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_log(path, case.log)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error
    where = f"pass {case.index}: {', '.join(case.columns)}"
    return f"case {case.seed}: {where}; shrunk to {len(case.log.requests)} requests in {path}"


def record_logs(paths: list[Path], out: Path) -> None:
    """Run each log's scenario on the installed vLLM and write fresh logs to `out`."""
    from schedbench.runner.golden_log import read_log, write_log
    from schedbench.runner.record_golden import record
    from schedbench.runner.vllm_terms import installed_release

    installed_release(None)
    out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        target = out / path.name
        if target.exists():
            raise OutputError(f"{target} exists already; name a new folder with --record")
        write_log(target, record(read_log(path)))
        console.result(f"recorded {target}")
