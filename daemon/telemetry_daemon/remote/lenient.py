"""Reads documents of other versions, which may have missing or unknown keys."""

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


def read(document_type: type[T], json_value: Plain) -> T:
    """Return a JSON object as an instance of `document_type`. Raises CodecError if a value has the wrong type."""
    value: T = _object_reader(document_type)(json_value)  # type: ignore[arg-type]  # classes are hashable
    return value


@cache
def _object_reader(value_type: Any) -> _Read:
    hints = get_type_hints(value_type, include_extras=True)
    readers = tuple((field.name, _reader(hints[field.name])) for field in fields(value_type))

    def read_object(json_value: Plain) -> Any:
        if not isinstance(json_value, dict):
            raise unexpected("an object", json_value)
        values, name = [], ""
        try:
            for name, reader in readers:
                values.append(reader(json_value.get(name)))
        except CodecError as error:
            raise error.inside(name) from None
        return value_type(*values)

    return read_object


def _reader(value_type: Any, limit: int | None = None) -> _Read:
    origin, arguments = get_origin(value_type), get_args(value_type)
    if origin is Annotated:
        return _reader(arguments[0], next((size.maximum for size in arguments[1:] if isinstance(size, MaxSize)), limit))
    if origin in (Union, UnionType):
        (inner_type,) = (argument for argument in arguments if argument is not NoneType)
        return _nullable(_reader(inner_type, limit))
    if value_type is str or origin is Literal:  # a newer version may send unknown words
        return _text_reader(bounds.MAX_NAME_LENGTH if limit is None else limit)
    if origin is tuple:
        (item_type, *_) = arguments
        return _list_reader(_object_reader(item_type) if _is_object(item_type) else _reader(item_type), limit)
    if _is_object(value_type):
        return _object_or_empty(_object_reader(value_type))
    return _SCALAR_READERS[value_type] if value_type in _SCALAR_READERS else _mapping_reader(arguments[1])


def _is_object(value_type: Any) -> bool:
    return is_dataclass(value_type)


def _nullable(reader: _Read) -> _Read:
    def read_nullable(json_value: Plain) -> Any:
        value = None if json_value is None else reader(json_value)
        return None if value == "" else value

    return read_nullable


def _object_or_empty(reader: _Read) -> _Read:
    return lambda json_value: reader({} if json_value is None else json_value)


def _text_reader(max_length: int) -> _Read:
    return lambda json_value: "" if json_value is None else clean(codec.read_str(json_value)[:max_length])


def _list_reader(reader: _Read, limit: int | None) -> _Read:
    def read_items(json_value: Plain) -> tuple[Any, ...]:
        if json_value is not None and not isinstance(json_value, list):
            raise unexpected("a list", json_value)
        items: list[Any] = []
        try:
            for element in (json_value or ())[:limit]:
                items.append(reader(element))  # noqa: PERF401  # len(items) is the index of an invalid item
        except CodecError as error:
            raise error.inside(f"[{len(items)}]") from None
        return tuple(items)

    return read_items


def _mapping_reader(value_type: Any) -> _Read:
    if value_type is Any:
        return _as_mapping
    reader = _reader(value_type)

    def read_values(json_value: Plain) -> Mapping[str, Any]:
        values, name = {}, ""
        try:
            for name, element in _as_mapping(json_value).items():
                values[clean(name)] = reader(element)
        except CodecError as error:
            raise error.inside(clean(name)) from None
        return values

    return read_values


def _as_mapping(json_value: Plain) -> Mapping[str, Any]:
    if json_value is not None and not isinstance(json_value, dict):
        raise unexpected("an object", json_value)
    return json_value or {}


_SCALAR_READERS: Mapping[Any, _Read] = {
    bool: lambda json_value: json_value is not None and codec.read_bool(json_value),
    int: codec.read_int,
    float: codec.read_float,
}
