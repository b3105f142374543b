"""Checks of a parser's declaration: protocol, names, metrics and polls. Each violation is a text."""

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
    """Return which attributes of a parser the object does not have, or has with a wrong type."""
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
    violations += _items("gives", parser.gives, str)
    violations += _items("polls", parser.polls, Poll)
    violations += _items("metrics", parser.metrics, Metric)
    return violations


def _items(name: str, items: Any, kind: type) -> list[str]:
    if not isinstance(items, tuple | list):
        return [f"{name} is not a tuple"]
    return [
        f"{name}[{position}] is {type(item).__name__}, not {kind.__name__}"
        for position, item in enumerate(items)
        if not isinstance(item, kind)
    ]


# Metrics that merge and the daemon derive from devices and other readings.
_MADE_BY_THE_DAEMON = MERGE_METRICS | {
    "busy_seconds_total",
    "energy_estimated_joules_total",
    "rank_info",
    "foreign_memory_bytes",
}
# Labels that every series of a device, or every scraped series, already has.
TAKEN_LABELS = frozenset({"vendor", "device", "id", "model", "job", "instance", "le", "quantile"})

# State sets have a closed list of words, so that dashboards can colour them. Other labels may have a vendor's words.
_CLOSED_LABELS = frozenset({"state", "action", "level"})

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_VENDOR = re.compile(r"[a-z0-9]+\Z")
_WORD = re.compile(r"[a-z0-9_]{1,64}\Z")
_LABEL = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_UNITS = frozenset(metric.unit for metric in CATALOGUE if metric.unit)
_TIERS = get_args(Tier)
_LONGEST_NAME = 40


def violations(parser: Parser | DescribedParser) -> tuple[str, ...]:
    """Return the violations in a parser's declaration; empty if there are none."""
    if parser.contract_version != CONTRACT_VERSION:
        return (f"contract_version is {parser.contract_version}, this is version {CONTRACT_VERSION}",)
    return (*_identity(parser), *_gives(parser), *_metrics(parser), *_polls(parser))


def rows(parser: Parser | DescribedParser) -> Mapping[str, Metric]:
    """Return the parser's metrics by key: the catalogue's and its own."""
    metrics = {**BY_KEY, **{metric.key: metric for metric in parser.metrics}}
    return {key: metrics[key] for key in parser.gives if key in metrics}


def _is_word(text: str) -> bool:
    """Return whether a text is valid as a label value: lower-case letters, digits and underscores."""
    return _WORD.match(text) is not None


def is_label(text: str) -> bool:
    """Return whether a text is valid as the name of a label or fact."""
    return _LABEL.match(text) is not None


def label_fits(metric: Metric, label: str) -> bool:
    """Return whether a reading of the metric may have this label: none, a word of a closed list, or any word."""
    if not metric.label:
        return label == ""
    if metric.label in _CLOSED_LABELS and metric.words:
        return label in metric.words
    return _is_word(label)


def _identity(parser: Parser | DescribedParser) -> Iterator[str]:
    if _NAME.match(parser.name) is None or len(parser.name) > _LONGEST_NAME:
        yield f"name {parser.name!r} must be lower-case letters, digits, single hyphens; at most {_LONGEST_NAME}"
    host_only = all(key in BY_KEY and BY_KEY[key].scope == "host" for key in parser.gives)
    if _VENDOR.match(parser.vendor) is None and not (parser.vendor == "" and host_only):
        yield f"vendor {parser.vendor!r} must be lower-case letters and digits"


def _gives(parser: Parser | DescribedParser) -> Iterator[str]:
    declared = {metric.key for metric in parser.metrics}
    if not parser.gives and parser.vendor:  # sources of owners have no readings
        yield "gives nothing"
    for key, count in Counter(parser.gives).items():
        if count > 1:
            yield f"gives names a metric twice: {key}"
        if key in _MADE_BY_THE_DAEMON:
            yield f"gives {key}, which the daemon derives"
        elif key not in declared and (key not in BY_KEY or BY_KEY[key].scope in ("daemon", "owner")):
            yield f"gives {key}, which is neither in the catalogue nor among the parser's metrics"
    for key in sorted(declared.difference(parser.gives)):
        yield f"declares metric {key} but does not give it"


