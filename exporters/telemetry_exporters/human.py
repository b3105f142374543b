"""Values for people: with unit, with no more digits than are meaningful, and never rounded to a false zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from telemetry_parsers.metrics import CATALOGUE
from telemetry_parsers.model import Metric

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P")
_YEAR_10000 = 253402300800.0
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def digits(value: float) -> str:
    """At least three digits, and all digits before the point; a whole number has no decimals."""
    if value == round(value):
        return f"{value:.0f}"
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.005 else f"{value:.2g}"


def percent(ratio: float) -> str:
    """A ratio in percent; less than a tenth of a percent is `<0.1 %`, not zero."""
    value = ratio * 100
    if 0 < value < 0.1:
        return "<0.1 %"
    rounded = f"{value:.0f}" if 9.95 <= value <= 99.0 or value >= 100.0 else f"{value:.1f}"
    return f"{rounded.removesuffix('.0')} %"


def byte_size(value: float) -> str:
    """An amount of memory in the binary unit that keeps it below 1,024."""
    return " ".join(_scaled(value, 1024.0, _BINARY))


def byte_pair(used: float, total: float) -> str:
    """Two amounts; a common unit stands once, as in `1.5 / 80 GiB`."""
    (number, unit), (all_number, all_unit) = _scaled(used, 1024.0, _BINARY), _scaled(total, 1024.0, _BINARY)
    first = number if unit == all_unit or used == 0 else f"{number} {unit}"
    return f"{first} / {all_number} {all_unit}"


def _scaled(value: float, step: float, units: tuple[str, ...]) -> tuple[str, str]:
    place = 0
    while abs(value) >= step * 0.9995 and place < len(units) - 1:
        value, place = value / step, place + 1
    return digits(value), units[place]


def watts(value: float) -> str:
    """A power; from ten watts on in whole watts, since tools measure no better."""
    return f"{value:.0f} W" if value >= 9.95 else f"{digits(value)} W"


def volts(value: float) -> str:
    """A voltage as the tools print it, to the millivolt."""
    return f"{round(value, 3):g} V"


def celsius(value: float) -> str:
    """A temperature, with a decimal only where the tool gave one."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0") + " °C"


def hertz(value: float) -> str:
    """A clock in megahertz, as all vendors print it."""
    return f"{digits(value / 1e6)} MHz"


def joules(value: float) -> str:
    """An energy with a decimal prefix."""
    number, prefix = _scaled(value, 1000.0, _DECIMAL)
    return f"{number} {prefix}J"


def seconds(value: float) -> str:
    """A duration in the two largest of its parts; a short one in milliseconds."""
    if 0 < value < 0.1:
        return f"{digits(value * 1000)} ms"
    if value < _MINUTE:
        return f"{digits(value)} s"
    if value < _HOUR:
        return f"{int(value // _MINUTE)} min {int(value % _MINUTE)} s"
    if value < _DAY:
        return f"{int(value // _HOUR)} h {int(value % _HOUR // _MINUTE)} min"
    return f"{int(value // _DAY)} d {int(value % _DAY // _HOUR)} h"


# Nanoseconds from which on a unit suits, the unit, and its nanoseconds.
_SPANS = ((10**11, "s", 10**9), (10**6, "ms", 10**6), (10**3, "µs", 10**3))


def span(nanoseconds: int) -> str:
    """A short time to a tenth of the unit that suits it."""
    for least, name, scale in _SPANS:
        if abs(nanoseconds) >= least:
            return f"{nanoseconds / scale:,.1f} {name}"
    return f"{nanoseconds} ns"


def utc(unix_seconds: float) -> str:
    """A moment to the second, in UTC."""
    return datetime.fromtimestamp(unix_seconds, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def is_moment(unix_seconds: float) -> bool:
    """Whether a calendar has it: what others say of times may be anything."""
    return 0.0 <= unix_seconds < _YEAR_10000


_BY_UNIT: Mapping[str, Callable[[float], str]] = {
    "celsius": celsius,
    "watts": watts,
    "volts": volts,
    "joules": joules,
    "bytes": byte_size,
    "ratio": percent,
    "hertz": hertz,
    "seconds": seconds,
}


def in_words(value: float, metric: Metric) -> str:
    """The value of a metric with its unit."""
    if metric.name.endswith("_timestamp_seconds"):
        return utc(value)
    return _BY_UNIT.get(metric.unit, digits)(value)


def name(metric: Metric) -> str:
    """The metric's name in words. Its unit is left out, unless two metrics differ only in that."""
    short = _without_unit(metric)
    return (short if _SHORT_NAMES[short] < 2 else f"{short} {metric.unit}").replace("_", " ").rstrip()


def _without_unit(metric: Metric) -> str:
    key = metric.key.removeprefix("telemetry_host_")
    if metric.kind == "counter":
        key = key.removesuffix("_total")
    return key.removesuffix("_" + metric.unit) if metric.unit else key


# `memory_used_bytes` and `memory_used_ratio` are told apart by their units.
_SHORT_NAMES = Counter(_without_unit(metric) for metric in CATALOGUE if metric.scope == "device")
