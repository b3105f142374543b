"""Detects alarms, and decides for which of them the flight recorder writes a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from telemetry_exporters.judgement.evidence import TEMPERATURES, DeviceView, Positions, detect_critical_temperature
from telemetry_exporters.judgement.thresholds import pattern
from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Absent, Health, MergedDevice, State
from telemetry_parsers.past import PastEvent
from telemetry_parsers.readings import ReadingKey, Readings, Shape

THROTTLED, OVER_CRITICAL, STUCK, FAILED, LOST = "throttled_by_heat", "over_critical", "stuck", "failed", "lost"
# These events are not faults.
_HARMLESS = frozenset({"returned", "removed"})
# Each row: (cause, metric, pattern of the label). An increase of a matching value raises an alarm with this cause.
_CAUSES: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (THROTTLED, "throttled", re.compile(pattern("heat_reasons"))),
    ("uncorrected_errors", "ecc_uncorrected_total", re.compile(".*")),
    ("unhealthy", "health", re.compile("alarm|critical")),
    ("recovery_needed", "recovery_action", re.compile("(?!none$).*")),
    ("row_remap_failed", "row_remap_failed", re.compile(".*")),
)
_TEMPERATURE = TEMPERATURES[0]
_MAX_SHAPES = 64


class Severity(IntEnum):
    """How severe an alarm is."""

    MINOR = 0
    SERIOUS = 1
    CRITICAL = 2


# A burst ends after QUIET_SECONDS without an alarm, or after MAX_BURST_SECONDS.
QUIET_SECONDS, MAX_BURST_SECONDS = 120.0, 600.0
# If a card is lost this soon after its first error, its file is rewritten once.
REWRITE_SECONDS = 60.0
# A lost card gets a file even after many minor alarms, because severe alarms have higher limits.
MAX_FILES_AN_HOUR: Mapping[Severity, int] = {Severity.MINOR: 3, Severity.SERIOUS: 4, Severity.CRITICAL: 6}
MAX_SOURCE_FILES: Mapping[Severity, int] = {Severity.MINOR: 2, Severity.SERIOUS: 3, Severity.CRITICAL: 4}
MAX_CARD_FILES: Mapping[Severity, int] = {Severity.MINOR: 1, Severity.SERIOUS: 2, Severity.CRITICAL: 3}
MAX_CARD_FILES_OF_SAME_SEVERITY = 2
MAX_FAULT_FILES_A_DAY = 6  # more files about the same fault would add no information
# A card's first loss in a day gets a file despite the hourly limits, if the card was up this long before.
MIN_UP_SECONDS = 600.0
MAX_FIRST_LOSSES_A_DAY = 16  # such files for each source, because a faulty source may lose many cards
_HOUR_SECONDS, _DAY_SECONDS = 3600.0, 86_400.0
_MAX_CRITICAL_FAULTS = 4096
_MAX_DEVICE_VALUES = 8 * bounds.MAX_LABEL_VALUES


@dataclass(frozen=True, slots=True)
class Alarm:
    """A fault of the device or source `subject`."""

    cause: str
    subject: str
    severity: Severity = Severity.SERIOUS
    source: str = ""
    up_seconds: float = 0.0


class AlarmDetector:
    """Passes new faults of devices and sources to `on_alarm`, which must not raise."""

    def __init__(self, on_alarm: Callable[[Alarm], None], monotonic: Callable[[], float]) -> None:
        self._on_alarm = on_alarm
        self._monotonic = monotonic
        self._previous_devices: dict[str, MergedDevice] = {}
        # Maps devices to the times at which they came up, newest last.
        self._up_since: dict[str, float] = {}
        self._source_by_device: dict[str, str] = {}
        self._fault_values: dict[str, dict[ReadingKey, float]] = {}
        # The last values that can raise alarms. They rarely change, and unchanged values need no check.
        self._last_values: dict[str, tuple[Shape, object]] = {}
        self._states_by_poll: dict[tuple[str, str], State] = {}

    def add_event(self, event: PastEvent) -> None:
        """Raise an alarm for a device's event, unless it is harmless."""
        alarm = Alarm(event.code, event.id, _severity(event.code), self._source_by_device.get(event.id, ""))
        if event.code == LOST and event.id in self._up_since:
            self._on_alarm(replace(alarm, up_seconds=self._monotonic() - self._up_since.pop(event.id)))
        elif event.code not in _HARMLESS and event.code != LOST:
            self._on_alarm(alarm)

    def update(self, devices: Sequence[MergedDevice], health_by_poll: Mapping[tuple[str, str], Health]) -> None:
        """Raise alarms for new faults of the devices and polls."""
        for device in devices:
            if self._previous_devices.get(device.id) is not device:
                self._update_device(device)
        self._previous_devices = {device.id: device for device in devices}
        for device_id in self._fault_values.keys() - self._previous_devices.keys():
            del self._fault_values[device_id], self._last_values[device_id], self._source_by_device[device_id]
        for key, health in health_by_poll.items():
            previous, self._states_by_poll[key] = self._states_by_poll.get(key), health.state
            if health.state == STUCK and previous != STUCK:
                self._on_alarm(Alarm(STUCK, key[0], Severity.CRITICAL, key[0]))
            elif health.state == FAILED and previous == "ok":
                self._on_alarm(Alarm(FAILED, key[0], Severity.MINOR, key[0]))

    def _update_device(self, device: MergedDevice) -> None:
        if device.up:
            self._mark_as_up(device.id)
        if not device.readings:
            return
        readings = Readings.of(device.readings)
        values = _value_selector(readings.shape)(readings.values)
        shape, previous = self._last_values.get(device.id, (None, None))
        is_unchanged = shape is readings.shape and previous == values
        self._last_values[device.id] = readings.shape, values
        source = self._source_by_device[device.id] = readings.origins[0].source
        known_values = self._fault_values.setdefault(device.id, {})
        all_faults = chain(() if is_unchanged else _faults_by_cause(readings), _overheating(device, readings))
        for cause, faults in all_faults:
            increase = sum(value - known_values.get(key, value) for key, value in faults.items())
            known_values |= faults
            if increase > 0.0:
                self._on_alarm(Alarm(cause, device.id, source=source))
        if len(known_values) > _MAX_DEVICE_VALUES:  # a faulty source may report new labels forever
            current_keys = (*readings.shape.keys, (OVER_CRITICAL, ""))
            self._fault_values[device.id] = {key: known_values[key] for key in current_keys if key in known_values}

    def _mark_as_up(self, device_id: str) -> None:
        if device_id not in self._up_since:
            while len(self._up_since) >= bounds.MAX_REMEMBERED:  # a faulty source may report new devices forever
                del self._up_since[next(iter(self._up_since))]
            self._up_since[device_id] = self._monotonic()


