"""Formats values for people, with units and only significant digits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

from telemetry_exporters.text import cut
from telemetry_parsers.metrics import CATALOGUE
from telemetry_parsers.model import Metric
from telemetry_parsers.ownership import Allocation, Basis, Owner, Process

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P")
_YEAR_10000 = 253402300800.0
# Duration units: (minimum duration in ns, name, length in ns).
_DURATION_UNITS = ((10**11, "s", 10**9), (10**6, "ms", 10**6), (10**3, "µs", 10**3))
_MAX_NAME_LENGTH = 48
_BASIS_TEXTS: Mapping[Basis, str] = {
    "whole": "the whole card",
    "partition": "of the card, as a partition",
    "utilization": "of the card, by utilization",
    "memory": "of the card, by memory",
    "equal": "of the card, divided equally",
}
# Maps (is allocated, is used) to a text.
_USE_TEXTS: Mapping[tuple[bool, bool | None], str] = {
    (True, True): "allocated and used",
    (True, False): "allocated, not used",
    (True, None): "allocated",
    (False, True): "used, not allocated",
    (False, False): "not allocated",
    (False, None): "not allocated",
}
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
SHARED_WITH_HOST = "shared with host"


def number_text(value: float) -> str:
    """Format a number without insignificant decimals."""
    if value == round(value):
        return f"{value:.0f}"
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:.0f}"
    if magnitude >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if magnitude >= 0.005 else f"{value:.2g}"


def percent(ratio: float) -> str:
    """Format a ratio in percent."""
    value = ratio * 100
    if 0 < value < 0.1:
        return "<0.1 %"
    rounded = f"{value:.0f}" if 9.95 <= value <= 99.0 or value >= 100.0 else f"{value:.1f}"
    return f"{rounded.removesuffix('.0')} %"


def byte_size(value: float) -> str:
    """Format an amount of memory in a binary unit, such as `1.5 GiB`."""
    return " ".join(_format_scaled(value, 1024.0, _BINARY))


def byte_pair(used: float, total: float) -> str:
    """Format used and total memory, such as `1.5 / 80 GiB`."""
    used_number, used_unit = _format_scaled(used, 1024.0, _BINARY)
    total_number, total_unit = _format_scaled(total, 1024.0, _BINARY)
    used_text = used_number if used_unit == total_unit or used == 0 else f"{used_number} {used_unit}"
    return f"{used_text} / {total_number} {total_unit}"


def _format_scaled(value: float, step: float, units: tuple[str, ...]) -> tuple[str, str]:
    power = 0
    while abs(value) >= step * 0.9995 and power < len(units) - 1:
        value, power = value / step, power + 1
    return number_text(value), units[power]


def watts(value: float) -> str:
    """Format a power in watts."""
    return f"{value:.0f} W" if value >= 9.95 else f"{number_text(value)} W"


def volts(value: float) -> str:
    """Format a voltage, rounded to millivolts as tools print it."""
    return f"{round(value, 3):g} V"


def celsius(value: float) -> str:
    """Format a temperature in °C."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0") + " °C"


def hertz(value: float) -> str:
    """Format a clock frequency in megahertz, as all vendors print it."""
    return f"{number_text(value / 1e6)} MHz"


def joules(value: float) -> str:
    """Format an energy with a decimal prefix."""
    return _format_with_prefix(value, "J")


def bytes_per_second(value: float) -> str:
    """Format a data rate with a decimal prefix."""
    return _format_with_prefix(value, "B/s")


def _format_with_prefix(value: float, unit: str) -> str:
    number, prefix = _format_scaled(value, 1000.0, _DECIMAL)
    return f"{number} {prefix}{unit}"


def seconds(value: float) -> str:
    """Format a duration. A minute or more is shown in two units, such as `3 h 5 min`."""
    if 0 < value < 0.1:
        return f"{number_text(value * 1000)} ms"
    if value < _MINUTE:
        return f"{number_text(value)} s"
    if value < _HOUR:
        return f"{int(value // _MINUTE)} min {int(value % _MINUTE)} s"
    if value < _DAY:
        return f"{int(value // _HOUR)} h {int(value % _HOUR // _MINUTE)} min"
    return f"{int(value // _DAY)} d {int(value % _DAY // _HOUR)} h"


def short_duration(nanoseconds: int) -> str:
    """Format nanoseconds in a suitable unit up to seconds, such as `1.5 ms`."""
    for min_nanoseconds, unit, unit_nanoseconds in _DURATION_UNITS:
        if abs(nanoseconds) >= min_nanoseconds:
            return f"{nanoseconds / unit_nanoseconds:,.1f} {unit}"
    return f"{nanoseconds} ns"


