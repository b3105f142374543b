"""Which alarms are worth a file: one for a burst, few in an hour, and few of a fault that comes again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from telemetry_daemon.recording.alarms import LOST, Alarm, Rank

# What comes within so long after an alarm is of the same burst, which ends at the latest after the second number.
QUIET_SECONDS, LONGEST_SECONDS = 120.0, 600.0
# A card may be lost half a minute after its first error: what comes so soon after that is put into the file, too, once.
MORE_SECONDS = 60.0
# An alarm of that rank is worth a file while there are fewer in the hour: a job that crashes all night, or a card that is
# hot, leaves some for the card that is lost.
MOST_AN_HOUR: Mapping[Rank, int] = {Rank.MINOR: 3, Rank.SERIOUS: 4, Rank.GRAVE: 6}
# More of one fault tell nothing new.
MOST_OF_A_FAULT_A_DAY = 6
_HOUR_SECONDS, _DAY_SECONDS = 3600.0, 86_400.0
_MOST_FAULTS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A file that counts: when its burst began (monotonic), and of which fault."""

    begun: float
    fault: tuple[str, str] = ("", "")


class Bursts:
    """Decides; for one thread at a time. `before` are the times of the files that there are already."""

    def __init__(self, monotonic: Callable[[], float], before: Iterable[float] = ()) -> None:
        self._monotonic = monotonic
        self._files = deque(map(Entry, sorted(before)), maxlen=max(MOST_AN_HOUR.values()))
        self._of_fault: dict[tuple[str, str], deque[float]] = {}
        self._first = self._last = -float("inf")
        self._rank = Rank.MINOR
        # Whom the burst began with, and what its grave alarms are about.
        self._began_with = ""
        self._whose: set[tuple[str, bool]] = set()

    def begins(self, alarm: Alarm, instead_of: Entry | None = None) -> Entry | None:
        """The entry of the burst that begins with this alarm, if that is worth a file; it takes the place of another."""
        now = self._monotonic()
        is_within = now - self._last < QUIET_SECONDS and now - self._first < LONGEST_SECONDS
        if is_within and not self._is_news(alarm, now, is_due=instead_of is not None):
            self._last = now
            self._note(alarm)
            return None
        if not self._is_worth(alarm, now, instead_of):
            return None
        if not is_within:
            self._whose.clear()
            self._rank = alarm.rank
        self._first = self._last = now
        self._began_with = alarm.whose
        self._note(alarm)
        if instead_of is not None:
            self.take_back(instead_of)
        entry = Entry(now, (alarm.cause, alarm.whose))
        self.count(entry)
        return entry

    def count(self, entry: Entry) -> None:
        """Count a file, if it does not count yet."""
        if entry not in self._files:
            self._files.append(entry)
            self._faults(entry.fault).append(entry.begun)

    def take_back(self, entry: Entry) -> None:
        """Count a file no more, since it was not written."""
        if entry in self._files:
            self._files.remove(entry)
            self._faults(entry.fault).remove(entry.begun)

    def _is_news(self, alarm: Alarm, now: float, *, is_due: bool) -> bool:
        """Whether an alarm within a burst begins another: it is worse, or grave and of a further card or a loss, and no file will have it."""
        is_within_minute = now - self._first < MORE_SECONDS
        if alarm.rank is Rank.GRAVE is self._rank:
            return _who(alarm) not in self._whose and not is_within_minute
        # A card that was in trouble and is lost within the minute is one story.
        is_known = alarm.whose == self._began_with and self._rank is Rank.SERIOUS
        return alarm.rank > self._rank and not (is_known and is_within_minute and not is_due)

    def _note(self, alarm: Alarm) -> None:
        self._rank = max(self._rank, alarm.rank)
        if alarm.rank is Rank.GRAVE and len(self._whose) < _MOST_FAULTS:
            self._whose.add(_who(alarm))

    def _is_worth(self, alarm: Alarm, now: float, instead_of: Entry | None) -> bool:
        in_hour = sum(now - entry.begun < _HOUR_SECONDS and entry is not instead_of for entry in self._files)
        if in_hour >= MOST_AN_HOUR[alarm.rank]:
            return False
        of_fault = self._faults((alarm.cause, alarm.whose))
        return len(of_fault) < MOST_OF_A_FAULT_A_DAY or now - of_fault[0] >= _DAY_SECONDS

    def _faults(self, fault: tuple[str, str]) -> deque[float]:
        """When files were written of this fault; the fault that has been known longest is forgotten for a new one."""
        if fault not in self._of_fault:
            while len(self._of_fault) >= _MOST_FAULTS:
                del self._of_fault[next(iter(self._of_fault))]
            self._of_fault[fault] = deque(maxlen=MOST_OF_A_FAULT_A_DAY)
        return self._of_fault[fault]


def _who(alarm: Alarm) -> tuple[str, bool]:
    """Whom a grave alarm is about, and whether they are lost: an Xid before that is another story."""
    return alarm.whose, alarm.cause == LOST
