"""Checks a parser's report: its types, labels, ranges and the origin of its numbers."""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, get_args

from telemetry_parsers.checks.declaration import is_label_name, is_valid_label_for
from telemetry_parsers.codec.captures import CodecError
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.contract import Parser
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import (
    REASONS,
    Absent,
    Capture,
    Device,
    Form,
    Metric,
    Outcome,
    Plain,
    Process,
    Reading,
    Report,
)
from telemetry_parsers.text.lines import plain
from telemetry_parsers.units import PCIE_GENERATIONS

_NUMBER = re.compile(r"[0-9]{1,24}(?:\.[0-9]{1,12})?")
_INTEGER_FORMATS = ("<B", "<H", "<I", "<Q")

# All factors by which units.py converts printed numbers to base units: (numerator, denominator).
_FACTORS: tuple[tuple[int, int], ...] = (
    (1, 1),
    (1, 100),
    *((1, 1000**power) for power in (1, 2, 3)),
    *((1000**power, 1) for power in (1, 2, 3)),
    *((1024**power, 1) for power in (1, 2, 3, 4)),
    (125_000, 1),  # megabits to bytes
    (1, 65_536),  # AMD counts energy in 2^-16 J
)
# Metrics for which a tool may print the link's speed instead of the PCIe generation.
_GENERATION_METRICS = frozenset({"pcie_link_generation", "pcie_link_generation_max"})
# Metrics that count printed rows or pages. The count itself need not be printed.
_COUNT_METRICS = frozenset({"processes", "retired_pages"})
# Metrics that may be the quotient of two numbers in the input, such as SIMDs / SIMDs per unit.
_QUOTIENT_METRICS = frozenset({"compute_units", "fan_ratio"})
# Metrics that are the difference of two numbers in the input.
_DIFFERENCE_METRICS = frozenset({"telemetry_host_memory_used_bytes"})
_PROCESS_SUM_METRICS = frozenset({"memory_processes_bytes"})


def _comes_from_input(metric: str, value: float, tokens: frozenset[str]) -> bool:
    """Return whether a number is in the input, or can be derived from it."""
    if metric in _COUNT_METRICS | _DIFFERENCE_METRICS:
        return True
    if metric in _GENERATION_METRICS and any(_canonical_number(speed) in tokens for speed in _link_speeds(value)):
        return True
    return _is_in_input(value, tokens) or (metric in _QUOTIENT_METRICS and _is_quotient(value, tokens))


def _capture_tokens(capture: Capture) -> frozenset[str]:
    tokens: set[str] = set()
    for output in capture.outputs:
        for text in {output.text, plain(output.text), output.stderr}:
            tokens.update(_number_tokens(text))
        for value in _simple_values(output.data):
            if isinstance(value, str):
                tokens.update(_value_tokens(value))
            elif isinstance(value, int | float) and abs(value) < 1e300:
                tokens.add(_canonical_number(abs(value)))
    return frozenset(tokens)


def _is_in_input(value: float, tokens: frozenset[str]) -> bool:
    return any(_canonical_number(abs(value) * denominator / numerator) in tokens for numerator, denominator in _FACTORS)


def _is_quotient(value: float, tokens: frozenset[str]) -> bool:
    return any(_canonical_number(value * float(token)) in tokens for token in tokens)


def _link_speeds(generation: float) -> tuple[float, ...]:
    gigatransfers = [float(speed) for speed, number in PCIE_GENERATIONS.items() if number == generation]
    return (*gigatransfers, *(10 * speed for speed in gigatransfers))  # gpu_metrics has units of 0.1 GT/s


def _canonical_number(number: float) -> str:
    return format(number, ".12g")


def _number_tokens(text: str) -> frozenset[str]:
    return frozenset(_canonical_number(float(token)) for token in set(_NUMBER.findall(text)))


@lru_cache(maxsize=8192)  # the damaged forms of a capture share most of their values
def _value_tokens(value: str) -> frozenset[str]:
    return _number_tokens(value) | {_canonical_number(number) for number in _numbers_in_base64(value)}


