"""`schedbench verify` beside the installed vLLM: a trace in lock-step, or random cases."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbench.cli import console
from schedbench.errors import OutputError, TraceError

if TYPE_CHECKING:
    from schedbench.runner.fuzz_parity import Case
    from schedbench.runner.lockstep import Divergence, Lockstep
    from schedbench.runner.run import ReplayOptions
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

SHOWN = 12  # entries of a long list
LONGEST_ERROR = 100  # characters of one


def verify_live(trace: "Trace", config: "SchedulerConfig", options: "ReplayOptions") -> bool:
    """Compare on a trace; says what came of it, and whether all passes were equal.

    Raises:
        EngineEndsError: both end the engine, in the same pass.
    """
    from schedbench.cli.progress import ReplayProgress
    from schedbench.runner.lockstep import verify_trace

    with ReplayProgress(trace.num_requests, by_arrivals=True) as progress:
        runner = options.deployment.make_runner()
        found = verify_trace(trace, config, runner, options, progress)
    if found.divergence is None:
        console.result(_equal(found, config))
        if found.ending is not None:
            raise found.ending
        return True
    lines = divergence_lines(found.divergence)
    if config.behaviours:
        lines.append(f"  {_beside(found.vllm_version, config.vllm_version, config.behaviours)}")
    console.result("\n".join(lines))
    return False


def _equal(found: "Lockstep", config: "SchedulerConfig") -> str:
    ahead = "asynchronous" if config.runs_ahead else "synchronous"
    beside = _beside(found.vllm_version, config.vllm_version, config.behaviours)
    return f"equal: {found.num_passes} passes {beside}, {ahead} scheduling"


def _beside(theirs: str, ours: str, behaviours: str) -> str:
    """Which class was compared with; a mixture of this project's side is called one."""
    from schedbench.sched.config import release_text

    followed = release_text(ours, behaviours)
    return f"beside vLLM {theirs}" + (f", ours {followed}" if behaviours else "")


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


def verify_random(
    seed: int, count: int, features: list[str], out: Path, flags: dict[str, Any]
) -> bool:
    """Compare random cases; those that differ are shrunk and written to `out`.

    `flags` are the release and the behaviours; all others are drawn for each case.

    Raises:
        UsageError: a feature that no case of the release has.
    """
    from schedbench.cli.progress import LiveLine
    from schedbench.runner.fuzz_flags import check_features
    from schedbench.runner.fuzz_parity import Failed, fuzz
    from schedbench.runner.installed import vllm_version
    from schedbench.runner.vllm_terms import installed_release

    release = installed_release(flags.get("vllm_version"))
    behaviours = flags.get("behaviours", "")
    check_features(features, release)
    beside = _beside(vllm_version(), release, behaviours)
    line = LiveLine()
    different, failed = 0, 0
    endings: Counter[str] = Counter()
    cases = fuzz(
        seed,
        count,
        release,
        features,
        behaviours=behaviours,
        progress=lambda done: line.show(f"{done} of {count} cases"),
        endings=endings,
    )
    for case in cases:
        line.clear()
        if isinstance(case, Failed):
            failed += 1
            console.note(f"case {case.seed}: vLLM's class fails: {_one_line(case.error)}")
            continue
        different += 1
        console.result(_case_line(case, out))
    line.clear()
    if failed:
        beside += f"; its class fails on {failed} of them, which are equal up to there"
    if different:
        console.result(f"different: {different} of {count} random cases {beside}")
        return False
    console.result(f"equal: {count} random cases from seed {seed} {beside}")
    if endings:
        told = ", ".join(f"{number} {name}" for name, number in sorted(endings.items()))
        console.result(f"in {endings.total()} of them both end the engine: {told}")
    return True


def _one_line(error: str) -> str:
    text = " ".join(error.split())
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}..."


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
    from schedbench.runner.installed import vllm_version
    from schedbench.runner.record_golden import record
    from schedbench.runner.vllm_terms import installed_release

    installed_release(None)
    for path in paths:
        scenario, target = read_log(path), out / path.name
        if target.exists():
            raise OutputError(f"{target} exists already; name a new folder with --record")
        try:
            made = record(scenario)
        except Exception as error:
            raise TraceError(
                f"{path}: the installed vLLM {vllm_version()} does not run this scenario: "
                f"{type(error).__name__}: {error}. Record it with the release it is of"
            ) from error
        try:
            out.mkdir(parents=True, exist_ok=True)
            write_log(target, made)
        except OSError as error:
            raise OutputError(f"{target} cannot be written: {error.strerror}") from error
        console.result(f"recorded {target}")
