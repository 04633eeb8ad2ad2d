"""What a gate has to say: a table for people, Markdown for a summary page, JUnit for CI."""

from dataclasses import asdict
from xml.etree import ElementTree as ET

from schedbench.results.catalog import metric_of
from schedbench.results.gate import Check, GateResult, Status
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import number, percent, scale_for

_MARKS = {Status.CHANGED: Mark.FAILED, Status.WORSE: Mark.FAILED, Status.BETTER: Mark.BETTER}
_HEADINGS = (
    Heading("metric", is_number=False),
    Heading("baseline"),
    Heading("now"),
    Heading("allowed"),
    Heading("", is_number=False),
)


def gate_view(name: str, result: GateResult) -> View:
    """What differs; everything is in the JSON and CSV."""
    rows = tuple(_row(check) for check in result.checks if check.status is not Status.OK)
    data = {
        "passed": result.passed,
        "window": result.window,
        "checks": [asdict(check) for check in result.checks],
    }
    flat = Sheet("", _HEADINGS, tuple(_flat(check) for check in result.checks))
    return View(_title(name, result), (Sheet("", _HEADINGS, rows), _where(result)), flat, data)


def _title(name: str, result: GateResult) -> str:
    failed = sum(check.failed for check in result.checks)
    if not failed:
        return f"{name}: passed, {number(len(result.checks))} checks"
    return f"{name}: failed, {number(failed)} of {number(len(result.checks))} checks"


def _where(result: GateResult) -> Sheet:
    better = any(check.status is Status.BETTER for check in result.checks)
    first, last = result.window or (0, 0)
    return facts(
        [
            (
                "decisions",
                f"first differ between passes {number(first)} and {number(last - 1)}"
                if result.window
                else "",
            ),
            ("better", "keep what got better with --update" if better else ""),
        ]
    )


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
        return str(check.expected), str(check.actual)
    scale = scale_for(metric_of(check.key).unit, values)
    first, other = (f"{scale.text(value)} {scale.unit}".rstrip() for value in values)
    return first, other


def _flat(check: Check) -> tuple[Cell, ...]:
    raw = (check.key, check.expected, check.actual, check.tolerance, check.status.value)
    return tuple(Cell("", value) for value in raw)


def junit(name: str, result: GateResult) -> str:
    """JUnit XML: a test case a check, so that CI lists what failed by name."""
    failed = sum(check.failed for check in result.checks)
    suite = ET.Element(
        "testsuite", name=name, tests=str(len(result.checks)), failures=str(failed), errors="0"
    )
    for check in result.checks:
        case = ET.SubElement(suite, "testcase", classname=name, name=check.key, time="0")
        if check.failed:
            was, now = _texts(check)
            message = f"{check.key} was {was} and is {now}"
            ET.SubElement(case, "failure", message=message, type=check.status.value)
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
