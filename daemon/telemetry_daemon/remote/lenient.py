"""Reads documents of other versions as dataclasses: missing and unknown keys are accepted, and types are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from telemetry_exporters.text import clean
from telemetry_parsers import bounds
from telemetry_parsers.codec import plain as codec
from telemetry_parsers.codec.json_types import MaxSize
from telemetry_parsers.codec.plain import CodecError, unexpected
from telemetry_parsers.model import Plain

T = TypeVar("T")
_Read = Callable[[Plain], Any]


def read(document_type: type[T], plain: Plain) -> T:
    """Return the object as an instance of the dataclass. Missing values become None, empty or false. Raises CodecError."""
    value: T = _object_reader(document_type)(plain)  # type: ignore[arg-type]  # classes are hashable
    return value


@cache
def _object_reader(kind: Any) -> _Read:
    hints = get_type_hints(kind, include_extras=True)
    readers = tuple((item.name, _reader(hints[item.name])) for item in fields(kind))

    def read_object(plain: Plain) -> Any:
        if not isinstance(plain, dict):
            raise unexpected("an object", plain)
        values, name = [], ""
        try:
            for name, reader in readers:
                values.append(reader(plain.get(name)))
        except CodecError as error:
            raise error.inside(name) from None
        return kind(*values)

    return read_object


def _reader(kind: Any, limit: int | None = None) -> _Read:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _reader(arguments[0], next((size.most for size in arguments[1:] if isinstance(size, MaxSize)), limit))
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return _nullable(_reader(inner, limit))
    if kind is str or origin is Literal:  # a newer version may send additional words
        return _text_reader(bounds.MAX_NAME_LENGTH if limit is None else limit)
    if origin is tuple:
        (item, *_) = arguments
        return _list_reader(_object_reader(item) if _is_object(item) else _reader(item), limit)
    if _is_object(kind):
        return _object_or_empty(_object_reader(kind))
    return _SCALAR_READERS[kind] if kind in _SCALAR_READERS else _mapping_reader(arguments[1])


def _is_object(kind: Any) -> bool:
    return is_dataclass(kind)


def _nullable(reader: _Read) -> _Read:
    def read_known(plain: Plain) -> Any:
        value = None if plain is None else reader(plain)
        return None if value == "" else value

    return read_known


def _object_or_empty(reader: _Read) -> _Read:
    return lambda plain: reader({} if plain is None else plain)


def _text_reader(max_length: int) -> _Read:
    return lambda plain: "" if plain is None else clean(codec.read_str(plain)[:max_length])


def _list_reader(reader: _Read, limit: int | None) -> _Read:
    def read_items(plain: Plain) -> tuple[Any, ...]:
        if plain is not None and not isinstance(plain, list):
            raise unexpected("a list", plain)
        items: list[Any] = []
        try:
            for inner in (plain or ())[:limit]:
                items.append(reader(inner))  # noqa: PERF401  # len(items) is the index of an invalid item
        except CodecError as error:
            raise error.inside(f"[{len(items)}]") from None
        return tuple(items)

    return read_items


def _mapping_reader(kind: Any) -> _Read:
    if kind is Any:
        return _as_mapping
    reader = _reader(kind)

    def read_values(plain: Plain) -> Mapping[str, Any]:
        values, name = {}, ""
        try:
            for name, inner in _as_mapping(plain).items():
                values[clean(name)] = reader(inner)
        except CodecError as error:
            raise error.inside(clean(name)) from None
        return values

    return read_values


def _as_mapping(plain: Plain) -> Mapping[str, Any]:
    if plain is not None and not isinstance(plain, dict):
        raise unexpected("an object", plain)
    return plain or {}


_SCALAR_READERS: Mapping[Any, _Read] = {
    bool: lambda plain: plain is not None and codec.read_bool(plain),
    int: codec.read_int,
    float: codec.read_float,
}
