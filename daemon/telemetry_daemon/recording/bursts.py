"""Which alarms are worth a file: one for a burst, few in an hour, and few of a fault that comes again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from telemetry_daemon.recording.alarms import Alarm

# What comes within so long after an alarm is of the same burst, which ends at the latest after the second number.
QUIET_SECONDS, LONGEST_SECONDS = 120.0, 600.0
MOST_AN_HOUR = 6
# So many may be about minor alarms, that a job which crashes all night leaves some for the card that is lost.
MOST_MINOR_AN_HOUR = 3
# More of one fault tell nothing new.
MOST_OF_A_FAULT_A_DAY = 6
_HOUR_SECONDS, _DAY_SECONDS = 3600.0, 86_400.0
_MOST_FAULTS = 4096


class Bursts:
    """Decides; for one thread at a time. `before` are the times of the files that there are already."""

    def __init__(self, monotonic: Callable[[], float], before: Iterable[float] = ()) -> None:
        self._monotonic = monotonic
        self._files = deque(sorted(before), maxlen=MOST_AN_HOUR)
        self._of_fault: dict[tuple[str, str], deque[float]] = {}
        self._first = self._last = -float("inf")
        self._is_minor = False

    def begins(self, alarm: Alarm) -> bool:
        """Whether a burst begins with this alarm that is worth a file."""
        now = self._monotonic()
        is_within = now - self._last < QUIET_SECONDS and now - self._first < LONGEST_SECONDS
        if is_within and (alarm.is_minor or not self._is_minor):
            self._last = now
            return False
        if not self._is_worth(alarm, now):
            return False
        self._first = self._last = now
        self._is_minor = alarm.is_minor
        self._files.append(now)
        self._faults(alarm).append(now)
        return True

    def _is_worth(self, alarm: Alarm, now: float) -> bool:
        in_hour = sum(now - then < _HOUR_SECONDS for then in self._files)
        if in_hour >= (MOST_MINOR_AN_HOUR if alarm.is_minor else MOST_AN_HOUR):
            return False
        of_fault = self._faults(alarm)
        return len(of_fault) < MOST_OF_A_FAULT_A_DAY or now - of_fault[0] >= _DAY_SECONDS

    def _faults(self, alarm: Alarm) -> deque[float]:
        """When files were written of this fault; the fault that has been known longest is forgotten for a new one."""
        key = (alarm.cause, alarm.whose)
        if key not in self._of_fault:
            while len(self._of_fault) >= _MOST_FAULTS:
                del self._of_fault[next(iter(self._of_fault))]
            self._of_fault[key] = deque(maxlen=MOST_OF_A_FAULT_A_DAY)
        return self._of_fault[key]
