"""The contract suite as a callable: give it a parser and samples of its tool's output, and it says what is wrong."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import get_args

from telemetry_parsers.contract import CONTRACT_VERSION, Parser
from telemetry_parsers.contract_laws import numbers, report_violations
from telemetry_parsers.contract_mutations import cuts, mutations
from telemetry_parsers.metrics import BY_KEY, BY_NAME
from telemetry_parsers.model import Capture, Command, Files, Library, Metric, Output, Poll, Report, Tier

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_LABEL = re.compile(r"[a-z][a-z0-9_]*\Z")
_TIERS = get_args(Tier)
# Each sample is cut at so many places, and as many of its violations are told.
_CUTS = 128
_MOST_VIOLATIONS = 50

Sample = str | Capture


def check(parser: Parser, samples: Iterable[Sample]) -> list[str]:
    """What is wrong with a parser, in words: its own shape, and its reports on samples and damaged samples.

    A sample is a text that the tool printed, or a capture. An empty list means that the contract is kept.
    """
    violations = shape_violations(parser)
    for position, sample in enumerate(samples):
        violations.extend(f"sample {position}: {text}" for text in sample_violations(parser, sample))
        if len(violations) >= _MOST_VIOLATIONS:
            break
    return violations[:_MOST_VIOLATIONS]


def sample_violations(parser: Parser, sample: Sample) -> list[str]:
    """What is wrong with the reports on one sample and on what is left of it when it is damaged."""
    capture = capture_of(parser, sample)
    violations = parse_violations(parser, capture)
    if violations:
        return violations  # a hundred damaged forms of it would say the same
    for mutation in mutations(capture):
        violations.extend(f"{mutation.name}: {text}" for text in parse_violations(parser, mutation.capture))
    violations.extend(cut_violations(parser, capture))
    return violations


def capture_of(parser: Parser, sample: Sample) -> Capture:
    """The sample as a capture of the parser's first poll."""
    if isinstance(sample, Capture):
        return sample
    poll = parser.polls[0]
    return Capture(parser.name, poll.name, poll.request, (Output(text=sample),))


def parse_violations(parser: Parser, capture: Capture) -> list[str]:
    """What is wrong with the report on this one capture."""
    before = copy.deepcopy(capture)
    report, again = _parse(parser, capture), _parse(parser, capture)
    if isinstance(report, _Raised):
        return [report.text]
    try:
        violations = report_violations(parser, capture, report)
    except (AttributeError, TypeError, ValueError) as error:
        return [f"gives a report with a field of the wrong type: {error}"]
    if report != again:
        violations.append("the same capture gives another report the second time")
    if repr(before) != repr(capture):  # NaN is not equal to itself, its text is
        violations.append("changes the capture")
    return violations


@dataclass(frozen=True, slots=True)
class _Raised:
    """What a parser raised instead of giving a report."""

    text: str


def _parse(parser: Parser, capture: Capture) -> Report | _Raised:
    try:
        return parser.parse(capture)
    except Exception as error:  # noqa: BLE001 - a foreign parser may raise anything, and that it does is the finding
        return _Raised(f"raises {type(error).__name__}: {str(error)[:200]}")


def cut_violations(parser: Parser, capture: Capture, most: int = _CUTS) -> list[str]:
    """Numbers that a text gives only when its end is missing: fragments, and counts of what was not printed yet."""
    if len(capture.outputs) != 1 or not capture.outputs[0].text:
        return []
    output = capture.outputs[0]
    whole = _numbers(_parse(parser, capture))
    violations: list[str] = []
    for cut in cuts(output.text, most):
        report = _parse(parser, replace(capture, outputs=(replace(output, text=output.text[:cut]),)))
        violations.extend([f"cut at {cut}: {report.text}"] if isinstance(report, _Raised) else [])
        fragments = sorted(_numbers(report) - whole, key=str)
        violations.extend(f"cut at {cut}: gives {fragment}" for fragment in fragments)
    return violations


def _numbers(report: Report | _Raised) -> set[tuple[int | None, str, str, float]]:
    return set() if isinstance(report, _Raised) else numbers(report)


def shape_violations(parser: object) -> list[str]:
    """What is wrong with what a parser says of itself."""
    if not isinstance(parser, Parser):
        return ["lacks something of the Parser protocol: contract_version name vendor gives polls metrics parse"]
    return [*_identity(parser), *_gives(parser), *_metrics(parser), *_polls(parser)]


