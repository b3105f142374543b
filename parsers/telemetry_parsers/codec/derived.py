"""Converts frozen dataclasses to and from plain JSON data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from telemetry_parsers.codec.plain import CodecError, check_json, read_bool, read_float, read_int, read_str, unexpected
from telemetry_parsers.dataclass import dataclass, field, fields, is_dataclass
from telemetry_parsers.model import Absent, Capture, Library, Metric, Plain, Process, Report, Value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Codec:
    """Reads and writes the values of one type."""

    read: Callable[[Plain], Any]
    write: Callable[[Any], Plain] | None = None


@dataclass(frozen=True, slots=True)
class _Options:
    left_out: tuple[str, ...] = ()  # fields that are omitted if they have their default values
    null_values: Mapping[str, float] = field(
        default_factory=dict
    )  # maps each field to the value that is written as null


_OPTIONS: Mapping[Any, _Options] = {
    Capture: _Options(left_out=("hostname",)),
    Library: _Options(left_out=("module", "package")),
    Metric: _Options(null_values={"low": -math.inf, "high": math.inf}),
    # Most parsers leave these fields at their defaults.
    Process: _Options(
        left_out=("kind", "instance", "utilization_ratio", "started", "user", "command", "container", "owner")
    ),
    Report: _Options(left_out=("is_cut", "claims", "tasks", "steps")),
}


def to_plain(data_class: Any, value: Any) -> dict[str, Plain]:
    """Convert an instance of the dataclass to plain JSON data."""
    return _DataclassCodec.for_class(data_class).write(value)


def from_plain(data_class: type[T], plain: Plain) -> T:
    """Create an instance of the dataclass from plain JSON data. Raise CodecError for invalid data."""
    value: T = _DataclassCodec.for_class(data_class).read(plain)  # type: ignore[arg-type]  # a class is hashable
    return value


class _DataclassCodec:
    def __init__(self, data_class: Any) -> None:
        hints, options = get_type_hints(data_class), _OPTIONS.get(data_class, _Options())
        codecs = {item.name: _codec_for(hints[item.name]) for item in fields(data_class)}
        codecs.update({name: _nullable_number(number) for name, number in options.null_values.items()})
        self._data_class = data_class
        self._readers = tuple((name, codec.read) for name, codec in codecs.items())
        self._writers = tuple((name, codec.write) for name, codec in codecs.items() if codec.write is not None)
        self._names = tuple(codecs)
        self._keys = frozenset(codecs)
        left_out = [item for item in fields(data_class) if item.name in options.left_out or "left_out" in item.metadata]
        self._defaults = {item.name: _to_plain_default(codecs[item.name], item.default) for item in left_out}

    @staticmethod
    @cache
    def for_class(data_class: Any) -> _DataclassCodec:
        return _DataclassCodec(data_class)

    def read(self, plain: Plain) -> Any:
        if not isinstance(plain, dict):
            raise unexpected("an object", plain)
        if plain.keys() != self._keys:
            plain = self._with_defaults(plain)
        values, name = [], ""
        try:
            for name, read in self._readers:
                values.append(read(plain[name]))
        except CodecError as error:
            raise error.inside(name) from None
        return self._data_class(*values)

    def write(self, value: Any) -> dict[str, Plain]:
        plain: dict[str, Plain] = {}
        for name in self._names:
            plain[name] = getattr(value, name)
        for name, write in self._writers:
            plain[name] = write(plain[name])
        for name, default in self._defaults.items():
            if plain[name] == default:
                del plain[name]
        return plain

    def _with_defaults(self, plain: dict[str, Plain]) -> dict[str, Plain]:
        for key in plain:
            if key not in self._keys:
                raise CodecError(str(key), "unknown key")
        result = {**self._defaults, **plain}
        for key in sorted(self._keys - result.keys()):
            raise CodecError(key, "missing")
        return result


@cache
def _codec_for(type_: Any) -> _Codec:
    arguments, origin = get_args(type_), get_origin(type_)
    if type_ in _SIMPLE_CODECS:
        return _SIMPLE_CODECS[type_]
    if isinstance(type_, type) and is_dataclass(type_):
        return _Codec(_DataclassCodec.for_class(type_).read, _DataclassCodec.for_class(type_).write)
    if origin is Literal:
        return _Codec(_word_reader({word: word for word in arguments}))
    if origin is tuple and arguments[1:] == (...,):
        return _tuple_codec(_codec_for(arguments[0]))
    if origin is Mapping:
        return _mapping_codec(_codec_for(arguments[1]))
    if origin in (Union, UnionType):
        return _union_codec(arguments)
    raise TypeError(f"{type_} cannot be converted to plain JSON types")


def _union_codec(types: tuple[Any, ...]) -> _Codec:
    if NoneType in types:
        return _optional_codec(_union_codec(tuple(type_ for type_ in types if type_ is not NoneType)))
    if len(types) == 1:
        return _codec_for(types[0])
    if Absent in types:
        return _Codec(_read_value, _write_value)
    return _tagged_union_codec({type_.__name__.lower(): type_ for type_ in types})


def _optional_codec(codec: _Codec) -> _Codec:
    read, write = codec.read, codec.write
    return _Codec(
        lambda plain: None if plain is None else read(plain),
        None if write is None else lambda value: None if value is None else write(value),
    )


def _to_plain_default(codec: _Codec, value: Any) -> Plain:
    return value if codec.write is None else codec.write(value)


def _nullable_number(null_value: float) -> _Codec:
    return _Codec(
        lambda plain: null_value if plain is None else read_float(plain),
        lambda value: None if value == null_value else value,
    )


def _word_reader(values: Mapping[str, T]) -> Callable[[Plain], T]:
    def read(plain: Plain) -> T:
        if isinstance(plain, str) and plain in values:
            return values[plain]
        raise unexpected("one of " + " ".join(values), plain)

    return read


def _tuple_codec(item_codec: _Codec) -> _Codec:
    read_item, write_item = item_codec.read, item_codec.write

    def read(plain: Plain) -> tuple[Any, ...]:
        if not isinstance(plain, list):
            raise unexpected("a list", plain)
        items: list[Any] = []
        try:
            for plain_item in plain:
                items.append(read_item(plain_item))  # noqa: PERF401  # the error contains the number of valid items
        except CodecError as error:
            raise error.inside(f"[{len(items)}]") from None
        return tuple(items)

    return _Codec(read, list if write_item is None else lambda values: [write_item(value) for value in values])


def _mapping_codec(value_codec: _Codec) -> _Codec:
    write_value = value_codec.write

    def read(plain: Plain) -> dict[str, Any]:
        if not isinstance(plain, dict):
            raise unexpected("an object", plain)
        values, name = {}, ""
        try:
            for name, plain_item in plain.items():
                values[read_str(name)] = value_codec.read(plain_item)
        except CodecError as error:
            raise error.inside(str(name)) from None
        return values

    return _Codec(
        read, lambda values: {name: write_value(value) if write_value else value for name, value in values.items()}
    )


def _read_pair(plain: Plain) -> tuple[str, str]:
    texts: tuple[str, ...] = _codec_for(tuple[str, ...]).read(plain)
    if len(texts) != 2:
        raise unexpected("a pair of strings", plain)
    return texts[0], texts[1]


@dataclass(frozen=True, slots=True)
class _AbsentValue:
    absent: Absent


def _read_value(plain: Plain) -> Value:
    return from_plain(_AbsentValue, plain).absent if isinstance(plain, dict) else read_float(plain)


def _write_value(value: Value) -> Plain:
    return {"absent": value.value} if isinstance(value, Absent) else value


def _tagged_union_codec(types: Mapping[str, Any]) -> _Codec:
    """Return a codec for a union of dataclasses. In JSON, the key `kind` has the dataclass's name in lower case."""
    *names, last_name = (type_.__name__ for type_ in types.values())

    def read(plain: Plain) -> Any:
        tag = plain.get("kind") if isinstance(plain, dict) else None
        if not isinstance(tag, str) or tag not in types:
            raise unexpected("one of " + " ".join(types), tag).inside("kind")
        return from_plain(types[tag], {key: value for key, value in plain.items() if key != "kind"})

    def write(value: Any) -> Plain:
        for tag, type_ in types.items():
            if isinstance(value, type_):
                return {"kind": tag, **to_plain(type_, value)}
        raise CodecError("", f"expected a {', '.join(names)} or {last_name}, found {type(value).__name__}")

    return _Codec(read, write)


_SIMPLE_CODECS: Mapping[Any, _Codec] = {
    str: _Codec(read_str),
    bool: _Codec(read_bool),
    int: _Codec(read_int),
    float: _Codec(read_float),
    Any: _Codec(check_json),
    object: _Codec(lambda plain: plain),
    Absent: _Codec(_word_reader({absent.value: absent for absent in Absent}), lambda absent: absent.value),
    tuple[str, str]: _Codec(_read_pair, list),
}
