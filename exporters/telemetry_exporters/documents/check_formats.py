"""A checkup in the formats of Nagios and Icinga, Slurm's node health check, node-problem-detector, and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from telemetry_exporters.documents.json_values import utc_time
from telemetry_exporters.judgement.checkup import Checkup, Status
from telemetry_exporters.judgement.overview import number_of, slowdown_celsius, temperature, value_of
from telemetry_exporters.text import clean, cut
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.json_types import Schema, Word
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import MergedDevice

# node-problem-detector cuts a longer output of a plugin.
_NPD_BYTES = 80
# Icinga keeps some kilobytes of a first line.
_MOST_IN_FIRST_LINE = 4
_LONGEST_LINE = 400
# Performance data of more devices would exceed the limits of monitoring systems.
_MOST_MEASURED = 64
_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9_.:-]+")
_PERCENT = 100.0
_StatusWord = Annotated[str, Schema({"enum": ["ok", "warning", "critical", "unknown"]})]


@dataclass(frozen=True, slots=True)
class CheckJson:
    """The check of one device, source, or number of devices."""

    name: Word
    status: _StatusWord
    words: str
    """Its condition in words."""
    remedy: str | None
    """What to do about it."""
    device: str | None
    """The id of the checked device."""
    source: str | None
    """The name of the checked source."""


@dataclass(frozen=True, slots=True)
class CheckupJson:
    """The verdict on a node, as `telemetry check --format json` prints it. All keys are always present; unknown values are null. Later versions may add keys."""

    schema: Literal["telemetry.check/1"]
    time: Annotated[str, Schema({"format": "date-time"})]
    """When the readings were put together, in UTC."""
    hostname: str
    status: _StatusWord
    """The worst of the checks: critical, then warning, then unknown, then ok."""
    checks: tuple[CheckJson, ...]


class Measured(NamedTuple):
    """A number for graphs: the end of its label, the number, its unit, and the values for warning, critical, minimum and maximum."""

    name: str
    value: float | None
    unit: str = ""
    warning: float | None = None
    critical: float | None = None
    least: float | None = None
    most: float | None = None


def nagios(checkup: Checkup) -> str:
    """Return the verdict with performance data, then a line for each failing check with its remedy."""
    lines = [_plain(f"TELEMETRY {checkup.status.name} - {_short(checkup)}")]
    data = " ".join(_performance(checkup))
    if data:
        lines[0] += f" | {data}"
    for check in checkup.troubles():
        words = "; ".join(filter(None, (f"{check.name}: {check.words}", check.remedy)))
        lines.append(_plain(f"{check.status.name}: {words}"))
    return "\n".join(lines) + "\n"


def nhc(checkup: Checkup) -> str:
    """Return a line for each check, OK or the problem, as node health checks log them."""
    return "".join(f"{_plain(f'{check.status.name} {check.name}: {check.words}')}\n" for check in checkup.checks)


def npd(checkup: Checkup) -> str:
    """Return the verdict in a line that node-problem-detector does not cut."""
    text = _plain(_short(checkup))
    return _cut_bytes(text, _NPD_BYTES - 1) + "\n"


def document(checkup: Checkup) -> str:
    """Return the checkup as `telemetry.check/1`."""
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
    whole = CheckupJson(
        schema="telemetry.check/1",
        time=utc_time(checkup.wall_time),
        hostname=checkup.hostname,
        status=checkup.status.name.lower(),
        checks=tuple(checks),
    )
    return json.dumps(to_plain(CheckupJson, whole), ensure_ascii=False, indent=1) + "\n"


def nhc_status(status: Status) -> int:
    """Return 0 or 1. Unknown counts as unhealthy."""
    return int(status in (Status.CRITICAL, Status.UNKNOWN))


def npd_status(status: Status) -> int:
    """Return node-problem-detector's status: 0 ok, 1 problem, 2 unknown. A warning is not a problem of the node."""
    return {Status.CRITICAL: 1, Status.UNKNOWN: 2}.get(status, 0)


def _short(checkup: Checkup) -> str:
    """Return what is wrong, worst first, else how many devices are ok."""
    bad = tuple(checkup.troubles())
    if not checkup.devices and not bad:
        return "this node has no accelerators"
    if not bad:
        return f"{len(checkup.devices)} device{'s' * (len(checkup.devices) != 1)} ok"
    named = "; ".join(f"{check.name}: {check.words}" for check in bad[:_MOST_IN_FIRST_LINE])
    more = len(bad) - _MOST_IN_FIRST_LINE
    return f"{named}; and {more} more" if more > 0 else named


def _plain(text: str) -> str:
    """Return one line without `|`, which begins performance data."""
    return cut(clean(text).replace("|", "/"), _LONGEST_LINE)


def _cut_bytes(text: str, most: int) -> str:
    data = text.encode()
    return text if len(data) <= most else data[: most - 3].decode("utf-8", "ignore") + "…"


def _performance(checkup: Checkup) -> Iterator[str]:
    whole = [device for device in checkup.devices if device.parent is None and device.up][:_MOST_MEASURED]
    for device in whole:
        label = _NOT_IN_LABEL.sub("_", f"{device.vendor}_{device.device}")
        for item in _measured(device):
            if item.value is not None:
                limits = ";".join(map(_number, (item.warning, item.critical, item.least, item.most))).rstrip(";")
                yield f"{label}_{item.name}={_number(item.value)}{item.unit}{f';{limits}' if limits else ''}"


def _measured(device: MergedDevice) -> Iterator[Measured]:
    yield Measured("temperature", number_of(temperature(device)), "", slowdown_celsius(device))
    yield Measured("power", _value(device, "power_watts"), "", most=_value(device, "power_cap_watts"), least=0.0)
    for name, metric in (("memory", "memory_used_ratio"), ("utilization", "utilization_ratio")):
        share = _value(device, metric)
        yield Measured(name, None if share is None else round(share * _PERCENT, 2), "%", least=0.0, most=_PERCENT)


def _value(device: MergedDevice, metric: str) -> float | None:
    return number_of(value_of(device, metric))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"