def _faults_by_cause(readings: Readings) -> Iterator[tuple[str, dict[ReadingKey, float]]]:
    for cause, indices in _fault_indices(readings.shape):
        values = ((key, readings.values[index]) for key, index in indices)
        yield cause, {key: value for key, value in values if not isinstance(value, Absent)}


def _overheating(device: MergedDevice, readings: Readings) -> Iterator[tuple[str, dict[ReadingKey, float]]]:
    """Yield 1 if the device is too hot, else 0. Yield nothing if the device reports its throttling."""
    indices = _indices_by_metric(readings.shape)
    if any(not isinstance(readings.values[index], Absent) for _, index in indices["throttled"]):
        return
    view = DeviceView(device, readings, indices, 0.0)
    if view.numbers_by_label(_TEMPERATURE):
        yield OVER_CRITICAL, {(OVER_CRITICAL, ""): float(bool(detect_critical_temperature(view)))}


@lru_cache(maxsize=_MAX_SHAPES)
def _indices_by_metric(shape: Shape) -> Positions:
    return {
        metric: tuple((label, index) for (name, label), index in shape.indices.items() if name == metric)
        for metric in (*TEMPERATURES, "throttled")
    }


@lru_cache(maxsize=_MAX_SHAPES)
def _fault_indices(shape: Shape) -> tuple[tuple[str, tuple[tuple[ReadingKey, int], ...]], ...]:
    indices_by_cause = (
        (cause, tuple((key, i) for key, i in shape.indices.items() if key[0] == metric and label.fullmatch(key[1])))
        for cause, metric, label in _CAUSES
    )
    return tuple((cause, indices) for cause, indices in indices_by_cause if indices)


@lru_cache(maxsize=_MAX_SHAPES)
def _value_selector(shape: Shape) -> Callable[[Sequence[object]], object]:
    indices = [index for _, cause_indices in _fault_indices(shape) for _, index in cause_indices]
    return itemgetter(*indices) if indices else lambda _: ()


@lru_cache(maxsize=_MAX_SHAPES)
def _severity(code: str) -> Severity:
    if re.fullmatch(f"{pattern('xid_critical')}|{LOST}|gpu_lost", code):
        return Severity.CRITICAL
    return Severity.MINOR if re.fullmatch(pattern("xid_application"), code) else Severity.SERIOUS


@dataclass(frozen=True, slots=True, eq=False)
class CountedFile:
    """A file that counts towards the flight recorder's limits. `start` is a monotonic time."""

    start: float
    alarm: Alarm = Alarm("", "")
    is_exempt: bool = False  # does not count towards the hourly limits


