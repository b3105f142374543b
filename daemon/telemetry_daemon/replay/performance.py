"""Brings what was recorded into a store: each capture once, in its order and at its time, from any place on."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator

from telemetry_daemon.replay.places import Key, Placed, placed
from telemetry_daemon.replay.stage import Stage
from telemetry_daemon.replay.tape import RecordingError, Tape
from telemetry_daemon.replay.timeline import Timeline
from telemetry_daemon.state.history import History
from telemetry_daemon.state.store import Store
from telemetry_parsers.past import SLOT_SECONDS, SLOTS

log = logging.getLogger(__name__)

# Who begins in the middle sees what came of the half hour before, as the history does. What is older counts only as far
# as it is the newest of its poll.
LOOK_BACK_SECONDS = SLOTS * SLOT_SECONDS
# Between the end of a recording and its next beginning, at any speed; one capture alone is shown again so often.
PAUSE_SECONDS = 2.0


class Performance:
    """Of one recording in one store."""

    def __init__(
        self,
        tape: Tape,
        length: float,
        timeline: Timeline,
        store: Store,
        stage: Stage,
        history: History,
        *,
        loops: bool,
    ) -> None:
        self._tape = tape
        self._length = length
        self._timeline = timeline
        self._store = store
        self._stage = stage
        self._history = history
        self._loops = loops
        self._slot = 0
        self._stays = self._is_broken = False

    def run(self) -> None:
        """Play from where the timeline wants to be, until it is closed."""
        while not self._timeline.is_over:
            self._perform()

    @property
    def has_ended(self) -> bool:
        """Whether it stays at the end, and is not wanted elsewhere."""
        return self._stays and not self._timeline.is_elsewhere()

    @property
    def is_broken(self) -> bool:
        """Whether it could not go on, and is not wanted elsewhere."""
        return self._is_broken and not self._timeline.is_elsewhere()

    def begin(self) -> Iterator[Placed]:
        """Show what there was where the timeline wants to be, and give what came after it. Raises RecordingError.

        Until all of it is there, what was shown before is shown on: nobody sees one moment's numbers as another's.
        """
        self._stays = self._is_broken = False
        with self._store.still(), self._timeline.held():
            rest = self._built(self._timeline.set_out())
            while self._timeline.is_elsewhere() and not self._timeline.is_over:
                rest = self._built(self._timeline.set_out())
        self.renew()
        return rest

    def renew(self) -> None:
        """Have it shown anew how the recording is played."""
        self._store.renew()

    def _perform(self) -> None:
        """From where somebody wants to be to the end, or until somebody wants to be elsewhere."""
        try:
            self._play(self.begin())
        except RecordingError as error:  # it was changed or removed since it was surveyed
            log.error("the recording cannot be played on", extra={"error": error})  # the text says all
            self._stop()

    def _built(self, goal: float) -> Iterator[Placed]:
        """Have in the store what there was there, unless somebody wants to be elsewhere meanwhile, and give what came after it."""
        first = max(0.0, goal - LOOK_BACK_SECONDS)
        newest, rest = self._until(first)
        if self._timeline.is_elsewhere():
            return rest
        self._slot = int(first // SLOT_SECONDS)
        self._timeline.put(first, goal)
        self._store.start_anew()
        self._stage.set()
        for one in newest:
            self._put(one)
        rest = self._caught_up(rest, goal)
        if not self._timeline.is_elsewhere():
            self._reach(goal, goal)
        return rest

    def _until(self, first: float) -> tuple[list[Placed], Iterator[Placed]]:
        """The newest of each poll up to that place, and what came after it; nothing if somebody wants to be elsewhere."""
        newest: dict[Key, Placed] = {}
        # What was written behind it since it was surveyed has no place in its time.
        every = itertools.takewhile(lambda one: one.place <= self._length, placed(self._tape))
        for one in every:
            if self._timeline.is_elsewhere():
                return [], iter(())
            if one.place > first:
                return list(newest.values()), _and(one, every)
            newest[one.key] = one
        return list(newest.values()), iter(())

    def _caught_up(self, every: Iterator[Placed], goal: float) -> Iterator[Placed]:
        """Put what came up to the goal, unless somebody wants to be elsewhere meanwhile, and give the rest."""
        for one in every:
            if one.place > goal or self._timeline.is_elsewhere():
                return _and(one, every)
            self._reach(one.place, goal)
            self._put(one)
        return iter(())

    def _play(self, rest: Iterator[Placed]) -> None:
        """Put each capture at its time."""
        for one in rest:
            self._timeline.allow(one.place)
            if not self._is_there(one.place):
                return
            self._put(one)
        if not self._is_there(self._length):
            return
        self._timeline.allow(self._length)
        if self._loops:
            self._timeline.rest(PAUSE_SECONDS)
            self._timeline.begin_anew()
        else:
            self._stay()

    def _is_there(self, place: float) -> bool:
        """Wait until it is that time, and end the slots until then; False if somebody wants to be elsewhere."""
        while self._timeline.place() < place and not self._timeline.is_elsewhere():
            self._timeline.wait(min(place, self._slot_end()))
            self._look()
        return not self._timeline.is_elsewhere()

    def _stay(self) -> None:
        """Stay at the end until somebody wants to be elsewhere."""
        self._stays = True
        self.renew()
        self._timeline.wait(math.inf)

    def _stop(self) -> None:
        """Stay where it is, so that what is shown does not grow old, until somebody wants to be elsewhere."""
        self._timeline.allow(self._timeline.place())
        self._is_broken = True
        self.renew()
        self._timeline.wait(math.inf)

    def _reach(self, place: float, goal: float) -> None:
        """Be at that place on the way to the goal; the slots until there end."""
        while self._slot_end() <= place:
            self._timeline.put(max(self._slot_end(), self._timeline.place()), goal)
            self._look()
        self._timeline.put(max(place, self._timeline.place()), goal)

    def _slot_end(self) -> float:
        return (self._slot + 1) * SLOT_SECONDS

    def _look(self) -> None:
        """End the slots of the history that are over."""
        self._slot = int(self._timeline.place() // SLOT_SECONDS)
        self._history.look(self._store.current)

    def _put(self, one: Placed) -> None:
        late = max(0.0, self._timeline.place() - one.place) + one.age
        self._stage.put(one.capture, late)


def _and(first: Placed, rest: Iterator[Placed]) -> Iterator[Placed]:
    yield first
    yield from rest