def _metrics(parser: Parser | DescribedParser) -> Iterator[str]:
    for metric in parser.metrics:
        for wrong in (*_metric_name(metric, parser.vendor), *_metric(metric), *_label(metric)):
            yield f"metric {metric.name}: {wrong}"


def _metric_name(metric: Metric, vendor: str) -> Iterator[str]:
    prefix = f"accelerator_{vendor}_"
    if not metric.name.startswith(prefix) or not _is_word(metric.name.removeprefix(prefix)):
        yield f"its name must begin with {prefix}, followed by lower-case letters, digits, underscores"
    if metric.name in BY_NAME:
        yield "the catalogue has a metric of that name"
    if (metric.kind == "counter") != metric.name.endswith("_total"):
        yield "a counter must end in _total, and nothing else may"
    if metric.unit and (metric.unit not in _UNITS or not metric.name.removesuffix("_total").endswith(metric.unit)):
        yield f"its unit must be a base unit ({' '.join(sorted(_UNITS))}), and its name must end in it"


def _metric(metric: Metric) -> Iterator[str]:
    if metric.kind == "info" or metric.scope != "device" or metric.core:
        yield "a parser declares gauges and counters of devices only, and none as core"
    if not metric.help.strip() or "\n" in metric.help or not metric.low < metric.high:
        yield "needs a help text and a range: one line, and a low that is below its high"


def _label(metric: Metric) -> Iterator[str]:
    if metric.label and (not is_label(metric.label) or metric.label in TAKEN_LABELS):
        yield f"its label {metric.label!r} is reserved or not a lower-case word"
    if metric.words and not metric.label:
        yield "it has words for a label but no label"
    for word in metric.words:
        if not _is_word(word):
            yield f"its word {word!r} must be lower-case letters, digits, underscores"


def _polls(parser: Parser | DescribedParser) -> Iterator[str]:
    names = [poll.name for poll in parser.polls]
    if not names or len(set(names)) < len(names):
        yield "needs at least one poll, with unique names"
    elif parser.vendor and not any(poll.lists_devices or _asks_each(poll) for poll in parser.polls):
        yield "has no poll that lists devices"
    for poll in parser.polls:
        yield from (f"poll {poll.name}: {wrong}" for wrong in (*_poll(poll), *_request(poll.request)))


def _asks_each(poll: Poll) -> bool:
    """Return whether a poll is repeated for each device; another source of the vendor may list the devices."""
    return isinstance(poll.request, Command) and poll.request.per is not None


def _poll(poll: Poll) -> Iterator[str]:
    if _NAME.match(poll.name) is None:
        yield "its name must be lower-case letters, digits, single hyphens"
    if poll.tier not in _TIERS:
        yield f"tier {poll.tier!r} is none of {' '.join(_TIERS)}"
    for what, seconds in (("interval", poll.interval), ("deadline", poll.deadline)):
        if not 0 < seconds < math.inf:
            yield f"{what} {seconds!r} is not a valid time"


def _request(request: object) -> Iterator[str]:
    if isinstance(request, Command):
        yield from _command(request)
    elif isinstance(request, Files):
        paths = (*request.globs, *request.links, *request.binary)
        if not paths or not all(path.startswith("/") for path in paths):
            yield "needs paths, all absolute"
    elif isinstance(request, Library):
        if not (request.reader and request.calls):
            yield "needs a reader and calls"
    else:
        yield f"its request is {type(request).__name__}, not Command, Files or Library"


def _command(request: Command) -> Iterator[str]:
    if not request.alternatives or not all(line and all(line) for line in request.alternatives):
        yield "needs command lines without blank words"
    if any("/" in line[0] for line in request.alternatives if line):
        yield "names its tool by a path; use `folders` instead"
    if not all(folder.startswith("/") for folder in request.folders):
        yield "its folders must be absolute"
    placeholder = f"{{{request.per}}}"
    if request.per and not all(any(placeholder in word for word in line) for line in request.alternatives):
        yield f"is repeated per {request.per} but has no {placeholder}"
