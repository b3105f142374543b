"""Checks a parser's declaration: protocol, names, metrics and polls."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.contract import CONTRACT_VERSION, Parser
from telemetry_parsers.merge.report_columns import MERGE_METRICS
from telemetry_parsers.metrics import BY_KEY, BY_NAME, CATALOGUE
from telemetry_parsers.model import Command, Files, Library, Metric, Poll, Tier

_ATTRIBUTES = ("contract_version", "name", "vendor", "gives", "polls", "metrics", "parse")


def shape_violations(parser: Any) -> list[str]:
    """Return a message about the missing attributes of the Parser protocol, or about each attribute of a wrong type."""
    missing = [name for name in _ATTRIBUTES if not hasattr(parser, name)]
    if missing:
        return [f"{type(parser).__name__} is not a Parser; missing attributes: {' '.join(missing)}"]
    violations = [
        f"{name} is not a string" for name in ("name", "vendor") if not isinstance(getattr(parser, name), str)
    ]
    if not isinstance(parser.contract_version, int):
        violations.append("contract_version is not a number")
    if not callable(parser.parse):
        violations.append("parse is not a function")
    violations += _item_violations("gives", parser.gives, str)
    violations += _item_violations("polls", parser.polls, Poll)
    violations += _item_violations("metrics", parser.metrics, Metric)
    return violations


def _item_violations(name: str, items: Any, expected_type: type) -> list[str]:
    if not isinstance(items, tuple | list):
        return [f"{name} is not a tuple"]
    return [
        f"{name}[{position}] is {type(item).__name__}, not {expected_type.__name__}"
        for position, item in enumerate(items)
        if not isinstance(item, expected_type)
    ]


# Metrics that the merge and the daemon derive, and that parsers must not report.
_DERIVED_METRICS = MERGE_METRICS | {
    "busy_seconds_total",
    "energy_estimated_joules_total",
    "rank_info",
    "foreign_memory_bytes",
}
# Labels that all series of a device have, and labels that Prometheus adds or reserves.
RESERVED_LABELS = frozenset({"vendor", "device", "id", "model", "job", "instance", "le", "quantile"})

# Labels whose values are limited to the metric's `words`, so that dashboards can colour them.
_CLOSED_LABELS = frozenset({"state", "action", "level"})

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_VENDOR = re.compile(r"[a-z0-9]+\Z")
_WORD = re.compile(r"[a-z0-9_]{1,64}\Z")
_LABEL = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_UNITS = frozenset(metric.unit for metric in CATALOGUE if metric.unit)
_TIERS = get_args(Tier)
_MAX_NAME_LENGTH = 40


def violations(parser: Parser | DescribedParser) -> tuple[str, ...]:
    """Return a message for each rule that a parser's declaration violates."""
    if parser.contract_version != CONTRACT_VERSION:
        return (f"contract_version is {parser.contract_version}, but this release supports version {CONTRACT_VERSION}",)
    return (*_check_names(parser), *_check_gives(parser), *_check_metrics(parser), *_check_polls(parser))


def metrics_by_key(parser: Parser | DescribedParser) -> Mapping[str, Metric]:
    """Return the metrics that the parser can report, by key."""
    metrics = {**BY_KEY, **{metric.key: metric for metric in parser.metrics}}
    return {key: metrics[key] for key in parser.gives if key in metrics}


def _is_word(text: str) -> bool:
    return _WORD.match(text) is not None


def is_label_name(text: str) -> bool:
    """Return whether the text is a valid name of a label or fact."""
    return _LABEL.match(text) is not None


def is_valid_label_for(metric: Metric, label: str) -> bool:
    """Return whether a reading of the metric may have this label value."""
    if not metric.label:
        return label == ""
    if metric.label in _CLOSED_LABELS and metric.words:
        return label in metric.words
    return _is_word(label)


def _check_names(parser: Parser | DescribedParser) -> Iterator[str]:
    if _NAME.match(parser.name) is None or len(parser.name) > _MAX_NAME_LENGTH:
        yield f"name {parser.name!r} must consist of at most {_MAX_NAME_LENGTH} lower-case letters, digits and single hyphens"
    is_host_only = all(key in BY_KEY and BY_KEY[key].scope == "host" for key in parser.gives)
    if _VENDOR.match(parser.vendor) is None and not (parser.vendor == "" and is_host_only):
        yield f"vendor {parser.vendor!r} must consist of lower-case letters and digits"


