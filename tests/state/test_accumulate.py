"""The daemon's own counters: every rule by example, and compared with a plain reference integral."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_daemon.state.accumulate import Accumulator
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, Event, Health, MergedDevice, MergedReading, Value
from telemetry_parsers.past import PastEvent

BARE = MergedDevice("nvidia", 0, "GPU-a", "0", "H100")


def merged(*readings: MergedReading, id: str = "GPU-a") -> MergedDevice:
    return replace(BARE, id=id, readings=readings)


def busy(
    taken: float, value: Value, source: str = "nvml", interval: float = 2.0, metric: str = "utilization_ratio"
) -> MergedReading:
    return MergedReading(metric, "", value, source, taken, interval)


def power(taken: float, value: Value, source: str = "nvml", interval: float = 2.0) -> MergedReading:
    return busy(taken, value, source, interval, "power_watts")


def counted(accumulator: Accumulator, device: MergedDevice) -> dict[str, Value]:
    """Return what was added to a device's readings, by metric or metric:label."""
    (result,) = accumulator.with_counters([device])
    assert result.readings[: len(device.readings)] == device.readings
    added = result.readings[len(device.readings) :]
    assert all(reading.source == "telemetry" for reading in added)
    return {f"{reading.metric}:{reading.label}".rstrip(":"): reading.value for reading in added}


def fed(*steps: tuple[MergedReading, ...]) -> dict[str, Value]:
    """Return the counters after these states of one device."""
    accumulator = Accumulator()
    for step in steps:
        accumulator.integrate([merged(*step)])
    return counted(accumulator, merged(*steps[-1]))


COUNTED: dict[str, tuple[list[tuple[Any, ...] | None], float]] = {
    "starts at 0": ([(0, 1.0)], 0.0),
    "a slope counts its trapezoid": ([(0, 0.0), (2, 1.0)], 1.0),
    "one missed poll is bridged": ([(0, 1.0), (4, 1.0)], 4.0),
    "more than two intervals is not": ([(0, 1.0), (4.1, 1.0)], 0.0),
    "continues at its old value after an expiry": ([(0, 1.0), (2, 1.0), None, (4, 1.0), (6, 1.0)], 4.0),
    "an absence is not bridged": ([(0, 1.0), (1, Absent.NOT_REPORTED), (2, 1.0)], 0.0),
    "another source that stays is counted on": ([(0, 1.0), (1, 1.0, "b"), (3, 1.0, "b"), (5, 1.0, "b")], 4.0),
    "no time is counted for two sources": ([(0, 1.0), (2, 1.0), (1, 1.0, "b"), (3, 1.0, "b")], 3.0),
    "nor by the one that is behind": ([(0, 1.0), (2, 1.0), (0.5, 1.0, "b"), (1.5, 1.0, "b"), (3, 1.0, "b")], 3.0),
}


@pytest.mark.parametrize(("steps", "seconds"), COUNTED.values(), ids=COUNTED)
def test_busy_seconds_are_the_integral_of_utilization(steps, seconds):
    assert fed(*(() if step is None else (busy(*step),) for step in steps)) == {"busy_seconds_total": seconds}


def test_energy_is_integrated_from_power():
    counter = busy(2, 1e9, metric="energy_joules_total")
    assert fed((power(0, 100.0),), (power(2, 300.0), counter)) == {"energy_estimated_joules_total": 400.0}


def test_counters_of_a_device_are_independent():
    steps = ((busy(0, 1.0), power(0, 50.0)), (power(2, 50.0),), (busy(4, 1.0), power(4, 50.0)))
    assert fed(*steps) == {"busy_seconds_total": 0.0, "energy_estimated_joules_total": 200.0}


@pytest.mark.parametrize(
    "last",
    [
        pytest.param((), id="no reading"),
        pytest.param((busy(2, Absent.IMPLAUSIBLE),), id="an absence"),
        pytest.param((MergedReading("utilization_ratio", "die1", 1.0, "nvml", 2.0, 2.0),), id="a labelled reading"),
    ],
)
def test_counter_is_absent_without_input(last):
    assert fed((busy(0, 1.0),), last) == {}


def test_counter_has_time_and_interval_of_its_input():
    accumulator = Accumulator()
    device = merged(busy(7.5, 0.5, interval=3.0))
    accumulator.integrate([device])
    (result,) = accumulator.with_counters([device])
    assert result.readings[-1] == MergedReading("busy_seconds_total", "", 0.0, "telemetry", 7.5, 3.0)


def test_with_counters_integrates_nothing():
    accumulator = Accumulator()
    accumulator.integrate([merged(busy(0, 1.0))])
    later = merged(busy(2, 1.0))
    assert counted(accumulator, later) == counted(accumulator, later) == {"busy_seconds_total": 0.0}


