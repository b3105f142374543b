"""The plain JSON forms of the types that are recorded or sent to another process, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, get_args

from telemetry_parsers.codec.fields import CodecError, Fields, decode_line, encode_line, jsonable, texts, unexpected
from telemetry_parsers.codec.reports import report_from_plain, report_to_plain
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import (
    REASONS,
    STATES,
    Capture,
    Command,
    Failure,
    Files,
    Kind,
    Library,
    Metric,
    Output,
    Plain,
    Poll,
    Request,
    Scope,
    Tier,
)

__all__ = [
    "CAPTURE_SCHEMA",
    "CodecError",
    "DescribedParser",
    "capture_from_plain",
    "capture_to_plain",
    "decode_line",
    "described_parser_from_plain",
    "encode_line",
    "failure_from_plain",
    "failure_to_plain",
    "metric_from_plain",
    "metric_to_plain",
    "output_from_plain",
    "output_to_plain",
    "parser_to_plain",
    "poll_from_plain",
    "poll_to_plain",
    "report_from_plain",
    "report_to_plain",
    "request_from_plain",
    "request_to_plain",
]

CAPTURE_SCHEMA = "telemetry.capture/1"

_KINDS: tuple[Kind, ...] = get_args(Kind)
_SCOPES: tuple[Scope, ...] = get_args(Scope)
_TIERS: tuple[Tier, ...] = get_args(Tier)


def _keys(names: str) -> frozenset[str]:
    return frozenset(names.split())


_CAPTURE = _keys("schema source poll request outputs failure seconds cpu_seconds wall_time monotonic_time")
_COMMAND = _keys("kind alternatives env on_deadline per folders")
_FILES = _keys("kind globs links binary skip_when")
_LIBRARY = _keys("kind reader calls")
_LIBRARY_AND_MODULE = _keys("kind reader calls module package")
_OUTPUT = _keys("name target text stderr status data")
_FAILURE = _keys("state reason text")
_POLL = _keys("name request tier interval deadline lists_devices wakes")
_METRIC = _keys("name kind unit help low high label words scope core card_level")
_PARSER = _keys("contract_version name vendor gives polls metrics")


@dataclass(frozen=True, slots=True)
class DescribedParser:
    """A parser in another process: all of the Parser protocol but `parse`."""

    contract_version: int
    name: str
    vendor: str
    gives: tuple[str, ...]
    polls: tuple[Poll, ...]
    metrics: tuple[Metric, ...] = ()


def capture_to_plain(capture: Capture) -> dict[str, Any]:
    """A capture as it is recorded, `telemetry.capture/1`."""
    failure = capture.failure
    return {
        "schema": CAPTURE_SCHEMA,
        "source": capture.source,
        "poll": capture.poll,
        "request": request_to_plain(capture.request),
        "outputs": [output_to_plain(output) for output in capture.outputs],
        "failure": None if failure is None else failure_to_plain(failure),
        "seconds": capture.seconds,
        "cpu_seconds": capture.cpu_seconds,
        "wall_time": capture.wall_time,
        "monotonic_time": capture.monotonic_time,
    }


def capture_from_plain(plain: Plain) -> Capture:
    """The capture of a recording; a CodecError names what is wrong with it."""
    if isinstance(plain, dict) and plain.get("schema") != CAPTURE_SCHEMA:
        raise unexpected("schema", CAPTURE_SCHEMA, plain.get("schema"))
    fields = Fields(plain, "", _CAPTURE)
    return Capture(
        source=fields.text("source"),
        poll=fields.text("poll"),
        request=request_from_plain(fields.any("request"), "request"),
        outputs=fields.items("outputs", output_from_plain),
        failure=None if fields.any("failure") is None else failure_from_plain(fields.any("failure"), "failure"),
        seconds=fields.number("seconds"),
        cpu_seconds=fields.number("cpu_seconds"),
        wall_time=fields.number("wall_time"),
        monotonic_time=fields.number("monotonic_time"),
    )


def failure_to_plain(failure: Failure) -> dict[str, Any]:
    """A reader's failure."""
    return {"state": failure.state, "reason": failure.reason, "text": failure.text}


def failure_from_plain(plain: Plain, path: str = "") -> Failure:
    """A reader's failure, with known state and reason."""
    fields = Fields(plain, path, _FAILURE)
    return Failure(fields.word("state", STATES), fields.word_or_none("reason", REASONS), fields.text("text"))


def output_to_plain(output: Output) -> dict[str, Any]:
    """One output; its `data` is plain already."""
    return {
        "name": output.name,
        "target": output.target,
        "text": output.text,
        "stderr": output.stderr,
        "status": output.status,
        "data": output.data,
    }


def output_from_plain(plain: Plain, path: str = "") -> Output:
    """One output, its `data` made of JSON's types only."""
    fields = Fields(plain, path, _OUTPUT)
    return Output(
        name=fields.text("name"),
        target=fields.text("target"),
        text=fields.text("text"),
        stderr=fields.text("stderr"),
        status=fields.whole_or_none("status"),
        data=jsonable(fields.any("data"), fields.path("data")),
    )