class FlightFilePolicy:
    """Decides which alarms get a file. Not thread-safe."""

    def __init__(self, monotonic: Callable[[], float], file_times: Iterable[float] = ()) -> None:
        self._monotonic = monotonic
        # The files of the last day, including those of earlier daemons.
        self._files = list(map(CountedFile, file_times))
        self._burst_start = self._last_alarm_time = -float("inf")
        self._severity = Severity.MINOR
        self._first_subject = ""
        # The critical alarms of the current burst, as (subject, whether the subject was lost).
        self._critical_faults: set[tuple[str, bool]] = set()

    def start_burst(self, alarm: Alarm, pending: CountedFile | None = None) -> CountedFile | None:
        """Start a burst and return its file, which replaces `pending`. Return None if no file is needed or allowed."""
        now = self._monotonic()
        is_in_burst = now - self._last_alarm_time < QUIET_SECONDS and now - self._burst_start < MAX_BURST_SECONDS
        if is_in_burst and not self._needs_new_file(alarm, now, has_pending=pending is not None):
            self._last_alarm_time = now
            self._add_to_burst(alarm)
            return None
        files = [file for file in self._files if now - file.start < _DAY_SECONDS and file is not pending]
        is_first_loss = _is_first_loss(alarm, files)
        if not (is_first_loss or _is_within_limits(alarm, now, files)):
            return None
        if not is_in_burst:
            self._critical_faults.clear()
            self._severity = alarm.severity
        self._burst_start = self._last_alarm_time = now
        self._first_subject = alarm.subject
        self._add_to_burst(alarm)
        if pending is not None:
            self.remove(pending)
        file = CountedFile(now, alarm, is_first_loss)
        self.add(file)
        return file

    def add(self, file: CountedFile) -> None:
        """Count a file, unless it is already counted."""
        if file not in self._files:
            self._files = [other for other in self._files if file.start - other.start < _DAY_SECONDS]
            self._files.append(file)

    def remove(self, file: CountedFile) -> None:
        """Stop counting a file that could not be written."""
        if file in self._files:
            self._files.remove(file)

    def _needs_new_file(self, alarm: Alarm, now: float, *, has_pending: bool) -> bool:
        is_burst_new = now - self._burst_start < REWRITE_SECONDS
        if alarm.severity is Severity.CRITICAL and self._severity is Severity.CRITICAL:
            return _critical_fault(alarm) not in self._critical_faults and not is_burst_new
        # If a card is lost within a minute of its first fault, both belong in one file.
        is_same_card = alarm.subject == self._first_subject and self._severity is Severity.SERIOUS
        return alarm.severity > self._severity and not (is_same_card and is_burst_new and not has_pending)

    def _add_to_burst(self, alarm: Alarm) -> None:
        self._severity = max(self._severity, alarm.severity)
        if alarm.severity is Severity.CRITICAL and len(self._critical_faults) < _MAX_CRITICAL_FAULTS:
            self._critical_faults.add(_critical_fault(alarm))


def _is_within_limits(alarm: Alarm, now: float, day_files: Sequence[CountedFile]) -> bool:
    hour_files = [file for file in day_files if now - file.start < _HOUR_SECONDS and not file.is_exempt]
    card_files = [file for file in hour_files if file.alarm.subject == alarm.subject]
    fault = (alarm.cause, alarm.subject)
    fault_files = [file for file in day_files if (file.alarm.cause, file.alarm.subject) == fault]
    return (
        len(hour_files) < MAX_FILES_AN_HOUR[alarm.severity]
        and sum(file.alarm.source == alarm.source for file in hour_files) < MAX_SOURCE_FILES[alarm.severity]
        and len(card_files) < MAX_CARD_FILES[alarm.severity]
        and sum(file.alarm.severity is alarm.severity for file in card_files) < MAX_CARD_FILES_OF_SAME_SEVERITY
        and len(fault_files) < MAX_FAULT_FILES_A_DAY
    )


def _is_first_loss(alarm: Alarm, day_files: Sequence[CountedFile]) -> bool:
    if (alarm.cause, alarm.severity) != (LOST, Severity.CRITICAL) or alarm.up_seconds < MIN_UP_SECONDS:
        return False
    losses = [file for file in day_files if file.is_exempt and file.alarm.source == alarm.source]
    is_first = all((file.alarm.cause, file.alarm.subject) != (LOST, alarm.subject) for file in day_files)
    return is_first and len(losses) < MAX_FIRST_LOSSES_A_DAY


def _critical_fault(alarm: Alarm) -> tuple[str, bool]:
    return alarm.subject, alarm.cause == LOST
