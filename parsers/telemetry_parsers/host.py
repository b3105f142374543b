"""Parses the host's CPU, memory, load and uptime from the host reader's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Capture, Library, Output, Plain, Poll, Problem, Reading, Report, Value
from telemetry_parsers.text.answers import capped, failed, reader_failure
from telemetry_parsers.text.lines import quote

_PREFIX = "telemetry_host_"
_MAX_NUMBER = 1e18
# Maps each call to its metrics, in the order in which they are reported.
_METRICS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("cpu_utilization_ratio",),
    "memory": ("memory_used_bytes", "memory_total_bytes"),
    "load": ("load1", "load5", "load15"),
    "uptime": ("uptime_seconds",),
}


def parse(capture: Capture) -> Report:
    """Return the host's readings."""
    failure = reader_failure(capture)
    if failure is not None:
        return failure
    outputs = {output.name: output for output in capture.outputs if output.name in _METRICS}
    if not outputs:
        return failed("not_understood", "host", f"the capture contains no answer to the calls {' '.join(_METRICS)}")
    problems: list[Problem] = []
    readings: list[Reading] = []
    for call, keys in _METRICS.items():
        values = _parse_call(call, outputs.get(call), problems)
        readings.extend(reading(None, _PREFIX + key, values.get(key, Absent.NOT_REPORTED)) for key in keys)
    implausible = (item.metric for item in readings if item.value is Absent.IMPLAUSIBLE)
    problems += (Problem(metric.removeprefix(_PREFIX), f"{metric} is out of range") for metric in implausible)
    unknown = [quote(output.name) or "unnamed" for output in capture.outputs if output.name not in _METRICS]
    return Report(readings=tuple(readings), problems=capped(problems), unknown_fields=tuple(unknown), form="data")


def _parse_call(call: str, output: Output | None, problems: list[Problem]) -> Mapping[str, Value]:
    if output is None:
        return {}
    if output.status:
        problems.append(
            Problem(call, f"{call} failed with error {output.status}: {quote(output.stderr or output.text)}")
        )
        return {}
    if not isinstance(output.data, dict):
        problems.append(Problem(call, f"{call} returned {type(output.data).__name__}, not an object"))
        return dict.fromkeys(_METRICS[call], Absent.NOT_UNDERSTOOD)
    return _PARSERS[call](output.data, problems)


def _cpu_values(data: Mapping[str, Plain], problems: list[Problem]) -> Mapping[str, Value]:
    percent = _read_number(data, "utilization_percent", problems)
    return {"cpu_utilization_ratio": percent if isinstance(percent, Absent) else percent / 100}


def _memory_values(data: Mapping[str, Plain], problems: list[Problem]) -> Mapping[str, Value]:
    total = _read_number(data, "total_bytes", problems)
    available = _read_number(data, "available_bytes", problems)
    if isinstance(total, Absent) or isinstance(available, Absent):
        used = total if isinstance(total, Absent) else available
    else:
        used = total - available
    return {"memory_used_bytes": used, "memory_total_bytes": total}


_PARSERS: Mapping[str, Callable[[Mapping[str, Plain], list[Problem]], Mapping[str, Value]]] = {
    "cpu": _cpu_values,
    "memory": _memory_values,
    "load": lambda data, problems: {key: _read_number(data, key, problems) for key in _METRICS["load"]},
    "uptime": lambda data, problems: {"uptime_seconds": _read_number(data, "seconds", problems)},
}


def _read_number(data: Mapping[str, Plain], key: str, problems: list[Problem]) -> Value:
    value = data.get(key)
    if value is None:
        return Absent.NOT_REPORTED
    if isinstance(value, bool) or not isinstance(value, int | float):
        problems.append(Problem(key, f"{key} is {type(value).__name__}, not a number"))
        return Absent.NOT_UNDERSTOOD
    if not 0 <= value <= _MAX_NUMBER:  # also true for NaN
        return Absent.IMPLAUSIBLE
    return float(value)


PARSER = SourceParser(
    name="host",
    vendor="",
    gives=tuple(_PREFIX + key for keys in _METRICS.values() for key in keys),
    polls=(Poll("readings", Library("host", tuple(_METRICS)), interval=5.0, deadline=2.0, lists_devices=False),),
    parse=parse,
)
