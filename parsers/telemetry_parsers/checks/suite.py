"""Checks a parser with samples of its tool's output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from telemetry_parsers.checks import declaration
from telemetry_parsers.checks.declaration import shape_violations
from telemetry_parsers.checks.mutations import cut_positions, mutations
from telemetry_parsers.checks.report_rules import numbers, report_violations
from telemetry_parsers.contract import Parser
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Capture, Output, Report

_MAX_CUTS = 128  # positions at which a sample is truncated
_MAX_VIOLATIONS = 50

Sample = str | Capture


def check(parser: Parser, samples: Iterable[Sample]) -> list[str]:
    """Return the violations in a parser's declaration and in its reports on samples."""
    violations = declaration_violations(parser)
    for position, sample in enumerate(samples):
        violations.extend(f"sample {position}: {text}" for text in sample_violations(parser, sample))
        if len(violations) >= _MAX_VIOLATIONS:
            break
    return violations[:_MAX_VIOLATIONS]


def sample_violations(parser: Parser, sample: Sample) -> list[str]:
    """Return the violations in the reports on a sample and its damaged forms."""
    capture = _to_capture(parser, sample)
    violations = parse_violations(parser, capture)
    if violations:
        return violations  # the damaged forms would only repeat these violations
    expected = _try_parse(parser, capture)
    for mutation in mutations(capture):
        violations.extend(f"{mutation.name}: {text}" for text in parse_violations(parser, mutation.capture))
    violations.extend(cut_violations(parser, capture))
    if any(_try_parse(parser, capture) != expected for _ in range(2)):  # the report must not depend on earlier captures
        violations.append("a second call of `parse` with the same capture returns a different report")
    return violations


def _to_capture(parser: Parser, sample: Sample) -> Capture:
    if isinstance(sample, Capture):
        return sample
    poll = parser.polls[0]
    return Capture(parser.name, poll.name, poll.request, (Output(text=sample),))


def parse_violations(parser: Parser, capture: Capture) -> list[str]:
    """Return the violations of `parse` and of its report on this capture."""
    original = repr(capture)  # compared as text, because NaN differs from itself
    report = _try_parse(parser, capture)
    if isinstance(report, _Raised):
        return [report.text]
    try:
        violations = report_violations(parser, capture, report)
    except (AttributeError, TypeError, ValueError) as error:
        return [f"returns a report with a field of the wrong type: {error}"]
    if original != repr(capture):
        violations.append("changes the capture")
    return violations


@dataclass(frozen=True, slots=True)
class _Raised:
    """An exception that a parser raised instead of returning a report."""

    text: str


def _try_parse(parser: Parser, capture: Capture) -> Report | _Raised:
    try:
        return parser.parse(capture)
    except Exception as error:  # noqa: BLE001  # any exception is a violation
        return _Raised(f"raises {type(error).__name__}: {str(error)[:200]}")


def cut_violations(
    parser: Parser,
    capture: Capture,
    positions: Callable[[str], Iterable[int]] = lambda text: cut_positions(text, _MAX_CUTS),
) -> list[str]:
    """Return a violation for each number that is reported only if the text is truncated."""
    if len(capture.outputs) != 1 or not capture.outputs[0].text:
        return []
    output = capture.outputs[0]
    expected = _numeric_readings(_try_parse(parser, capture))
    violations: list[str] = []
    for cut in positions(output.text):
        report = _try_parse(parser, replace(capture, outputs=(replace(output, text=output.text[:cut]),)))
        violations.extend([f"cut at {cut}: {report.text}"] if isinstance(report, _Raised) else [])
        fragments = sorted(_numeric_readings(report) - expected, key=str)
        violations.extend(f"cut at {cut}: {fragment} is not in the complete output's report" for fragment in fragments)
    return violations


def _numeric_readings(report: Report | _Raised) -> set[tuple[int | None, str, str, float]]:
    return set() if isinstance(report, _Raised) else numbers(report)


def declaration_violations(parser: object) -> list[str]:
    """Return the violations in a parser's declaration."""
    return shape_violations(parser) or [*declaration.violations(cast("Parser", parser))]
