"""Values for people: with units, with meaningful digits only, and never rounded to 0."""

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
# The least nanoseconds for a unit, the unit, and its nanoseconds.
_SPANS = ((10**11, "s", 10**9), (10**6, "ms", 10**6), (10**3, "µs", 10**3))
_LONGEST = 48
_BASES: Mapping[Basis, str] = {
    "whole": "the whole card",
    "partition": "of the card, as its partition",
    "utilization": "of the card, by utilization",
    "memory": "of the card, by memory",
    "equal": "of the card, in equal parts",
}
_USES: Mapping[tuple[bool, bool | None], str] = {
    (True, True): "allocated and used",
    (True, False): "allocated, not used",
    (True, None): "allocated",
    (False, True): "used, not allocated",
    (False, False): "not allocated",
    (False, None): "not allocated",
}
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def digits(value: float) -> str:
    """Return at least three digits, and all digits before the point; a whole number has no decimals."""
    if value == round(value):
        return f"{value:.0f}"
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.005 else f"{value:.2g}"


def percent(ratio: float) -> str:
    """Return a ratio in percent; less than a tenth of a percent is `<0.1 %`, not zero."""
    value = ratio * 100
    if 0 < value < 0.1:
        return "<0.1 %"
    rounded = f"{value:.0f}" if 9.95 <= value <= 99.0 or value >= 100.0 else f"{value:.1f}"
    return f"{rounded.removesuffix('.0')} %"


def byte_size(value: float) -> str:
    """Return an amount of memory in the binary unit that keeps it below 1,024."""
    return " ".join(_scaled(value, 1024.0, _BINARY))


def byte_pair(used: float, total: float) -> str:
    """Return two amounts, with a common unit once, as in `1.5 / 80 GiB`."""
    (number, unit), (all_number, all_unit) = _scaled(used, 1024.0, _BINARY), _scaled(total, 1024.0, _BINARY)
    first = number if unit == all_unit or used == 0 else f"{number} {unit}"
    return f"{first} / {all_number} {all_unit}"


def _scaled(value: float, step: float, units: tuple[str, ...]) -> tuple[str, str]:
    power = 0
    while abs(value) >= step * 0.9995 and power < len(units) - 1:
        value, power = value / step, power + 1
    return digits(value), units[power]


def watts(value: float) -> str:
    """Return a power, in whole watts from ten watts on, because tools measure no better."""
    return f"{value:.0f} W" if value >= 9.95 else f"{digits(value)} W"


def volts(value: float) -> str:
    """Return a voltage to the millivolt, as tools print it."""
    return f"{round(value, 3):g} V"


def celsius(value: float) -> str:
    """Return a temperature, with a decimal only if the tool printed one."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0") + " °C"


def hertz(value: float) -> str:
    """Return a clock in megahertz, as all vendors print it."""
    return f"{digits(value / 1e6)} MHz"


def joules(value: float) -> str:
    """Return an energy with a decimal prefix."""
    return _with_prefix(value, "J")


def bytes_per_second(value: float) -> str:
    """A data rate with a decimal prefix."""
    return _with_prefix(value, "B/s")


def _with_prefix(value: float, unit: str) -> str:
    number, prefix = _scaled(value, 1000.0, _DECIMAL)
    return f"{number} {prefix}{unit}"


def seconds(value: float) -> str:
    """Return a duration in its two largest parts; a short one in milliseconds."""
    if 0 < value < 0.1:
        return f"{digits(value * 1000)} ms"
    if value < _MINUTE:
        return f"{digits(value)} s"
    if value < _HOUR:
        return f"{int(value // _MINUTE)} min {int(value % _MINUTE)} s"
    if value < _DAY:
        return f"{int(value // _HOUR)} h {int(value % _HOUR // _MINUTE)} min"
    return f"{int(value // _DAY)} d {int(value % _DAY // _HOUR)} h"


def span(nanoseconds: int) -> str:
    """Return a short time to a tenth of its unit."""
    for least, name, scale in _SPANS:
        if abs(nanoseconds) >= least:
            return f"{nanoseconds / scale:,.1f} {name}"
    return f"{nanoseconds} ns"


def utc(unix_seconds: float) -> str:
    """Return a time to the second, in UTC."""
    return datetime.fromtimestamp(unix_seconds, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def is_moment(unix_seconds: float) -> bool:
    """Return whether a calendar has this time. Tools and other daemons may report any number."""
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


# Units that are known only from the ends of names.
_BY_END: Mapping[str, Callable[[float], str]] = {
    "_timestamp_seconds": utc,
    "_bytes_per_second": bytes_per_second,
    "_flops": lambda value: _with_prefix(value, "FLOP/s"),
}


def in_words(value: float, metric: Metric) -> str:
    """Return the value of a metric with its unit."""
    by_end = next((words for end, words in _BY_END.items() if metric.name.endswith(end)), None)
    return (by_end or _BY_UNIT.get(metric.unit, digits))(value)


def name(metric: Metric) -> str:
    """Return the metric's name in words, with its unit only if two metrics differ in nothing else."""
    short = _without_unit(metric)
    return (short if _SHORT_NAMES[short] < 2 else f"{short} {metric.unit}").replace("_", " ").rstrip()