def _check_gives(parser: Parser | DescribedParser) -> Iterator[str]:
    declared = {metric.key for metric in parser.metrics}
    if not parser.gives and parser.vendor:  # a parser without a vendor may declare no metrics
        yield "`gives` is empty"
    for key, count in Counter(parser.gives).items():
        if count > 1:
            yield f"`gives` contains a metric twice: {key}"
        if key in _DERIVED_METRICS:
            yield f"`gives` contains {key}, which the daemon derives"
        elif key not in declared and (key not in BY_KEY or BY_KEY[key].scope in ("daemon", "owner")):
            yield f"`gives` contains {key}, which is not in the catalogue or in the parser's metrics"
    for key in sorted(declared.difference(parser.gives)):
        yield f"`gives` does not contain the parser's own metric {key}"


def _check_metrics(parser: Parser | DescribedParser) -> Iterator[str]:
    for metric in parser.metrics:
        for violation in (*_check_metric_name(metric, parser.vendor), *_check_metric(metric), *_check_label(metric)):
            yield f"metric {metric.name}: {violation}"


def _check_metric_name(metric: Metric, vendor: str) -> Iterator[str]:
    prefix = f"accelerator_{vendor}_"
    if not metric.name.startswith(prefix) or not _is_word(metric.name.removeprefix(prefix)):
        yield f"the name must begin with {prefix}, followed by lower-case letters, digits or underscores"
    if metric.name in BY_NAME:
        yield "the catalogue already has a metric of this name"
    if (metric.kind == "counter") != metric.name.endswith("_total"):
        yield "the names of counters must end in _total, and other names must not"
    if metric.unit and (metric.unit not in _UNITS or not metric.name.removesuffix("_total").endswith(metric.unit)):
        yield f"its unit must be a base unit ({' '.join(sorted(_UNITS))}), and its name must end with the unit"


def _check_metric(metric: Metric) -> Iterator[str]:
    if metric.kind == "info" or metric.scope != "device" or metric.core:
        yield "it must be a gauge or counter of scope `device`, and not a core metric"
    if not metric.help.strip() or "\n" in metric.help or not metric.low < metric.high:
        yield "it needs a help text of one line, and `low` must be less than `high`"


def _check_label(metric: Metric) -> Iterator[str]:
    if metric.label and (not is_label_name(metric.label) or metric.label in RESERVED_LABELS):
        yield f"its label {metric.label!r} is reserved, or is not a lower-case word"
    if metric.words and not metric.label:
        yield "it has `words`, but no label"
    for word in metric.words:
        if not _is_word(word):
            yield f"the word {word!r} may contain only lower-case letters, digits and underscores"


def _check_polls(parser: Parser | DescribedParser) -> Iterator[str]:
    names = [poll.name for poll in parser.polls]
    if not names or len(set(names)) < len(names):
        yield "needs at least one poll, and poll names must be unique"
    elif parser.vendor and not any(poll.lists_devices or _runs_per_device(poll) for poll in parser.polls):
        yield "has no poll that lists devices"
    for poll in parser.polls:
        yield from (
            f"poll {poll.name}: {violation}" for violation in (*_check_poll(poll), *_check_request(poll.request))
        )


def _runs_per_device(poll: Poll) -> bool:
    return isinstance(poll.request, Command) and poll.request.per is not None


def _check_poll(poll: Poll) -> Iterator[str]:
    if _NAME.match(poll.name) is None:
        yield "the name may contain only lower-case letters, digits and single hyphens"
    if poll.tier not in _TIERS:
        yield f"tier {poll.tier!r} must be one of {' '.join(_TIERS)}"
    for field_name, seconds in (("interval", poll.interval), ("deadline", poll.deadline)):
        if not 0 < seconds < math.inf:
            yield f"{field_name} {seconds!r} is not a valid time"


def _check_request(request: object) -> Iterator[str]:
    if isinstance(request, Command):
        yield from _check_command(request)
    elif isinstance(request, Files):
        paths = (*request.globs, *request.links, *request.binary)
        if not paths or not all(path.startswith("/") for path in paths):
            yield "needs at least one path, and all paths must be absolute"
    elif isinstance(request, Library):
        if not (request.reader and request.calls):
            yield "needs a reader and at least one call"
    else:
        yield f"its request is {type(request).__name__}, not Command, Files or Library"


def _check_command(request: Command) -> Iterator[str]:
    if not request.alternatives or not all(line and all(line) for line in request.alternatives):
        yield "needs at least one command line, and no word may be empty"
    if any("/" in line[0] for line in request.alternatives if line):
        yield "the tool must not be a path; use `folders` instead"
    if not all(folder.startswith("/") for folder in request.folders):
        yield "its folders must be absolute"
    placeholder = f"{{{request.per}}}"
    if request.per and not all(any(placeholder in word for word in line) for line in request.alternatives):
        yield f"is repeated per {request.per}, but one of its command lines does not contain {placeholder}"