def utc(unix_seconds: float) -> str:
    """Format a Unix time as date and time in UTC, rounded down to seconds."""
    return datetime.fromtimestamp(unix_seconds, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def is_valid_time(unix_seconds: float) -> bool:
    """Return whether the time can be formatted as a date."""
    return 0.0 <= unix_seconds < _YEAR_10000


_UNIT_FORMATS: Mapping[str, Callable[[float], str]] = {
    "celsius": celsius,
    "watts": watts,
    "volts": volts,
    "joules": joules,
    "bytes": byte_size,
    "ratio": percent,
    "hertz": hertz,
    "seconds": seconds,
}
# Maps a suffix of metric names to the function that formats the values.
_SUFFIX_FORMATS: Mapping[str, Callable[[float], str]] = {
    "_timestamp_seconds": utc,
    "_bytes_per_second": bytes_per_second,
    "_flops": lambda value: _format_with_prefix(value, "FLOP/s"),
}


def value_text(value: float, metric: Metric) -> str:
    """Format a value of the metric with its unit."""
    formats_by_name = (function for suffix, function in _SUFFIX_FORMATS.items() if metric.name.endswith(suffix))
    return next(formats_by_name, _UNIT_FORMATS.get(metric.unit, number_text))(value)


def metric_name(metric: Metric) -> str:
    """Return the metric's name in words. The unit is omitted, unless another metric then has the same name."""
    name = _key_without_unit(metric)
    unique_name = name if _SHORT_NAME_COUNTS[name] < 2 else f"{name} {metric.unit}"
    return unique_name.replace("_", " ").rstrip()


def _key_without_unit(metric: Metric) -> str:
    key = metric.key.removeprefix("telemetry_host_")
    if metric.kind == "counter":
        key = key.removesuffix("_total")
    return key.removesuffix("_" + metric.unit) if metric.unit else key


# Without their units, `memory_used_bytes` and `memory_used_ratio` would have the same name.
_SHORT_NAME_COUNTS = Counter(_key_without_unit(metric) for metric in CATALOGUE if metric.scope == "device")


def owner_text(owner: Owner) -> str:
    """Return the owner's kind, name and user, such as `job 1234 (alice)`."""
    if owner.kind == "others":
        return "others"
    text = cut(f"{owner.kind} {owner.name}".rstrip(), _MAX_NAME_LENGTH)
    return f"{text} ({cut(owner.user, _MAX_NAME_LENGTH // 2)})" if owner.user and owner.kind != "user" else text


def owners_summary(allocations: Sequence[Allocation]) -> str:
    """Return the first owner and the number of others, such as `job 1234 +2`."""
    if not allocations:
        return ""
    other_count = len(allocations) - 1
    return owner_text(allocations[0].owner) + (f" +{other_count}" if other_count else "")


def owners_search_text(allocations: Sequence[Allocation]) -> str:
    """Return the text in which a filter finds a card's owners, jobs and accounts."""
    owners = [allocation.owner for allocation in allocations]
    texts = (text for owner in owners for text in (owner_text(owner), owner.name, owner.job_name, owner.account))
    return " ".join(filter(None, texts))


def share_text(allocation: Allocation) -> str:
    """Return an owner's share and its basis, such as `75 % of the card, by utilization`."""
    basis_text = share_basis(allocation)
    return basis_text if allocation.basis == "whole" else f"{percent(allocation.share)} {basis_text}"


def share_basis(allocation: Allocation) -> str:
    """Return the basis of the share in words, such as `of the card, by utilization`."""
    return _BASIS_TEXTS[allocation.basis]


def owners_text(allocations: Sequence[Allocation]) -> str:
    """Return all owners of a card, such as `job 1234 (alice): not used, user bob`."""
    return ", ".join(owner_text(item.owner) + (": not used" if item.is_used is False else "") for item in allocations)


def allocation_details(allocation: Allocation) -> str:
    """Describe how the owner uses the card and which sources report it."""
    memory = allocation.memory_used_bytes
    parts = (
        _USE_TEXTS[allocation.is_allocated, allocation.is_used],
        "" if memory is None else byte_size(memory),
        since_text(allocation.started),
        f"reported by {', '.join(allocation.sources)}" if allocation.sources else "",
    )
    return ", ".join(filter(None, parts))


def allocation_text(allocation: Allocation) -> str:
    """Describe an owner's share, such as `user bob: the whole card, allocated and used`."""
    return f"{owner_text(allocation.owner)}: {share_text(allocation)}, {allocation_details(allocation)}"


def process_owner_text(process: Process) -> str:
    """Describe the owner of a process, or its container if the owner is unknown."""
    if process.owner is not None:
        return owner_text(process.owner)
    return f"container {cut(process.container, _MAX_NAME_LENGTH)}" if process.container else ""


def process_details(process: Process) -> str:
    """Describe a process: program, user, owner, GPU instance, share of the card's time, start."""
    command = process.command if process.command != process.name else ""
    parts = (
        process.name,
        command,
        f"of {process.user}" if process.user else "",
        process_owner_text(process),
        f"GPU instance {process.instance}" if process.instance else "",
        "" if process.utilization_ratio is None else percent(process.utilization_ratio),
        since_text(process.started),
    )
    return ", ".join(filter(None, parts))


def since_text(started: float | None) -> str:
    """Return a text such as `since 2026-01-31 12:00:00 UTC`, or an empty string if the start is unknown."""
    return f"since {utc(started)}" if started is not None and is_valid_time(started) else ""
