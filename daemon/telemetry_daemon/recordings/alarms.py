"""Alarms: changes of devices and sources that may start a flight recorder file, and the rules that limit these files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from telemetry_exporters.judgement.evidence import TEMPERATURES, DeviceView, Positions, over_critical
from telemetry_exporters.judgement.thresholds import pattern
from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Absent, Health, MergedDevice, State
from telemetry_parsers.past import PastEvent
from telemetry_parsers.readings import ReadingKey, Readings, Shape

THROTTLED, OVER_CRITICAL, STUCK, FAILED, LOST = "throttled_by_heat", "over_critical", "stuck", "failed", "lost"
# An operator removed the card, or the card has recovered.
_NO_TROUBLE = frozenset({"returned", "removed"})
# The cause, and the metric with the labels whose growth is an alarm.
_READINGS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (THROTTLED, "throttled", re.compile(pattern("heat_reasons"))),
    ("uncorrected_errors", "ecc_uncorrected_total", re.compile(".*")),
    ("unhealthy", "health", re.compile("alarm|critical")),
    ("recovery_needed", "recovery_action", re.compile("(?!none$).*")),
    ("row_remap_failed", "row_remap_failed", re.compile(".*")),
)
_TEMPERATURE = TEMPERATURES[0]
_MOST_SHAPES = 64


class Rank(IntEnum):
    """The severity: caused by a job or over at the next poll; a fault of a card; a lost card or a failed source."""

    MINOR = 0
    SERIOUS = 1
    GRAVE = 2


# Alarms this soon after another belong to its burst. A burst ends at the latest after the second number of seconds.
QUIET_SECONDS, LONGEST_SECONDS = 120.0, 600.0
# A card may be lost half a minute after its first error. Alarms this soon after the file extend it once.
MORE_SECONDS = 60.0
# An alarm of a rank gets a file while the hour has fewer files than this. A job that crashes all night, or a hot card,
# leaves some for a lost card. A source that invents devices leaves some for other sources, and a flapping card leaves
# some for other cards.
MOST_AN_HOUR: Mapping[Rank, int] = {Rank.MINOR: 3, Rank.SERIOUS: 4, Rank.GRAVE: 6}
MOST_OF_A_SOURCE: Mapping[Rank, int] = {Rank.MINOR: 2, Rank.SERIOUS: 3, Rank.GRAVE: 4}
MOST_OF_A_CARD: Mapping[Rank, int] = {Rank.MINOR: 1, Rank.SERIOUS: 2, Rank.GRAVE: 3}
MOST_OF_A_RANK_OF_A_CARD = 2
# Further files about the same fault contain nothing new.
MOST_OF_A_FAULT_A_DAY = 6
# The first loss of a card in a day gets a file even if the hour's limit is reached, if the card was up this long
# before. A source that invents devices does not get many such files.
SETTLED_SECONDS, MOST_FIRST_LOSSES_A_DAY = 600.0, 16
_HOUR_SECONDS, _DAY_SECONDS = 3600.0, 86_400.0
_MOST_IN_A_BURST = 4096
# For one device: each of its causes has at most as many words as a source may report.
_MOST_TROUBLES = 8 * bounds.MOST_WORDS


@dataclass(frozen=True, slots=True)
class Alarm:
    """What happened, to which device or source, and how severe it is. `source` reported it; a lost card had been up for `up_seconds`."""

    cause: str
    whose: str
    rank: Rank = Rank.SERIOUS
    source: str = ""
    up_seconds: float = 0.0


class Alarms:
    """Watches what the store accepts, and passes alarms to a function that must be quick and must not raise."""

    def __init__(self, raised: Callable[[Alarm], None], monotonic: Callable[[], float]) -> None:
        self._raised = raised
        self._monotonic = monotonic
        self._devices: dict[str, MergedDevice] = {}
        # Since when each device has been up, newest last.
        self._up_since: dict[str, float] = {}
        # The source that reads each device. Devices without readings count as of one source.
        self._sources: dict[str, str] = {}
        self._troubles: dict[str, dict[ReadingKey, float]] = {}
        # The values that the troubles were derived from: most merges change none.
        self._values: dict[str, tuple[Shape, object]] = {}
        self._states: dict[tuple[str, str], State] = {}

    def add_event(self, event: PastEvent) -> None:
        """Handle an event of a device. A device that was lost before the start is in no capture."""
        alarm = Alarm(event.code, event.id, _rank(event.code), self._sources.get(event.id, ""))
        if event.code == LOST and event.id in self._up_since:
            self._raised(replace(alarm, up_seconds=self._monotonic() - self._up_since.pop(event.id)))
        elif event.code not in _NO_TROUBLE and event.code != LOST:
            self._raised(alarm)

    def update(self, devices: Sequence[MergedDevice], healths: Mapping[tuple[str, str], Health]) -> None:
        """Compare the devices and the health of the polls with their previous state."""
        for device in devices:
            if self._devices.get(device.id) is not device:
                self._look(device)
        self._devices = {device.id: device for device in devices}
        for gone in self._troubles.keys() - self._devices.keys():
            del self._troubles[gone], self._values[gone], self._sources[gone]
        for key, health in healths.items():
            before, self._states[key] = self._states.get(key), health.state
            if health.state == STUCK and before != STUCK:
                self._raised(Alarm(STUCK, key[0], Rank.GRAVE, key[0]))
            elif health.state == FAILED and before == "ok":
                self._raised(Alarm(FAILED, key[0], Rank.MINOR, key[0]))

    def _look(self, device: MergedDevice) -> None:
        if device.up:
            self._note(device.id)
        if not device.readings:
            return
        readings = Readings.of(device.readings)
        values = _values_of_troubles(readings.shape)(readings.values)
        shape, before = self._values.get(device.id, (None, None))
        is_as_before = shape is readings.shape and before == values
        self._values[device.id] = readings.shape, values
        source = self._sources[device.id] = readings.origins[0].source
        troubles = self._troubles.setdefault(device.id, {})
        for cause, numbers in chain(() if is_as_before else _troubles(readings), _heat(device, readings)):
            more = sum(number - troubles.get(key, number) for key, number in numbers.items())
            troubles |= numbers
            if more > 0.0:
                self._raised(Alarm(cause, device.id, source=source))
        if len(troubles) > _MOST_TROUBLES:  # a source may invent labels
            current = (*readings.shape.keys, (OVER_CRITICAL, ""))
            self._troubles[device.id] = {key: troubles[key] for key in current if key in troubles}

    def _note(self, device_id: str) -> None:
        if device_id not in self._up_since:
            while len(self._up_since) >= bounds.MOST_REMEMBERED:  # a source may invent devices
                del self._up_since[next(iter(self._up_since))]
            self._up_since[device_id] = self._monotonic()


def _troubles(readings: Readings) -> Iterator[tuple[str, dict[ReadingKey, float]]]:
    for cause, keys in _places(readings.shape):
        found = ((key, readings.values[position]) for key, position in keys)
        yield cause, {key: value for key, value in found if not isinstance(value, Absent)}


def _heat(device: MergedDevice, readings: Readings) -> Iterator[tuple[str, dict[ReadingKey, float]]]:
    """Yield the heat of a device that is critical by its verdict and does not report thermal throttling."""
    places = _places_of_heat(readings.shape)
    if any(not isinstance(readings.values[position], Absent) for _, position in places["throttled"]):
        return
    view = DeviceView(device, readings, places, 0.0)
    if view.numbers(_TEMPERATURE):
        yield OVER_CRITICAL, {(OVER_CRITICAL, ""): float(bool(over_critical(view)))}


@lru_cache(maxsize=_MOST_SHAPES)
def _places_of_heat(shape: Shape) -> Positions:
    return {
        metric: tuple((label, position) for (name, label), position in shape.places.items() if name == metric)
        for metric in (*TEMPERATURES, "throttled")
    }


@lru_cache(maxsize=_MOST_SHAPES)
def _places(shape: Shape) -> tuple[tuple[str, tuple[tuple[ReadingKey, int], ...]], ...]:
    found = (
        (cause, tuple((key, at) for key, at in shape.places.items() if key[0] == metric and labels.fullmatch(key[1])))
        for cause, metric, labels in _READINGS
    )
    return tuple((cause, keys) for cause, keys in found if keys)


@lru_cache(maxsize=_MOST_SHAPES)
def _values_of_troubles(shape: Shape) -> Callable[[Sequence[object]], object]:
    """Return a function that selects the values of all causes from the values of that shape."""
    places = [position for _, keys in _places(shape) for _, position in keys]
    return itemgetter(*places) if places else lambda _: ()


@lru_cache(maxsize=_MOST_SHAPES)
def _rank(code: str) -> Rank:
    if re.fullmatch(f"{pattern('xid_critical')}|{LOST}|gpu_lost", code):
        return Rank.GRAVE
    return Rank.MINOR if re.fullmatch(pattern("xid_application"), code) else Rank.SERIOUS


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A file that counts: when its burst began (monotonic), its subject, and whether it is exempt from the hourly limit."""

    begun: float
    alarm: Alarm = Alarm("", "")
    is_beside: bool = False