def _without_unit(metric: Metric) -> str:
    key = metric.key.removeprefix("telemetry_host_")
    if metric.kind == "counter":
        key = key.removesuffix("_total")
    return key.removesuffix("_" + metric.unit) if metric.unit else key


# For devices without memory of their own.
SHARED = "shared with host"
# `memory_used_bytes` and `memory_used_ratio` are distinguished by their units.
_SHORT_NAMES = Counter(_without_unit(metric) for metric in CATALOGUE if metric.scope == "device")


def who(owner: Owner) -> str:
    """Return the owner in a few words: `job 1234 (alice)`, `pod ml/train-0/main`; only the kind if the name is hidden."""
    if owner.kind == "others":
        return "others"
    words = cut(f"{owner.kind} {owner.name}".rstrip(), _LONGEST)
    return f"{words} ({cut(owner.user, _LONGEST // 2)})" if owner.user and owner.kind != "user" else words


def owners_summary(allocations: Sequence[Allocation]) -> str:
    """Return the first of a card's owners and the number of others; empty without owners."""
    if not allocations:
        return ""
    more = len(allocations) - 1
    return who(allocations[0].owner) + (f" +{more}" if more else "")


def searched(allocations: Sequence[Allocation]) -> str:
    """Return all words by which the owners of a card can be found."""
    owners = [allocation.owner for allocation in allocations]
    texts = (text for owner in owners for text in (who(owner), owner.name, owner.job_name, owner.account))
    return " ".join(filter(None, texts))


def share(allocation: Allocation) -> str:
    """Return the owner's share of the card and its basis: `75 % of the card, by utilization`."""
    words = basis(allocation)
    return words if allocation.basis == "whole" else f"{percent(allocation.share)} {words}"


def basis(allocation: Allocation) -> str:
    """Return the basis of the share: `of the card, by utilization`."""
    return _BASES[allocation.basis]


def briefly(allocations: Sequence[Allocation]) -> str:
    """Return all owners of a card, and which of them do not use it: `job 1234 (alice): not used, user bob`."""
    return ", ".join(who(item.owner) + (": not used" if item.is_used is False else "") for item in allocations)


def standing(allocation: Allocation) -> str:
    """Return whether the card is allocated and used, the owner's memory, its start, and the sources that report it."""
    memory = allocation.memory_used_bytes
    parts = (
        _USES[allocation.is_allocated, allocation.is_used],
        "" if memory is None else byte_size(memory),
        since(allocation.started),
        f"reported by {', '.join(allocation.sources)}" if allocation.sources else "",
    )
    return ", ".join(filter(None, parts))


def of_process(process: Process) -> str:
    """Return the owner of a process, else its container; empty if neither is known."""
    if process.owner is not None:
        return who(process.owner)
    return f"container {cut(process.container, _LONGEST)}" if process.container else ""


def about_process(process: Process) -> str:
    """Return a process' program, user, owner, share of the card's time, and start."""
    command = process.command if process.command != process.name else ""
    parts = (
        process.name,
        command,
        f"of {process.user}" if process.user else "",
        of_process(process),
        f"GPU instance {process.instance}" if process.instance else "",
        "" if process.utilization_ratio is None else percent(process.utilization_ratio),
        since(process.started),
    )
    return ", ".join(filter(None, parts))


def since(started: float | None) -> str:
    """Return the start in UTC; empty if it is no valid time."""
    return f"since {utc(started)}" if started is not None and is_moment(started) else ""
