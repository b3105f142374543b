"""A checkup as its readers want it: Nagios and Icinga, node health checks of Slurm, node-problem-detector, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from telemetry_exporters.documents.json_values import utc_time
from telemetry_exporters.judgement.checkup import Check, Checkup, Status
from telemetry_exporters.judgement.overview import slowdown_celsius, temperature, value_of
from telemetry_exporters.text import clean, cut
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.json_types import Schema, Word
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent, MergedDevice

# node-problem-detector keeps no more of a plugin's output.
_NPD_BYTES = 80
# Icinga keeps some kilobytes of a first line, and longer lines are rarely read.
_MOST_IN_FIRST_LINE = 4
_LONGEST_LINE = 400
# Performance data of more devices would not fit what monitoring systems keep.
_MOST_MEASURED = 64
_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9_.:-]+")
_PERCENT = 100.0
_StatusWord = Annotated[str, Schema({"enum": ["ok", "warning", "critical", "unknown"]})]


@dataclass(frozen=True, slots=True)
class CheckJson:
    """One device, source, or number of devices that was looked at."""

    name: Word
    status: _StatusWord
    words: str
    """How it is."""
    remedy: str | None
    """What to do about it."""
    device: str | None
    """The device's id, where it is one."""
    source: str | None
    """The source's name, where it is one."""


@dataclass(frozen=True, slots=True)
class CheckupJson:
    """The verdict on a node, as `telemetry check --format json` prints it. All keys are always present; null is what there is none of. Further keys may come."""

    schema: Literal["telemetry.check/1"]
    time: Annotated[str, Schema({"format": "date-time"})]
    """When the readings were put together, in UTC."""
    hostname: str
    status: _StatusWord
    """The worst of the checks: critical, then warning, then unknown, then ok."""
    checks: tuple[CheckJson, ...]


class Measured(NamedTuple):
    """A number for graphs: its label's end, the number, its unit, and the values at which it warns, is critical, begins, and ends."""

    name: str
    value: float | None
    unit: str = ""
    warning: float | None = None
    critical: float | None = None
    least: float | None = None
    most: float | None = None


def nagios(checkup: Checkup) -> str:
    """The verdict with performance data, then a line for each thing that is not well, with its remedy."""
    first = _plain(_first_line(checkup))
    data = " ".join(_performance(checkup))
    bad = checkup.troubles()
    lines = [
        f"{first} | {data}" if data else first,
        *(_plain(f"{one.status.word}: {_with_remedy(one)}") for one in bad),
    ]
    return "\n".join(lines) + "\n"


def nhc(checkup: Checkup) -> str:
    """A line for each check, OK or what is wrong, as node health checks log them."""
    return "".join(f"{_plain(f'{one.status.word} {one.name}: {one.words}')}\n" for one in checkup.checks)


def npd(checkup: Checkup) -> str:
    """The verdict in a line that node-problem-detector keeps whole."""
    text = _plain(_short(checkup))
    return _cut_bytes(text, _NPD_BYTES - 1) + "\n"


def document(checkup: Checkup) -> str:
    """The checkup as `telemetry.check/1`."""
    checks = [
        CheckJson(
            name=one.name,
            status=one.status.word.lower(),
            words=one.words,
            remedy=one.remedy or None,
            device=one.device or None,
            source=one.source or None,
        )
        for one in checkup.checks
    ]
    whole = CheckupJson(
        schema="telemetry.check/1",
        time=utc_time(checkup.wall_time),
        hostname=checkup.hostname,
        status=checkup.status.word.lower(),
        checks=tuple(checks),
    )
    return json.dumps(to_plain(CheckupJson, whole), ensure_ascii=False, indent=1) + "\n"


def nhc_status(status: Status) -> int:
    """Return 0 or 1. Unknown counts as unhealthy."""
    return int(status in (Status.CRITICAL, Status.UNKNOWN))


def npd_status(status: Status) -> int:
    """node-problem-detector's: 0 well, 1 a problem, 2 unknown; a warning is reported, but is not a problem of the node."""
    return {Status.CRITICAL: 1, Status.UNKNOWN: 2}.get(status, 0)


def _first_line(checkup: Checkup) -> str:
    return f"TELEMETRY {checkup.status.word} - {_short(checkup)}"


def _short(checkup: Checkup) -> str:
    """What is wrong, the worst first; else how many devices are well."""
    bad = tuple(checkup.troubles())
    if not checkup.devices and not bad:
        return "this node has no accelerators"
    if not bad:
        return f"{len(checkup.devices)} device{'s' * (len(checkup.devices) != 1)} ok"
    named = "; ".join(f"{one.name}: {one.words}" for one in bad[:_MOST_IN_FIRST_LINE])
    more = len(bad) - _MOST_IN_FIRST_LINE
    return f"{named}; and {more} more" if more > 0 else named


def _with_remedy(check: Check) -> str:
    about = f"{check.name}: {check.words}"
    return f"{about}; {check.remedy}" if check.remedy else about


def _plain(text: str) -> str:
    """One line without `|`, which begins performance data."""
    return cut(clean(text).replace("|", "/"), _LONGEST_LINE)


def _cut_bytes(text: str, most: int) -> str:
    data = text.encode()
    return text if len(data) <= most else data[: most - 3].decode("utf-8", "ignore") + "…"


def _performance(checkup: Checkup) -> Iterator[str]:
    whole = [device for device in checkup.devices if device.parent is None and device.up][:_MOST_MEASURED]
    for device in whole:
        label = _NOT_IN_LABEL.sub("_", f"{device.vendor}_{device.device}")
        for one in _measured(device):
            if one.value is not None:
                limits = ";".join(map(_number, (one.warning, one.critical, one.least, one.most))).rstrip(";")
                yield f"{label}_{one.name}={_number(one.value)}{one.unit}{f';{limits}' if limits else ''}"


def _measured(device: MergedDevice) -> Iterator[Measured]:
    hottest = temperature(device)
    yield Measured("temperature", hottest if isinstance(hottest, float) else None, "", slowdown_celsius(device))
    yield Measured("power", _value(device, "power_watts"), "", most=_value(device, "power_cap_watts"), least=0.0)
    for name, metric in (("memory", "memory_used_ratio"), ("utilization", "utilization_ratio")):
        share = _value(device, metric)
        yield Measured(name, None if share is None else round(share * _PERCENT, 2), "%", least=0.0, most=_PERCENT)


def _value(device: MergedDevice, metric: str) -> float | None:
    value = value_of(device, metric)
    return None if value is None or isinstance(value, Absent) else value


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"