class Bursts:
    """Decides which alarms get a file. Not thread-safe. `before` are the times of the existing files."""

    def __init__(self, monotonic: Callable[[], float], before: Iterable[float] = ()) -> None:
        self._monotonic = monotonic
        # Of the last day.
        self._files = list(map(Entry, before))
        self._first = self._last = -float("inf")
        self._rank = Rank.MINOR
        # The first subject of the burst, and the subjects of its grave alarms.
        self._began_with = ""
        self._whose: set[tuple[str, bool]] = set()

    def begins(self, alarm: Alarm, instead_of: Entry | None = None) -> Entry | None:
        """Return the entry of the burst that begins with this alarm, or None if the alarm gets no file. It replaces `instead_of`."""
        now = self._monotonic()
        is_within = now - self._last < QUIET_SECONDS and now - self._first < LONGEST_SECONDS
        if is_within and not self._is_news(alarm, now, is_due=instead_of is not None):
            self._last = now
            self._note(alarm)
            return None
        others = [file for file in self._files if now - file.begun < _DAY_SECONDS and file is not instead_of]
        is_first_loss = _is_first_loss(alarm, others)
        if not (is_first_loss or _is_worth(alarm, now, others)):
            return None
        if not is_within:
            self._whose.clear()
            self._rank = alarm.rank
        self._first = self._last = now
        self._began_with = alarm.whose
        self._note(alarm)
        if instead_of is not None:
            self.take_back(instead_of)
        entry = Entry(now, alarm, is_first_loss)
        self.count(entry)
        return entry

    def count(self, entry: Entry) -> None:
        """Count a file, unless it is counted already."""
        if entry not in self._files:
            self._files = [file for file in self._files if entry.begun - file.begun < _DAY_SECONDS]
            self._files.append(entry)

    def take_back(self, entry: Entry) -> None:
        """Do not count a file that could not be written."""
        if entry in self._files:
            self._files.remove(entry)

    def _is_news(self, alarm: Alarm, now: float, *, is_due: bool) -> bool:
        """Return whether an alarm starts a new recording: it is more severe than the burst, or grave and about another card or a loss, and no pending file covers it."""
        is_within_minute = now - self._first < MORE_SECONDS
        if alarm.rank is Rank.GRAVE and self._rank is Rank.GRAVE:
            return _who(alarm) not in self._whose and not is_within_minute
        # A card in trouble that is lost within the minute belongs in one file.
        is_known = alarm.whose == self._began_with and self._rank is Rank.SERIOUS
        return alarm.rank > self._rank and not (is_known and is_within_minute and not is_due)

    def _note(self, alarm: Alarm) -> None:
        self._rank = max(self._rank, alarm.rank)
        if alarm.rank is Rank.GRAVE and len(self._whose) < _MOST_IN_A_BURST:
            self._whose.add(_who(alarm))


