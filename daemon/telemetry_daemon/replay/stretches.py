"""What the wall clock of the node told at each place of a recording: it may have been set, and the node started anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

# A clock that is slewed, or was read a little later, is not one that was set.
_STEP_SECONDS = 1.0
# One that is set more often than that is not followed any more.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a recording in which the wall clock ran on: from which place on, at which time it began, and for how long."""

    place: float
    wall_time: float
    seconds: float = 0.0

    @property
    def ahead(self) -> float:
        """By how much the time is ahead of the place."""
        return self.wall_time - self.place


@dataclass(slots=True)
class WallTimes:
    """Learns from captures in their order. One alone that tells another time than those around it is not believed."""

    _begun: list[Stretch] = field(default_factory=list)
    _doubted: Stretch | None = None
    _length: float = 0.0

    def see(self, place: float, wall_time: float) -> None:
        """At that place it was so late."""
        told = Stretch(place, wall_time)
        self._length = place
        if not self._begun:
            self._begun.append(told)
        elif _is_same(told, self._begun[-1]):
            self._doubted = None
        elif self._doubted is None or not _is_same(told, self._doubted):
            self._doubted = told
        elif len(self._begun) < _MOST:
            kept = [one for one in self._begun if one.place < self._doubted.place]
            self._begun, self._doubted = [*kept, self._doubted], None

    def at(self, place: float) -> float:
        """How late it was at that place."""
        begun = [one for one in self._begun if one.place <= place] or self._begun[:1]
        return place + (begun[-1].ahead if begun else 0.0)

    def stretches(self) -> Iterator[Stretch]:
        """The parts in which the clock ran on, in their order."""
        ends = [one.place for one in self._begun[1:]] + [self._length]
        return (Stretch(one.place, one.wall_time, end - one.place) for one, end in zip(self._begun, ends, strict=False))


def _is_same(one: Stretch, other: Stretch) -> bool:
    return abs(one.ahead - other.ahead) < _STEP_SECONDS
