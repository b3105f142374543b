"""The JSON Schemas of the product's documents, generated from their dataclasses."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from telemetry_daemon.doctor.document import DoctorJson
from telemetry_exporters.documents.check_formats import CheckupJson
from telemetry_exporters.documents.history_json import HistoryJson
from telemetry_exporters.documents.snapshot_parts import SnapshotJson
from telemetry_exporters.documents.stream_json import (
    DeviceJson,
    MissedEventsJson,
    MissedSeriesJson,
    ReadingsJson,
    StateJson,
    TroublesJson,
)
from telemetry_exporters.terminal.job_bill import JobsJson
from telemetry_parsers.codec.json_types import Schema
from telemetry_parsers.job_record import JobRecord
from telemetry_profile.profile_document import ProfileJson

_Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_JSON_TYPES: Mapping[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


@dataclass(frozen=True)
class Document:
    """A JSON document, and whether later versions may add keys to its objects."""

    document_class: type
    is_open: bool = True

    def schema(self) -> _Schema:
        """Return the schema, with a definition for each class of the document."""
        builder = _SchemaBuilder(is_open=self.is_open)
        root = builder.object_schema(self.document_class)
        return {"$schema": _DIALECT, "title": _title(self.document_class), **root, "$defs": builder.definitions}


@dataclass(frozen=True)
class Events:
    """A stream of events: the classes of each event's data. The `schema` field of the first class is the schema's title."""

    classes_by_event: Mapping[str, tuple[type, ...]]
    description: str

    def schema(self) -> _Schema:
        """Return the schema, whose `$defs` has an entry for each event name."""
        builder = _SchemaBuilder(is_open=True)
        data = {name: list(map(builder.reference_to, classes)) for name, classes in self.classes_by_event.items()}
        unions = {name: {"anyOf": refs} for name, refs in data.items() if len(refs) > 1}
        return {
            "$schema": _DIALECT,
            "title": _title(next(iter(self.classes_by_event.values()))[0]),
            "description": self.description,
            "anyOf": [{"$ref": f"#/$defs/{name}"} for name in self.classes_by_event],
            "$defs": builder.definitions | unions,
        }


DOCUMENTS: Mapping[str, Document | Events] = {
    "docs/check.schema.json": Document(CheckupJson),
    "docs/doctor.schema.json": Document(DoctorJson),
    "docs/history.schema.json": Document(HistoryJson),
    "docs/job.schema.json": Document(JobRecord, is_open=False),
    "docs/jobs.schema.json": Document(JobsJson, is_open=False),
    "docs/profile.schema.json": Document(ProfileJson),
    "docs/snapshot.schema.json": Document(SnapshotJson),
    "docs/stream.schema.json": Events(
        {
            "state": (StateJson,),
            "device": (DeviceJson,),
            "troubles": (TroublesJson,),
            "readings": (ReadingsJson,),
            "history": (MissedSeriesJson, MissedEventsJson),
        },
        "The data of the events at /api/v1/events; `$defs` has one for each event's name. All keys are always present; what is unknown "
        "is null. Later versions of `/1` may have more keys and more kinds of events: ignore those that you do not know.",
    ),
}


def files() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield each file with the function that returns its text."""
    return ((name, partial(_schema_text, document)) for name, document in DOCUMENTS.items())


def _schema_text(document: Document | Events) -> str:
    return json.dumps(document.schema(), indent=2, ensure_ascii=False) + "\n"


def _title(data_class: type) -> str:
    return str(get_args(get_type_hints(data_class)["schema"])[0])


class _SchemaBuilder:
    """Builds schemas, and collects the definitions that they refer to."""

    def __init__(self, *, is_open: bool) -> None:
        self.definitions: dict[str, _Schema] = {}
        self._is_open = is_open

    def object_schema(self, data_class: type) -> _Schema:
        """Return the schema of a dataclass. Keys that can be omitted or were added later are not required."""
        hints, descriptions = get_type_hints(data_class, include_extras=True), _field_descriptions(data_class)
        properties = {
            field.name: ({"description": descriptions[field.name]} if field.name in descriptions else {})
            | self._schema_of(hints[field.name])
            for field in fields(data_class)
        }
        return {
            "description": inspect.cleandoc(data_class.__doc__ or "").replace("\n\n", "\n").replace("\n", " "),
            "type": "object",
            "required": [field.name for field in fields(data_class) if _is_required(field)],
            **({} if self._is_open else {"additionalProperties": False}),
            "properties": properties,
        }

    def _schema_of(self, hint: Any) -> _Schema:
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in _JSON_TYPES:
            return {"type": _JSON_TYPES[hint]}
        if is_dataclass(hint):
            return self.reference_to(hint)
        if origin is Annotated:
            keywords = [annotation.keywords for annotation in arguments[1:] if isinstance(annotation, Schema)]
            return reduce(or_, keywords, self._schema_of(arguments[0]))
        if origin is Literal:
            return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
        if origin is tuple:
            return {"type": "array", "items": self._schema_of(arguments[0])}
        if origin in (Union, UnionType):
            return self._nullable_schema([argument for argument in arguments if argument is not NoneType])
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {
                "type": "object",
                **({} if arguments[1] is Any else {"additionalProperties": self._schema_of(arguments[1])}),
            }
        raise TypeError(f"{hint} has no schema")

    def reference_to(self, data_class: Any) -> _Schema:
        """Return the reference to a dataclass's definition."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", data_class.__name__.removesuffix("Json")).lower()
        if name not in self.definitions:
            self.definitions[name] = {}  # Reserves the place before the definitions that the fields refer to.
            self.definitions[name] = self.object_schema(data_class)
        return {"$ref": f"#/$defs/{name}"}

    def _nullable_schema(self, hints: list[Any]) -> _Schema:
        (hint,) = hints
        schema = self._schema_of(hint)
        if "enum" in schema:
            return schema | {"enum": [*schema["enum"], None]}
        if "type" in schema:
            return schema | {"type": [schema["type"], "null"]}
        return {"anyOf": [schema, {"type": "null"}]}


def _is_required(field: Field[Any]) -> bool:
    return not {"left_out", "added_later"} & field.metadata.keys()


def _field_descriptions(data_class: type) -> Mapping[str, str]:
    """Map each field to the docstring below it, read from the source of the class and of its bases."""
    descriptions: dict[str, str] = {}
    for base in reversed([ancestor for ancestor in data_class.__mro__ if is_dataclass(ancestor)]):
        (definition,) = (node for node in ast.parse(inspect.getsource(base)).body if isinstance(node, ast.ClassDef))
        for node, next_node in pairwise(definition.body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(next_node, ast.Expr)
                and isinstance(next_node.value, ast.Constant)
            ):
                descriptions[ast.unparse(node.target)] = inspect.cleandoc(str(next_node.value.value)).replace("\n", " ")
    return descriptions
