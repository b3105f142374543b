"""The contract suite as one function of a parser and samples of its tool's output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from telemetry_parsers.checks import declaration
from telemetry_parsers.checks.declaration import shape_violations
from telemetry_parsers.checks.laws import numbers, report_violations
from telemetry_parsers.checks.mutations import cuts, mutations
from telemetry_parsers.contract import Parser
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Capture, Output, Report

# The number of cuts of each sample, and of reported violations.
_CUTS = 128
_MOST_VIOLATIONS = 50

Sample = str | Capture


def check(parser: Parser, samples: Iterable[Sample]) -> list[str]:
    """Return the violations in a parser's declaration and in its reports on samples (printed texts or captures) and damaged samples."""
    violations = declared_violations(parser)
    for position, sample in enumerate(samples):
        violations.extend(f"sample {position}: {text}" for text in sample_violations(parser, sample))
        if len(violations) >= _MOST_VIOLATIONS:
            break
    return violations[:_MOST_VIOLATIONS]


def sample_violations(parser: Parser, sample: Sample) -> list[str]:
    """Return the violations in the reports on one sample and on its damaged forms."""
    capture = _capture_of(parser, sample)
    violations = parse_violations(parser, capture)
    if violations:
        return violations  # a hundred damaged forms would repeat the same violations
    first = _parse(parser, capture)
    for mutation in mutations(capture):
        violations.extend(f"{mutation.name}: {text}" for text in parse_violations(parser, mutation.capture))
    violations.extend(cut_violations(parser, capture))
    if any(
        _parse(parser, capture) != first for _ in range(2)
    ):  # checked last: a parser must not remember earlier captures
        violations.append("the same capture gives a different report the second time")
    return violations


def _capture_of(parser: Parser, sample: Sample) -> Capture:
    """Return the sample as a capture of the parser's first poll."""
    if isinstance(sample, Capture):
        return sample
    poll = parser.polls[0]
    return Capture(parser.name, poll.name, poll.request, (Output(text=sample),))


def parse_violations(parser: Parser, capture: Capture) -> list[str]:
    """Return the violations in the report on this one capture."""
    before = repr(capture)  # NaN is not equal to itself, but its text is
    report = _parse(parser, capture)
    if isinstance(report, _Raised):
        return [report.text]
    try:
        violations = report_violations(parser, capture, report)
    except (AttributeError, TypeError, ValueError) as error:
        return [f"gives a report with a field of the wrong type: {error}"]
    if before != repr(capture):
        violations.append("changes the capture")
    return violations


@dataclass(frozen=True, slots=True)
class _Raised:
    """An exception that a parser raised instead of returning a report."""

    text: str


def _parse(parser: Parser, capture: Capture) -> Report | _Raised:
    try:
        return parser.parse(capture)
    except Exception as error:  # noqa: BLE001  # a foreign parser may raise anything, and that it does is the finding
        return _Raised(f"raises {type(error).__name__}: {str(error)[:200]}")


def cut_violations(
    parser: Parser, capture: Capture, places: Callable[[str], Iterable[int]] = lambda text: cuts(text, _CUTS)
) -> list[str]:
    """Return numbers that appear only if the end of a text is missing: parts of numbers, and counts of truncated lists."""
    if len(capture.outputs) != 1 or not capture.outputs[0].text:
        return []
    output = capture.outputs[0]
    whole = _numbers(_parse(parser, capture))
    violations: list[str] = []
    for cut in places(output.text):
        report = _parse(parser, replace(capture, outputs=(replace(output, text=output.text[:cut]),)))
        violations.extend([f"cut at {cut}: {report.text}"] if isinstance(report, _Raised) else [])
        fragments = sorted(_numbers(report) - whole, key=str)
        violations.extend(f"cut at {cut}: gives {fragment}" for fragment in fragments)
    return violations


def _numbers(report: Report | _Raised) -> set[tuple[int | None, str, str, float]]:
    return set() if isinstance(report, _Raised) else numbers(report)


def declared_violations(parser: object) -> list[str]:
    """Return the violations in a parser's declaration, by the checks with which the daemon loads it."""
    return shape_violations(parser) or [*declaration.violations(cast("Parser", parser))]