def _is_worth(alarm: Alarm, now: float, day: Sequence[Entry]) -> bool:
    hour = [file for file in day if now - file.begun < _HOUR_SECONDS and not file.is_beside]
    of_card = [file for file in hour if file.alarm.whose == alarm.whose]
    of_fault = [file for file in day if (file.alarm.cause, file.alarm.whose) == (alarm.cause, alarm.whose)]
    return (
        len(hour) < MOST_AN_HOUR[alarm.rank]
        and sum(file.alarm.source == alarm.source for file in hour) < MOST_OF_A_SOURCE[alarm.rank]
        and len(of_card) < MOST_OF_A_CARD[alarm.rank]
        and sum(file.alarm.rank is alarm.rank for file in of_card) < MOST_OF_A_RANK_OF_A_CARD
        and len(of_fault) < MOST_OF_A_FAULT_A_DAY
    )


def _is_first_loss(alarm: Alarm, day: Sequence[Entry]) -> bool:
    if (alarm.cause, alarm.rank) != (LOST, Rank.GRAVE) or alarm.up_seconds < SETTLED_SECONDS:
        return False
    losses = [file for file in day if file.is_beside and file.alarm.source == alarm.source]
    is_first = all((file.alarm.cause, file.alarm.whose) != (LOST, alarm.whose) for file in day)
    return is_first and len(losses) < MOST_FIRST_LOSSES_A_DAY


def _who(alarm: Alarm) -> tuple[str, bool]:
    """Return the subject of a grave alarm, and whether it is lost: an earlier Xid is another story."""
    return alarm.whose, alarm.cause == LOST