def test_missing_device_is_not_bridged():
    accumulator = Accumulator()
    other = merged(busy(1, 1.0), id="GPU-b")
    for devices in ([merged(busy(0, 1.0))], [other], [merged(busy(2, 1.0))]):
        accumulator.integrate(devices)
    assert counted(accumulator, merged(busy(2, 1.0))) == {"busy_seconds_total": 0.0}


def test_forgotten_device_starts_again():
    accumulator = Accumulator()
    for now in (0.0, 2.0):
        accumulator.integrate([merged(busy(now, 1.0)), merged(busy(now, 1.0), id="GPU-b")])
    accumulator.events.add_report(("nvml", "fast"), ["GPU-a"], [Event(0, "xid_31")], 1_800_000_000.0)
    accumulator.forget("GPU-a")
    accumulator.forget("never seen")
    assert counted(accumulator, merged(busy(2, 1.0))) == {}
    accumulator.integrate([merged(busy(4, 1.0)), merged(busy(4, 1.0), id="GPU-b")])
    assert counted(accumulator, merged(busy(4, 1.0))) == {"busy_seconds_total": 0.0}
    assert counted(accumulator, merged(busy(4, 1.0), id="GPU-b")) == {"busy_seconds_total": 4.0}


def test_every_counter_is_in_the_catalogue():
    accumulator = Accumulator()
    device = merged(busy(0, 1.0), power(0, 1.0))
    accumulator.integrate([device])
    accumulator.events.add_report(("nvml", "fast"), ["GPU-a"], [Event(0, "xid_31")], 1_800_000_000.0)
    (result,) = accumulator.with_counters([device])
    assert {reading.metric for reading in result.readings} <= BY_KEY.keys()


@dataclass(frozen=True)
class Step:
    """One merge: a power reading of a source after `elapsed` seconds, or none."""

    elapsed: float
    value: Value | None
    source: str
    interval: float


STEPS = st.lists(
    st.builds(
        Step,
        elapsed=st.floats(-5, 50, allow_nan=False),
        value=st.none() | st.sampled_from(list(Absent)) | st.floats(0, 20_000, allow_nan=False),
        source=st.sampled_from(["nvml", "nvml", "nvml", "dcgm"]),
        interval=st.sampled_from([2.0, 15.0]),
    ),
    max_size=40,
)


def reference(points: list[MergedReading | None]) -> float:
    """Return the integral by a plain loop over all states."""
    total, until, previous = 0.0, -math.inf, None
    for point in points:
        if point is None or isinstance(point.value, Absent):
            previous = None
        elif previous is None or point.source != previous.source:
            previous = point
        elif point.taken > previous.taken:
            if point.taken - previous.taken <= 2 * min(point.interval, previous.interval):
                start = min(point.taken, max(previous.taken, until))
                total += (point.taken - start) * (point.value + previous.value) / 2
                until = point.taken
            previous = point
    return total


@given(STEPS)
def test_integral_equals_the_reference(steps):
    accumulator, points, now, before = Accumulator(), [], 1000.0, 0.0
    for step in steps:
        now += step.elapsed
        point = None if step.value is None else power(now, step.value, step.source, step.interval)
        points.append(point)
        device = merged(*([] if point is None else [point]))
        accumulator.integrate([device])
        value = counted(accumulator, device).get("energy_estimated_joules_total")
        if value is not None:
            assert math.isfinite(value)
            assert value >= before
            assert value == pytest.approx(reference(points), rel=1e-9, abs=1e-9)
            before = value


class Observer:
    """A watch that records the codes of its events."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def add_event(self, event: PastEvent) -> None:
        self.codes.append(event.code)

    def update(self, devices: Sequence[MergedDevice], health_by_poll: Mapping[tuple[str, str], Health]) -> None:
        """Ignore the known devices."""


LASTING, XID = Event(0, "error_1", is_ongoing=True), Event(0, "xid_31")


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([(LASTING,)], []),
        ([(LASTING,), (LASTING,)], []),
        ([(LASTING, XID)], ["xid_31"]),
        ([(), (LASTING,)], ["error_1"]),
        ([(LASTING,), (), (LASTING,)], ["error_1"]),
        ([(LASTING,), (LASTING, Event(0, "error_2", is_ongoing=True))], ["error_2"]),
    ],
)
def test_watch_receives_new_events_only(reports: list[tuple[Event, ...]], expected: list[str]) -> None:
    received = Observer()
    accumulator = Accumulator(observer=received)
    for events in reports:
        accumulator.add_events(("npu-smi", "errors"), ["NPU-a"], events, 1_800_000_000.0)
    assert received.codes == expected
    others = Observer()
    accumulator = Accumulator(observer=others)
    accumulator.add_events(("npu-smi", "other"), ["NPU-a"], (), 1_800_000_000.0)
    accumulator.add_events(("npu-smi", "errors"), ["NPU-a"], (LASTING,), 1_800_000_000.0)
    assert others.codes == [], "another poll was first"
