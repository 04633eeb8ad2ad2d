"""What a gate has to say: a table for people, Markdown for a summary page, JUnit for CI."""

from dataclasses import asdict
from xml.etree import ElementTree as ET

from schedbench.results.catalog import metric_of
from schedbench.results.compare import PassDifference
from schedbench.results.gate import Check, GateResult, Status
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import number, percent, scale_for
from schedbench.results.visible import visible

_MARKS = {Status.CHANGED: Mark.FAILED, Status.WORSE: Mark.FAILED, Status.BETTER: Mark.BETTER}
_HEADINGS = (
    Heading("metric", is_number=False),
    Heading("baseline"),
    Heading("now"),
    Heading("allowed"),
    Heading("", is_number=False),
)

_TELLING = ("victims", "preempted", "admitted", "resumed", "running_stop", "admission_stop")
_UNTELLING = ("start_ns", "duration_ns", "end_ns", "decisions")
_SHOWN_COLUMNS = 6
_DIGITS = 8  # of a digest; all of it is in the JSON


def gate_view(name: str, result: GateResult) -> View:
    """What differs; everything is in the JSON and CSV."""
    rows = tuple(_row(check) for check in result.checks if check.status is not Status.OK)
    data = {
        "passed": result.passed,
        "window": result.window,
        "first_pass": None if result.first is None else asdict(result.first),
        "checks": [asdict(check) for check in result.checks],
    }
    flat = Sheet("", _HEADINGS, tuple(_flat(check) for check in result.checks))
    return View(_title(name, result), (Sheet("", _HEADINGS, rows), _where(result)), flat, data)


def _title(name: str, result: GateResult) -> str:
    if result.passed:
        return f"{name}: passed, {number(result.num_checks)} checks"
    return f"{name}: failed, {number(result.num_failed)} of {number(result.num_checks)} checks"


def _where(result: GateResult) -> Sheet:
    better = result.passed and any(check.status is Status.BETTER for check in result.checks)
    return facts(
        [
            ("decisions", difference(result)),
            ("better", "keep what got better with --update" if better else ""),
        ]
    )


def difference(result: GateResult) -> str:
    """Where the passes first differ, as exactly as it is known; empty where they do not."""
    if result.first is not None:
        return _first_pass(result.first)
    if result.window is None:
        return ""
    first, last = result.window
    if last - first <= 1:
        return f"first differ in pass {first}"
    return (
        f"first differ between passes {first} and {last - 1}; a baseline with its pass log beside "
        "it (gate --update --keep-passes) names the pass"
    )


def _first_pass(found: PassDifference) -> str:
    was, now = found.first, found.other
    if was is None or now is None:
        return f"{'the baseline ends' if was is None else 'now it ends'} before pass {found.index}"
    names = sorted(found.columns, key=lambda name: name not in _TELLING)
    shown = [f"{name} {was[name]} / {now[name]}" for name in names if name not in _UNTELLING]
    more = len(shown) - _SHOWN_COLUMNS
    listed = shown[:_SHOWN_COLUMNS] + ([f"and {more} more columns"] if more > 0 else [])
    return f"first differ in pass {found.index} (baseline / now): {', '.join(listed)}"


def _row(check: Check) -> tuple[Cell, ...]:
    mark = _MARKS.get(check.status, Mark.PLAIN)
    allowed = "exact" if check.tolerance is None else f"± {percent(check.tolerance)}"
    return (
        Cell(check.key),
        *(Cell(text) for text in _texts(check)),
        Cell(allowed, mark=Mark.QUIET),
        Cell(check.status.value, mark=mark),
    )


def _texts(check: Check) -> tuple[str, str]:
    values = (check.expected, check.actual)
    if any(isinstance(value, str) for value in values):
        return str(check.expected)[:_DIGITS], str(check.actual)[:_DIGITS]
    scale = scale_for(metric_of(check.key).unit, values)
    first, other = (f"{scale.text(value)} {scale.unit}".rstrip() for value in values)
    return first, other


def _flat(check: Check) -> tuple[Cell, ...]:
    raw = (check.key, check.expected, check.actual, check.tolerance, check.status.value)
    return tuple(Cell("", value) for value in raw)


def junit(name: str, result: GateResult) -> str:
    """JUnit XML: a test case a check, so that CI lists what failed by name."""
    failures = {check.key: _failure(check) for check in result.checks if check.failed}
    if where := difference(result):
        failures[_DECISIONS] = (f"passes {where}", Status.CHANGED.value)
    names = [*(check.key for check in result.checks), _DECISIONS]
    suite = _suite(name, tests=result.num_checks, failures=result.num_failed)
    for key in names:
        case = _case(suite, key)
        if key in failures:
            message, kind = failures[key]
            ET.SubElement(case, "failure", message=visible(message), type=kind).text = visible(
                message
            )
    return _document(suite)


def refused_view(name: str, reason: str) -> View:
    """A gate that could not be held, which is no pass."""
    told = facts([("refused", reason)])
    return View(f"{name}: refused", (told,), told, {"passed": False, "refused": reason})


def refused_junit(name: str, error: Exception) -> str:
    """JUnit XML of the same: one test case, with an error."""
    suite = _suite(name, tests=1, errors=1)
    kind = type(error).__name__
    found = ET.SubElement(_case(suite, "gate"), "error", message=visible(str(error)), type=kind)
    found.text = visible(str(error))
    return _document(suite)


def _suite(name: str, *, tests: int, failures: int = 0, errors: int = 0) -> ET.Element:
    counts = {"tests": tests, "failures": failures, "errors": errors, "skipped": 0, "time": 0}
    return ET.Element(
        "testsuite", {"name": visible(name), **{k: str(v) for k, v in counts.items()}}
    )


def _case(suite: ET.Element, key: str) -> ET.Element:
    return ET.SubElement(
        suite, "testcase", classname=suite.get("name", ""), name=visible(key), time="0"
    )


def _document(suite: ET.Element) -> str:
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


_DECISIONS = "decisions of every pass"


def _failure(check: Check) -> tuple[str, str]:
    was, now = _texts(check)
    return f"{check.key} was {was} and is {now}", check.status.value
