"""Computes how fast a node's counters grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from telemetry_exporters import human
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, Metric, Snapshot
from telemetry_parsers.readings import Readings, Shape

# If reading times are unknown, a counter that does not change for this long is considered constant.
_CONSTANT_AFTER_SECONDS = 30.0
_MIN_GROWTH_SECONDS = 60.0
_HOUR = 3600.0
_RATES: Mapping[str, Callable[[float], str]] = {
    "bytes": human.bytes_per_second,
    "joules": human.watts,
    "seconds": lambda share: human.percent(min(share, 1.0)),  # the share can exceed 100 %, because times are inexact
}
_MAX_SHAPES = 64


@dataclass(frozen=True, slots=True)
class Counter:
    """The first and the newest value of a counter, and its rate between the last two readings."""

    first: float
    first_time: float
    value: float
    time: float
    has_exact_time: bool
    per_second: float | None = None

    def text(self, metric: Metric) -> str:
        """Format the counter's rate or growth, or its total if they are unknown."""
        total = human.value_text(self.value, metric)
        rate = _RATES.get(metric.unit)
        if rate is not None:
            return total if self.per_second is None else rate(self.per_second)
        growth, seconds = self.value - self.first, self.time - self.first_time
        if growth <= 0 or seconds < _MIN_GROWTH_SECONDS:
            return total
        return f"{total}, {human.number_text(round(_HOUR * growth / seconds))} per hour"


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one node, by device, metric and label."""

    node: str = ""
    snapshot: Snapshot | None = None
    by_key: Mapping[tuple[str, str, str], Counter] = field(default_factory=dict)

    def updated(self, node: str, snapshot: Snapshot) -> Counters:
        """Return the counters after the next snapshot. Counters of another node are forgotten."""
        if node != self.node:
            return Counters(node).updated(node, snapshot)
        if snapshot is self.snapshot:
            return self
        by_key: dict[tuple[str, str, str], Counter] = {}
        for device in snapshot.devices:
            readings = Readings.of(device.readings)
            for index in _counter_indices(readings.shape):
                value, key = readings.values[index], (device.id, *readings.shape.keys[index])
                if not isinstance(value, Absent):
                    read_time = readings.origins[readings.shape.origins[index]].taken
                    by_key[key] = _update_counter(self.by_key.get(key), value, read_time, snapshot.monotonic_time)
        return Counters(node, snapshot, by_key)


@lru_cache(maxsize=_MAX_SHAPES)
def _counter_indices(shape: Shape) -> tuple[int, ...]:
    return tuple(
        index for index, (metric, _) in enumerate(shape.keys) if metric in BY_KEY and BY_KEY[metric].kind == "counter"
    )


def _update_counter(counter: Counter | None, value: float, read_time: float, now: float) -> Counter:
    """Return the counter after another reading. `read_time` is 0 if it is unknown."""
    time = read_time or now
    if counter is None or value < counter.value or time < counter.time:
        return Counter(value, time, value, time, has_exact_time=read_time > 0)
    is_same_reading = (
        time <= counter.time if read_time else value == counter.value and now - counter.time < _CONSTANT_AFTER_SECONDS
    )
    if is_same_reading:
        return counter
    elapsed = time - counter.time
    per_second = (value - counter.value) / elapsed if counter.has_exact_time and elapsed > 0.0 else None
    if not read_time and value == counter.value:
        per_second = 0.0
    is_exact = read_time > 0 or value != counter.value
    return replace(counter, value=value, time=time, has_exact_time=is_exact, per_second=per_second)
