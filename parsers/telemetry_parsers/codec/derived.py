"""The plain JSON form of a frozen dataclass, derived from its field types: an object with exactly these keys.

No type needs faster code of its own: reading a report of 7,680 readings takes 10 ms, as with a function written for it;
writing takes 3 ms instead of 1.5 ms. JSON encoding and decoding takes 8 ms more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from telemetry_parsers.codec.plain import CodecError, finite, flag, jsonable, text, unexpected, whole
from telemetry_parsers.dataclass import dataclass, field, fields, is_dataclass
from telemetry_parsers.model import Absent, Capture, Library, Metric, Plain, Process, Report, Value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Way:
    """How values of one type are read from plain data and written; `write` is None for values that are already plain."""

    read: Callable[[Plain], Any]
    write: Callable[[Any], Plain] | None = None


@dataclass(frozen=True, slots=True)
class _Special:
    """Properties of a type's fields beyond their types."""

    left_out: tuple[str, ...] = ()  # omitted if they have the default, as fields whose metadata has `left_out`
    null: Mapping[str, float] = field(default_factory=dict)  # by field, the number that null stands for


_SPECIAL: Mapping[Any, _Special] = {
    Capture: _Special(left_out=("hostname",)),
    Library: _Special(left_out=("module", "package")),
    Metric: _Special(null={"low": -math.inf, "high": math.inf}),
    # The kernel's part of a process is added after parsing.
    Process: _Special(
        left_out=("kind", "instance", "utilization_ratio", "started", "user", "command", "container", "owner")
    ),
    Report: _Special(left_out=("is_cut", "claims", "tasks", "steps")),
}


def to_plain(kind: Any, value: Any) -> dict[str, Plain]:
    """Return the plain form of a value of this dataclass."""
    return _Object.of(kind).write(value)


def from_plain(kind: type[T], plain: Plain) -> T:
    """Return the dataclass of this plain form. Raise CodecError for invalid data."""
    value: T = _Object.of(kind).read(plain)  # type: ignore[arg-type]  # a class is hashable
    return value


class _Object:
    """Encodes and decodes one dataclass."""

    def __init__(self, kind: Any) -> None:
        hints, special = get_type_hints(kind), _SPECIAL.get(kind, _Special())
        ways = {item.name: _way(hints[item.name]) for item in fields(kind)}
        ways.update({name: _number_or(number) for name, number in special.null.items()})
        self._kind = kind
        self._reads = tuple((name, way.read) for name, way in ways.items())
        self._writes = tuple((name, way.write) for name, way in ways.items() if way.write is not None)
        self._names = tuple(ways)
        self._keys = frozenset(ways)
        left_out = [item for item in fields(kind) if item.name in special.left_out or "left_out" in item.metadata]
        self._defaults = {item.name: _written(ways[item.name], item.default) for item in left_out}

    @staticmethod
    @cache
    def of(kind: Any) -> _Object:
        """Return the codec of this dataclass, made once."""
        return _Object(kind)

    def read(self, plain: Plain) -> Any:
        if not isinstance(plain, dict):
            raise unexpected("an object", plain)
        if plain.keys() != self._keys:
            plain = self._completed(plain)
        values, name = [], ""
        try:
            for name, read in self._reads:
                values.append(read(plain[name]))
        except CodecError as error:
            raise error.inside(name) from None
        return self._kind(*values)

    def write(self, value: Any) -> dict[str, Plain]:
        plain: dict[str, Plain] = {}
        for name in self._names:
            plain[name] = getattr(value, name)
        for name, write in self._writes:
            plain[name] = write(plain[name])
        for name, default in self._defaults.items():
            if plain[name] == default:
                del plain[name]
        return plain

    def _completed(self, plain: dict[str, Plain]) -> dict[str, Plain]:
        """Return the object with omitted fields added. Raise CodecError for unknown or missing keys."""
        for key in plain:
            if key not in self._keys:
                raise CodecError(str(key), "unknown key")
        completed = {**self._defaults, **plain}
        for key in sorted(self._keys - completed.keys()):
            raise CodecError(key, "missing")
        return completed


@cache
def _way(kind: Any) -> _Way:
    arguments, origin = get_args(kind), get_origin(kind)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, type) and is_dataclass(kind):
        return _Way(_Object.of(kind).read, _Object.of(kind).write)
    if origin is Literal:
        return _Way(_word({word: word for word in arguments}))
    if origin is tuple and arguments[1:] == (...,):
        return _items(_way(arguments[0]))
    if origin is Mapping:
        return _mapping(_way(arguments[1]))
    if origin in (Union, UnionType):
        return _either(arguments)
    raise TypeError(f"{kind} has no plain form")


