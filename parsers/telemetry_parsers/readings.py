"""The readings of one device by columns: their names change seldom, their numbers at every poll."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, overload

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import MergedReading, Value

ReadingKey = tuple[str, str]
# Devices of one shape may have different events open.
_MOST_LONGER = 32


class Origin(NamedTuple):
    """Where a reading comes from: its source, when it was taken (monotonic seconds), and how often it is."""

    source: str
    taken: float = 0.0
    interval: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Which readings there are: metric and label of each, and the place of its origin among the origins.

    It is compared by identity. While the same shape comes again, whatever was made of its names still holds.
    """

    keys: tuple[ReadingKey, ...] = ()
    origins: tuple[int, ...] = ()
    places: Mapping[ReadingKey, int] = field(init=False)
    _longer: dict[tuple[tuple[ReadingKey, ...], int], Shape] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {key: place for place, key in enumerate(self.keys)})

    def longer(self, keys: tuple[ReadingKey, ...], origins: int) -> Shape:
        """The shape with these keys behind its own, each with an origin of its own behind that many others."""
        found = self._longer.get((keys, origins))
        if found is None:
            if len(self._longer) >= _MOST_LONGER:
                self._longer.clear()
            found = Shape((*self.keys, *keys), (*self.origins, *range(origins, origins + len(keys))))
            self._longer[(keys, origins)] = found
        return found


class Readings(Sequence[MergedReading]):
    """A sequence of `MergedReading`, which are made when somebody looks at them; it equals a tuple of the same."""

    __slots__ = ("origins", "shape", "values")

    def __init__(self, shape: Shape, values: tuple[Value, ...], origins: tuple[Origin, ...]) -> None:
        self.shape = shape
        self.values = values
        self.origins = origins

    @classmethod
    def of(cls, readings: Iterable[MergedReading]) -> Readings:
        """The same readings by columns, with a shape of their own."""
        if isinstance(readings, cls):
            return readings
        given = tuple(readings)
        origins = {Origin(one.source, one.taken, one.interval): None for one in given}
        places = {origin: place for place, origin in enumerate(origins)}
        shape = Shape(
            tuple((one.metric, one.label) for one in given),
            tuple(places[Origin(one.source, one.taken, one.interval)] for one in given),
        )
        return cls(shape, tuple(one.value for one in given), tuple(origins))

    def plus(self, more: Sequence[MergedReading]) -> Readings:
        """The readings with more of them behind."""
        if not more:
            return self
        shape = self.shape.longer(tuple([(one.metric, one.label) for one in more]), len(self.origins))
        values = (*self.values, *[one.value for one in more])
        return Readings(shape, values, (*self.origins, *[Origin(one.source, one.taken, one.interval) for one in more]))

    def value(self, metric: str, label: str = "") -> Value | None:
        """The value of that reading, None if there is none."""
        place = self.shape.places.get((metric, label))
        return None if place is None else self.values[place]

    def find(self, metric: str, label: str = "") -> tuple[Value, Origin] | None:
        """That value and where it comes from, None if there is none."""
        place = self.shape.places.get((metric, label))
        return None if place is None else (self.values[place], self.origins[self.shape.origins[place]])

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> MergedReading: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[MergedReading, ...]: ...

    def __getitem__(self, place: int | slice) -> MergedReading | tuple[MergedReading, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        metric, label = self.shape.keys[place]
        return MergedReading(metric, label, self.values[place], *self.origins[self.shape.origins[place]])

    def __iter__(self) -> Iterator[MergedReading]:
        origins = self.origins
        for (metric, label), value, origin in zip(self.shape.keys, self.values, self.shape.origins, strict=True):
            yield MergedReading(metric, label, value, *origins[origin])

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Readings | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Readings{tuple(self)!r}"