def request_to_plain(request: Request) -> dict[str, Any]:
    """A request with its kind: command, files or library."""
    if isinstance(request, Command):
        return {
            "kind": "command",
            "alternatives": [list(line) for line in request.alternatives],
            "env": [list(pair) for pair in request.env],
            "on_deadline": request.on_deadline,
            "per": request.per,
            "folders": list(request.folders),
        }
    if isinstance(request, Files):
        return {
            "kind": "files",
            "globs": list(request.globs),
            "links": list(request.links),
            "binary": list(request.binary),
            "skip_when": [list(pair) for pair in request.skip_when],
        }
    if isinstance(request, Library):
        plain = {"kind": "library", "reader": request.reader, "calls": list(request.calls)}
        return {**plain, "module": request.module, "package": request.package} if request.module else plain
    raise CodecError("request", f"expected a Command, Files or Library, found {type(request).__name__}")


def request_from_plain(plain: Plain, path: str = "") -> Request:
    """The request of that kind."""
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if kind == "command":
        return _command(Fields(plain, path, _COMMAND))
    if kind == "files":
        return _files(Fields(plain, path, _FILES))
    if kind == "library":
        return _library(plain, path)
    raise unexpected(f"{path}.kind" if path else "kind", "one of command files library", kind)


def _library(plain: dict[str, Plain], path: str) -> Library:
    """Most readers need no Python module, and nothing is written of none."""
    if "module" not in plain:
        fields = Fields(plain, path, _LIBRARY)
        return Library(fields.text("reader"), fields.texts("calls"))
    fields = Fields(plain, path, _LIBRARY_AND_MODULE)
    return Library(fields.text("reader"), fields.texts("calls"), fields.text("module"), fields.text("package"))


def _command(fields: Fields) -> Command:
    return Command(
        alternatives=fields.items("alternatives", texts),
        env=fields.pairs("env"),
        on_deadline=fields.word("on_deadline", ("kill", "abandon")),
        per=fields.word_or_none("per", ("card", "device")),
        folders=fields.texts("folders"),
    )


def _files(fields: Fields) -> Files:
    return Files(
        globs=fields.texts("globs"),
        links=fields.texts("links"),
        binary=fields.texts("binary"),
        skip_when=fields.pairs("skip_when"),
    )


def poll_to_plain(poll: Poll) -> dict[str, Any]:
    """A poll with its request."""
    return {
        "name": poll.name,
        "request": request_to_plain(poll.request),
        "tier": poll.tier,
        "interval": poll.interval,
        "deadline": poll.deadline,
        "lists_devices": poll.lists_devices,
        "wakes": poll.wakes,
    }


def poll_from_plain(plain: Plain, path: str = "") -> Poll:
    """A poll with its request."""
    fields = Fields(plain, path, _POLL)
    return Poll(
        name=fields.text("name"),
        request=request_from_plain(fields.any("request"), fields.path("request")),
        tier=fields.word("tier", _TIERS),
        interval=fields.number("interval"),
        deadline=fields.number("deadline"),
        lists_devices=fields.flag("lists_devices"),
        wakes=fields.flag("wakes"),
    )


def metric_to_plain(metric: Metric) -> dict[str, Any]:
    """A row of the catalogue; a range without an end has null there."""
    return {
        "name": metric.name,
        "kind": metric.kind,
        "unit": metric.unit,
        "help": metric.help,
        "low": None if metric.low == -math.inf else metric.low,
        "high": None if metric.high == math.inf else metric.high,
        "label": metric.label,
        "words": list(metric.words),
        "scope": metric.scope,
        "core": metric.core,
        "card_level": metric.card_level,
    }


def metric_from_plain(plain: Plain, path: str = "") -> Metric:
    """A row of the catalogue."""
    fields = Fields(plain, path, _METRIC)
    return Metric(
        name=fields.text("name"),
        kind=fields.word("kind", _KINDS),
        unit=fields.text("unit"),
        help=fields.text("help"),
        low=fields.number_or("low", -math.inf),
        high=fields.number_or("high", math.inf),
        label=fields.text("label"),
        words=fields.texts("words"),
        scope=fields.word("scope", _SCOPES),
        core=fields.flag("core"),
        card_level=fields.flag("card_level"),
    )


def parser_to_plain(parser: Parser | DescribedParser) -> dict[str, Any]:
    """All of a parser but its function."""
    return {
        "contract_version": parser.contract_version,
        "name": parser.name,
        "vendor": parser.vendor,
        "gives": list(parser.gives),
        "polls": [poll_to_plain(poll) for poll in parser.polls],
        "metrics": [metric_to_plain(metric) for metric in parser.metrics],
    }


def described_parser_from_plain(plain: Plain) -> DescribedParser:
    """All of a parser but its function."""
    fields = Fields(plain, "", _PARSER)
    return DescribedParser(
        contract_version=fields.whole("contract_version"),
        name=fields.text("name"),
        vendor=fields.text("vendor"),
        gives=fields.texts("gives"),
        polls=fields.items("polls", poll_from_plain),
        metrics=fields.items("metrics", metric_from_plain),
    )