def _simple_values(data: Plain) -> Iterator[Plain]:
    pending: list[Any] = [data]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
        else:
            yield value


def _numbers_in_base64(text: str) -> Iterator[float]:
    """Yield the little-endian integers at all positions of base64 content. Yield nothing for other text."""
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:  # not base64
        return
    for code in _INTEGER_FORMATS:
        width = struct.calcsize(code)
        for position in range(0, len(content) - width + 1, min(width, 2)):
            yield float(struct.unpack_from(code, content, position)[0])


_OUTCOMES = get_args(Outcome)
_FORMS = get_args(Form)
# A bus address, possibly without the domain.
_BUS = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
# Maps a vendor to other vendors whose cards its tools list. Hygon's tools include copies of ROCm's tools.
_ALSO_LISTED: Mapping[str, frozenset[str]] = {"amd": frozenset({"hygon"})}


def report_violations(parser: Parser, capture: Capture, report: object) -> list[str]:
    """Return a message for each rule that the report on this capture violates."""
    if not isinstance(report, Report):
        return [f"parse returns {type(report).__name__}, not a Report"]
    metrics = {**BY_KEY, **{metric.key: metric for metric in parser.metrics}}
    return [
        *_check_outcome(report),
        *_check_devices(parser, report.devices),
        *_check_readings(parser, metrics, report),
        *_check_processes(report.processes, len(report.devices)),
        *_check_other_parts(report),
        *_check_origins(metrics, capture, report),
    ]


def numbers(report: Report) -> set[tuple[int | None, str, str, float]]:
    """Return the numbers in a report as (device index, metric, label, value)."""
    return {
        (None if item.device is None else report.devices[item.device].index, item.metric, item.label, item.value)
        for item in report.readings
        if not isinstance(item.value, Absent)
    }


def _check_outcome(report: Report) -> Iterator[str]:
    if report.outcome not in _OUTCOMES:
        yield f"outcome {report.outcome!r} must be one of {' '.join(_OUTCOMES)}"
    if (report.outcome == "failed") != (report.reason is not None) or report.reason not in (None, *REASONS):
        yield f"outcome {report.outcome} does not fit reason {report.reason}: a failure needs a reason, and other outcomes must have none"
    if report.outcome != "ok" and (report.devices or report.readings or report.processes or report.events):
        yield f"outcome {report.outcome} must not have devices or readings"
    if report.outcome in ("failed", "not_mine", "wrong_request") and not report.problems:
        yield f"outcome {report.outcome} needs a problem that explains it"


def _check_devices(parser: Parser, devices: tuple[Device, ...]) -> Iterator[str]:
    for position, device in enumerate(devices):
        where = f"device {position}"
        if device.vendor != parser.vendor and device.vendor not in _ALSO_LISTED.get(parser.vendor, ()):
            yield f"{where}: vendor {device.vendor!r} differs from the parser's vendor {parser.vendor!r}"
        if device.index is not None and (type(device.index) is not int or device.index < 0):
            yield f"{where}: invalid index {device.index!r}"
        if device.bus_id is not None and not _BUS.match(device.bus_id):
            yield f"{where}: bus_id {device.bus_id!r} is not dddd:bb:dd.f in lower case"
        if device.parent is not None and (device.parent not in range(len(devices)) or device.parent == position):
            yield f"{where}: parent {device.parent!r} must be the position of another device in the report"
        names = ("model", "uuid", "partition", "serial", "driver")
        blank_fields = [name for name in names if (text := getattr(device, name)) is not None and not text.strip()]
        if blank_fields:
            yield f"{where}: {' '.join(blank_fields)} must not be blank; use None for unknown values"
        yield from _check_facts(where, device.facts)