def _either(kinds: tuple[Any, ...]) -> _Way:
    if NoneType in kinds:
        return _or_none(_either(tuple(kind for kind in kinds if kind is not NoneType)))
    if len(kinds) == 1:
        return _way(kinds[0])
    if Absent in kinds:
        return _Way(_read_value, _write_value)
    return _one_of({kind.__name__.lower(): kind for kind in kinds})


def _or_none(way: _Way) -> _Way:
    read, write = way.read, way.write
    return _Way(
        lambda plain: None if plain is None else read(plain),
        None if write is None else lambda value: None if value is None else write(value),
    )


def _written(way: _Way, value: Any) -> Plain:
    return value if way.write is None else way.write(value)


def _number_or(missing: float) -> _Way:
    return _Way(
        lambda plain: missing if plain is None else finite(plain), lambda value: None if value == missing else value
    )


def _word(values: Mapping[str, T]) -> Callable[[Plain], T]:
    def read(plain: Plain) -> T:
        if isinstance(plain, str) and plain in values:
            return values[plain]
        raise unexpected("one of " + " ".join(values), plain)

    return read


def _items(item: _Way) -> _Way:
    read_item, write_item = item.read, item.write

    def read(plain: Plain) -> tuple[Any, ...]:
        if not isinstance(plain, list):
            raise unexpected("a list", plain)
        items: list[Any] = []
        try:
            for inner in plain:
                items.append(read_item(inner))  # noqa: PERF401  # their number is the place of the one that is wrong
        except CodecError as error:
            raise error.inside(f"[{len(items)}]") from None
        return tuple(items)

    return _Way(read, list if write_item is None else lambda values: [write_item(value) for value in values])


def _mapping(item: _Way) -> _Way:
    """Return the codec of a mapping from free names to values."""
    write_item = item.write

    def read(plain: Plain) -> dict[str, Any]:
        if not isinstance(plain, dict):
            raise unexpected("an object", plain)
        values, name = {}, ""
        try:
            for name, inner in plain.items():
                values[text(name)] = item.read(inner)
        except CodecError as error:
            raise error.inside(str(name)) from None
        return values

    return _Way(
        read, lambda values: {name: write_item(inner) if write_item else inner for name, inner in values.items()}
    )


def _pair(plain: Plain) -> tuple[str, str]:
    texts: tuple[str, ...] = _way(tuple[str, ...]).read(plain)
    if len(texts) != 2:
        raise unexpected("a pair of strings", plain)
    return texts[0], texts[1]


@dataclass(frozen=True, slots=True)
class _NoNumber:
    """A null that stands for a missing number."""

    absent: Absent


def _read_value(plain: Plain) -> Value:
    return from_plain(_NoNumber, plain).absent if isinstance(plain, dict) else finite(plain)


def _write_value(value: Value) -> Plain:
    return {"absent": value.value} if isinstance(value, Absent) else value


def _one_of(kinds: Mapping[str, Any]) -> _Way:
    """Return the codec of a union of dataclasses; the key `kind` names the type, such as `command` for Command."""
    *names, last = (kind.__name__ for kind in kinds.values())

    def read(plain: Plain) -> Any:
        word = plain.get("kind") if isinstance(plain, dict) else None
        if not isinstance(word, str) or word not in kinds:
            raise unexpected("one of " + " ".join(kinds), word).inside("kind")
        return from_plain(kinds[word], {key: value for key, value in plain.items() if key != "kind"})

    def write(value: Any) -> Plain:
        for word, kind in kinds.items():
            if isinstance(value, kind):
                return {"kind": word, **to_plain(kind, value)}
        raise CodecError("", f"expected a {', '.join(names)} or {last}, found {type(value).__name__}")

    return _Way(read, write)


_SIMPLE: Mapping[Any, _Way] = {
    str: _Way(text),
    bool: _Way(flag),
    int: _Way(whole),
    float: _Way(finite),
    Any: _Way(jsonable),
    object: _Way(lambda plain: plain),
    Absent: _Way(_word({absent.value: absent for absent in Absent}), lambda absent: absent.value),
    tuple[str, str]: _Way(_pair, list),
}