def _identity(parser: Parser) -> Iterator[str]:
    if parser.contract_version != CONTRACT_VERSION:
        yield f"contract_version is {parser.contract_version}, this is version {CONTRACT_VERSION}"
    if not _NAME.match(parser.name):
        yield f"name {parser.name!r} is not of the form [a-z0-9-]+"
    if parser.vendor and not _NAME.match(parser.vendor):
        yield f"vendor {parser.vendor!r} is not of the form [a-z0-9-]+"
    parse: object = parser.parse
    if not callable(parse):
        yield "parse is no function"


def _gives(parser: Parser) -> Iterator[str]:
    own = {metric.key for metric in parser.metrics}
    if not parser.gives:
        yield "gives nothing"
    if len(set(parser.gives)) != len(parser.gives):
        yield "gives names a metric twice"
    for key in parser.gives:
        if key not in own and (key not in BY_KEY or BY_KEY[key].scope == "daemon"):
            yield f"gives {key}, which is neither in the catalogue nor among the parser's metrics"


def _metrics(parser: Parser) -> Iterator[str]:
    prefix = f"accelerator_{parser.vendor}_".replace("-", "_")
    for metric in parser.metrics:
        if not metric.name.startswith(prefix) or not _LABEL.match(metric.name):
            yield f"metric {metric.name}: its name must begin with {prefix} and be of [a-z0-9_]"
        if metric.name in BY_NAME:
            yield f"metric {metric.name}: is in the catalogue already"
        yield from (f"metric {metric.name}: {wrong}" for wrong in _metric(metric))


def _metric(metric: Metric) -> Iterator[str]:
    if (metric.kind == "counter") != metric.name.endswith("_total"):
        yield "_total is for counters, and counters are for _total"
    if metric.kind == "info" or metric.scope != "device":
        yield "a parser declares gauges and counters of devices only"
    if not metric.help.strip() or not metric.low < metric.high:
        yield "needs a help text and a range"
    if metric.label and not _LABEL.match(metric.label):
        yield f"label {metric.label!r} is not of the form [a-z0-9_]+"


def _polls(parser: Parser) -> Iterator[str]:
    names = [poll.name for poll in parser.polls]
    if not names or len(set(names)) != len(names):
        yield "needs at least one poll, and one name for each"
    if parser.vendor and not any(poll.lists_devices for poll in parser.polls):
        yield "has no poll that lists devices"
    for poll in parser.polls:
        yield from (f"poll {poll.name}: {wrong}" for wrong in (*_poll(poll), *_request(poll)))


def _poll(poll: Poll) -> Iterator[str]:
    if not _NAME.match(poll.name):
        yield "its name is not of the form [a-z0-9-]+"
    if poll.tier not in _TIERS:
        yield f"tier {poll.tier!r} is none of {' '.join(_TIERS)}"
    for what, seconds in (("interval", poll.interval), ("deadline", poll.deadline)):
        if not (math.isfinite(seconds) and seconds > 0):
            yield f"{what} {seconds!r} is no time"


def _request(poll: Poll) -> Iterator[str]:
    request: object = poll.request
    if isinstance(request, Command):
        yield from _command(request)
    elif isinstance(request, Files):
        paths = (*request.globs, *request.links, *request.binary)
        if not paths or any(not path.startswith("/") for path in paths):
            yield "needs paths, and all of them from the root"
    elif isinstance(request, Library):
        if not request.reader or not request.calls:
            yield "needs a reader and calls"
    else:
        yield f"its request is {type(request).__name__}, not Command, Files or Library"


def _command(request: Command) -> Iterator[str]:
    if not request.alternatives or any(not line or not all(line) for line in request.alternatives):
        yield "needs command lines without blank words"
    if any("/" in line[0] for line in request.alternatives if line):
        yield "names its tool by a path; put the folder into folders"
    if any(not folder.startswith("/") for folder in request.folders):
        yield "its folders must be given from the root"
    placeholder = "{" + (request.per or "") + "}"
    if request.per is not None and not all(any(placeholder in word for word in line) for line in request.alternatives):
        yield f"is repeated per {request.per} but has no {placeholder}"
