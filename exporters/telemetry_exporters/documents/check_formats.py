"""Formats a checkup for several monitoring systems, and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from telemetry_exporters.documents.json_values import utc_time
from telemetry_exporters.judgement.checkup import Checkup, Status
from telemetry_exporters.judgement.overview import as_number, reading_value, slowdown_celsius, temperature
from telemetry_exporters.text import clean, cut
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.json_types import Schema, Word
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import MergedDevice

# node-problem-detector truncates the output of a plugin to this length.
_NPD_MAX_BYTES = 80
# Icinga keeps only a few kilobytes of the first line.
_MAX_FAILURES_IN_FIRST_LINE = 4
_MAX_LINE_LENGTH = 400
# Performance data of more devices would exceed the limits of monitoring systems.
_MAX_DEVICES = 64
_INVALID_LABEL_CHARACTERS = re.compile(r"[^A-Za-z0-9_.:-]+")
_PERCENT = 100.0
_StatusWord = Annotated[str, Schema({"enum": ["ok", "warning", "critical", "unknown"]})]


@dataclass(frozen=True, slots=True)
class CheckJson:
    """The result of one check of a device, a source or the device count."""

    name: Word
    status: _StatusWord
    words: str
    """A description of the condition."""
    remedy: str | None
    """What to do about the condition."""
    device: str | None
    """The id of the checked device."""
    source: str | None
    """The name of the checked source."""


@dataclass(frozen=True, slots=True)
class CheckupJson:
    """The output of `telemetry check --format json`. All keys are always present; unknown values are null. Later versions may add keys."""

    schema: Literal["telemetry.check/1"]
    time: Annotated[str, Schema({"format": "date-time"})]
    """The time of the readings, in UTC."""
    hostname: str
    status: _StatusWord
    """The worst status of all checks. The order, from worst to best: critical, warning, unknown, ok."""
    checks: tuple[CheckJson, ...]


class PerfData(NamedTuple):
    """One value of Nagios performance data."""

    name: str
    value: float | None
    unit: str = ""
    warning: float | None = None
    critical: float | None = None
    minimum: float | None = None
    maximum: float | None = None


def nagios_text(checkup: Checkup) -> str:
    """Return Nagios output: a line with the result and performance data, followed by a line for each failing check."""
    lines = [_one_line(f"TELEMETRY {checkup.status.name} - {_summary(checkup)}")]
    data = " ".join(_perf_data_texts(checkup))
    if data:
        lines[0] += f" | {data}"
    for check in checkup.troubles():
        text = "; ".join(filter(None, (f"{check.name}: {check.words}", check.remedy)))
        lines.append(_one_line(f"{check.status.name}: {text}"))
    return "\n".join(lines) + "\n"


def nhc_text(checkup: Checkup) -> str:
    """Return a line for each check, in the form that Node Health Check logs."""
    return "".join(f"{_one_line(f'{check.status.name} {check.name}: {check.words}')}\n" for check in checkup.checks)


def npd_text(checkup: Checkup) -> str:
    """Return the result as one line that node-problem-detector does not truncate."""
    text = _one_line(_summary(checkup))
    return _cut_bytes(text, _NPD_MAX_BYTES - 1) + "\n"


def document(checkup: Checkup) -> str:
    """Return the checkup as the document `telemetry.check/1`."""
    checks = [
        CheckJson(
            name=check.name,
            status=check.status.name.lower(),
            words=check.words,
            remedy=check.remedy or None,
            device=check.device or None,
            source=check.source or None,
        )
        for check in checkup.checks
    ]
    checkup_json = CheckupJson(
        schema="telemetry.check/1",
        time=utc_time(checkup.wall_time),
        hostname=checkup.hostname,
        status=checkup.status.name.lower(),
        checks=tuple(checks),
    )
    return json.dumps(to_plain(CheckupJson, checkup_json), ensure_ascii=False, indent=1) + "\n"


def nhc_status(status: Status) -> int:
    """Return the exit status for Node Health Check: 1 if the node is critical or unknown."""
    return int(status in (Status.CRITICAL, Status.UNKNOWN))


def npd_status(status: Status) -> int:
    """Return the exit status for node-problem-detector."""
    return {Status.CRITICAL: 1, Status.UNKNOWN: 2}.get(status, 0)


def _summary(checkup: Checkup) -> str:
    failing = tuple(checkup.troubles())
    if not checkup.devices and not failing:
        return "this node has no accelerators"
    if not failing:
        return f"{len(checkup.devices)} device{'s' * (len(checkup.devices) != 1)} ok"
    first_failures = "; ".join(f"{check.name}: {check.words}" for check in failing[:_MAX_FAILURES_IN_FIRST_LINE])
    omitted_count = len(failing) - _MAX_FAILURES_IN_FIRST_LINE
    return f"{first_failures}; and {omitted_count} more" if omitted_count > 0 else first_failures


def _one_line(text: str) -> str:
    return cut(clean(text).replace("|", "/"), _MAX_LINE_LENGTH)  # a "|" would start performance data


def _cut_bytes(text: str, limit: int) -> str:
    data = text.encode()
    return text if len(data) <= limit else data[: limit - 3].decode("utf-8", "ignore") + "…"


def _perf_data_texts(checkup: Checkup) -> Iterator[str]:
    cards = [device for device in checkup.devices if device.parent is None and device.up][:_MAX_DEVICES]
    for device in cards:
        label = _INVALID_LABEL_CHARACTERS.sub("_", f"{device.vendor}_{device.device}")
        for data in _perf_data(device):
            if data.value is not None:
                limits = map(_format_number, (data.warning, data.critical, data.minimum, data.maximum))
                suffix = ";".join(("", *limits)).rstrip(";")
                yield f"{label}_{data.name}={_format_number(data.value)}{data.unit}{suffix}"


def _perf_data(device: MergedDevice) -> Iterator[PerfData]:
    yield PerfData("temperature", as_number(temperature(device)), "", slowdown_celsius(device))
    yield PerfData("power", _number(device, "power_watts"), "", minimum=0.0, maximum=_number(device, "power_cap_watts"))
    for name, metric in (("memory", "memory_used_ratio"), ("utilization", "utilization_ratio")):
        ratio = _number(device, metric)
        percent = None if ratio is None else round(ratio * _PERCENT, 2)
        yield PerfData(name, percent, "%", minimum=0.0, maximum=_PERCENT)


def _number(device: MergedDevice, metric: str) -> float | None:
    return as_number(reading_value(device, metric))


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"
