"""The readings of one device as two columns: names and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, overload

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import MergedReading, Value

ReadingKey = tuple[str, str]
# The maximum number of extended shapes in the cache.
_MAX_EXTENDED = 32


class Origin(NamedTuple):
    """A reading's source, capture time (monotonic seconds) and poll interval."""

    source: str
    taken: float = 0.0
    interval: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The metric, label and origin index of each reading."""

    keys: tuple[ReadingKey, ...] = ()
    origins: tuple[int, ...] = ()
    indices: Mapping[ReadingKey, int] = field(init=False)
    _extended: dict[tuple[tuple[ReadingKey, ...], int], Shape] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "indices", {key: position for position, key in enumerate(self.keys)})

    def with_keys(self, keys: tuple[ReadingKey, ...], origin_count: int) -> Shape:
        """Return a shape with additional `keys`, each with a new origin."""
        shape = self._extended.get((keys, origin_count))
        if shape is None:
            if len(self._extended) >= _MAX_EXTENDED:
                self._extended.clear()
            shape = Shape((*self.keys, *keys), (*self.origins, *range(origin_count, origin_count + len(keys))))
            self._extended[(keys, origin_count)] = shape
        return shape


class Readings(Sequence[MergedReading]):
    """A sequence of `MergedReading` objects, which are created on access."""

    __slots__ = ("origins", "shape", "values")

    def __init__(self, shape: Shape, values: tuple[Value, ...], origins: tuple[Origin, ...]) -> None:
        self.shape = shape
        self.values = values
        self.origins = origins

    @classmethod
    def of(cls, readings: Iterable[MergedReading]) -> Readings:
        """Return the readings as a `Readings` object."""
        if isinstance(readings, cls):
            return readings
        items = tuple(readings)
        origins = {Origin(item.source, item.taken, item.interval): None for item in items}
        indices = {origin: position for position, origin in enumerate(origins)}
        shape = Shape(
            tuple((item.metric, item.label) for item in items),
            tuple(indices[Origin(item.source, item.taken, item.interval)] for item in items),
        )
        return cls(shape, tuple(item.value for item in items), tuple(origins))

    def extended(self, more: Sequence[MergedReading]) -> Readings:
        """Return the readings followed by more readings."""
        if not more:
            return self
        shape = self.shape.with_keys(tuple([(item.metric, item.label) for item in more]), len(self.origins))
        values = (*self.values, *[item.value for item in more])
        return Readings(
            shape, values, (*self.origins, *[Origin(item.source, item.taken, item.interval) for item in more])
        )

    def value(self, metric: str, label: str = "") -> Value | None:
        """Return the value of a reading, or None if there is no such reading."""
        position = self.shape.indices.get((metric, label))
        return None if position is None else self.values[position]

    def find(self, metric: str, label: str = "") -> tuple[Value, Origin] | None:
        """Return the value and the origin of a reading, or None if there is no such reading."""
        position = self.shape.indices.get((metric, label))
        return None if position is None else (self.values[position], self.origins[self.shape.origins[position]])

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, position: int) -> MergedReading: ...

    @overload
    def __getitem__(self, position: slice) -> tuple[MergedReading, ...]: ...

    def __getitem__(self, position: int | slice) -> MergedReading | tuple[MergedReading, ...]:
        if isinstance(position, slice):
            return tuple(self)[position]
        metric, label = self.shape.keys[position]
        return MergedReading(metric, label, self.values[position], *self.origins[self.shape.origins[position]])

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