def _check_facts(where: str, facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in facts:
        if not is_label_name(name) or not isinstance(text, str) or not text.strip():
            yield f"{where}: invalid fact {name!r} = {text!r}"


def _check_readings(parser: Parser, metrics: Mapping[str, Metric], report: Report) -> Iterator[str]:
    seen: set[tuple[int | None, str, str]] = set()
    for reading in report.readings:
        name = f"reading {reading.metric}{{{reading.label}}} of device {reading.device}"
        metric = metrics.get(reading.metric)
        if metric is None or reading.metric not in parser.gives:
            yield f"{name}: the parser's `gives` does not contain this metric"
            continue
        if (reading.device, reading.metric, reading.label) in seen:
            yield f"{name}: reported twice"
        seen.add((reading.device, reading.metric, reading.label))
        yield from (f"{name}: {violation}" for violation in _check_reading(metric, reading, len(report.devices)))


def _check_reading(metric: Metric, reading: Reading, device_count: int) -> Iterator[str]:
    if metric.scope in ("daemon", "owner"):
        yield "only the daemon may report this metric"
    if (reading.device is None) != (metric.scope == "host") or (
        reading.device is not None and reading.device not in range(device_count)
    ):
        yield "its device is not in the report"
    if not is_valid_label_for(metric, reading.label):
        yield f"label {reading.label!r} is not valid for {metric.label or 'a metric without a label'}"
    if isinstance(reading.value, Absent):
        return
    if type(reading.value) is not float or not math.isfinite(reading.value):
        yield f"value {reading.value!r} is not a finite float"
    elif not metric.low <= reading.value <= metric.high:
        yield f"value {reading.value!r} is outside {metric.low} to {metric.high}"


def _check_processes(processes: tuple[Process, ...], device_count: int) -> Iterator[str]:
    for process in processes:
        memory = process.memory_used_bytes
        if process.device not in range(device_count) or type(process.pid) is not int or process.pid < 0:
            yield f"process {process.pid!r} of device {process.device!r}: invalid PID or device"
        if memory is not None and (type(memory) is not float or not math.isfinite(memory) or memory < 0):
            yield f"process {process.pid}: invalid memory {memory!r}"


def _check_other_parts(report: Report) -> Iterator[str]:
    if report.form not in _FORMS:
        yield f"invalid form {report.form!r}"
    for event in report.events:
        if not event.code or (event.device is not None and event.device not in range(len(report.devices))):
            yield f"event {event.code!r} of device {event.device!r}: invalid code or device"
    if any(not problem.text.strip() for problem in report.problems):
        yield "a problem has no text"
    if any(not name.strip() for name in report.unknown_fields):
        yield "an unknown field has no name"
    yield from _check_facts("report", report.facts)
    try:
        if from_plain(Report, to_plain(Report, report)) != report:
            yield "the report changes when it is recorded and read back"
    except CodecError as error:
        yield f"the report cannot be recorded: {error}"


def _check_origins(metrics: Mapping[str, Metric], capture: Capture, report: Report) -> Iterator[str]:
    tokens = _capture_tokens(capture)
    for reading in report.readings:
        if not isinstance(reading.value, Absent) and reading.metric in metrics:
            yield from (
                f"reading {reading.metric}: {violation}"
                for violation in _check_origin(metrics[reading.metric], reading, report, tokens)
            )
    for process in report.processes:
        if process.memory_used_bytes is not None and not _is_in_input(process.memory_used_bytes, tokens):
            yield f"process {process.pid}: memory {process.memory_used_bytes!r} is not in the input"


def _check_origin(metric: Metric, reading: Reading, report: Report, tokens: frozenset[str]) -> Iterator[str]:
    """Yield a violation if the number is not in the input and cannot be derived from it."""
    if isinstance(reading.value, Absent):
        return
    if (metric.unit, metric.low, metric.high) == ("", 0, 1):
        if reading.value not in (0.0, 1.0):
            yield f"the state {reading.value!r} is neither 0 nor 1"
    elif reading.metric in _PROCESS_SUM_METRICS:
        if reading.value != sum(
            process.memory_used_bytes or 0 for process in report.processes if process.device == reading.device
        ):
            yield f"{reading.value!r} is not the sum of the processes' memory"
    elif not _comes_from_input(reading.metric, reading.value, tokens):
        yield f"{reading.value!r} is not in the input"
