"""Puts file, environment and flags together into one document that remembers where each value came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from telemetry_daemon.config.glance import FILE_VARIABLE, VARIABLE_PREFIX
from telemetry_daemon.config.inputs import ConfigInputs
from telemetry_daemon.config.names import did_you_mean, nearest
from telemetry_daemon.config.settings import FLAGS
from telemetry_daemon.config.table import PLACEHOLDERS, KeyPath, SettingRow, general_path, settings_rows

# Variables that begin like ours and are no settings: the file's path, tracebacks of the command, what tests use.
RESERVED_VARIABLES = (FILE_VARIABLE, "TELEMETRY_DEBUG", "TELEMETRY_PASSWORD", "TELEMETRY_SHARED", "TELEMETRY_USER")
RESERVED_PREFIX = "TELEMETRY_TEST_"

_LONGEST_WHOLE = 18
_HAS_VARIABLE = attrgetter("variable")
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?\Z")


@dataclass(frozen=True, slots=True)
class Document:
    """The document to validate. `origins` names the variable or flag of each value that is not the file's."""

    data: dict[str, Any]
    file: str | None = None
    text: str = ""
    file_data: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def file_has(self, path: KeyPath) -> bool:
        """Whether the file itself says something at the path."""
        inner: Any = self.file_data
        for part in path:
            if not isinstance(inner, dict) or part not in inner:
                return False
            inner = inner[part]
        return True


def merged(document: Document, inputs: ConfigInputs) -> Document:
    """The file's document with the environment and the flags laid over it."""
    data = document.data
    origins: dict[KeyPath, str] = {}
    for path, origin, value in (*_from_environment(inputs), *_from_flags(inputs)):
        data = _with(data, path, value)
        origins[path] = origin
    return replace(document, data=data, file_data=document.data, origins=origins)


def unknown_variables(inputs: ConfigInputs) -> list[str]:
    """One line for each variable that begins like a setting's and is none."""
    known = {row.variable.removeprefix(VARIABLE_PREFIX): row.variable for row in settings_rows() if row.variable}
    lines = []
    for variable in sorted(inputs.variables()):
        if _is_reserved(variable) or _setting_of(variable) is not None:
            continue
        near = nearest(variable.removeprefix(VARIABLE_PREFIX), known)
        remedy = did_you_mean(known[name] for name in near) or "; unset it for this program"
        lines.append(f"environment variable {variable}: no such setting{remedy}")
    return lines


def _from_environment(inputs: ConfigInputs) -> Iterator[tuple[KeyPath, str, object]]:
    for variable, text in sorted(inputs.variables().items()):
        setting = None if _is_reserved(variable) else _setting_of(variable)
        if setting is not None:
            row, path = setting
            yield path, f"environment variable {variable}", _read(row, text)


def _is_reserved(variable: str) -> bool:
    return variable in RESERVED_VARIABLES or variable.startswith(RESERVED_PREFIX)


def _setting_of(variable: str) -> tuple[SettingRow, KeyPath] | None:
    """The setting that a variable sets, None when there is none. If several fit, the one with the most placeholders wins."""
    for row in sorted(filter(_HAS_VARIABLE, settings_rows()), key=lambda row: -len(row.path)):
        pattern = "_".join("(.+)" if part in PLACEHOLDERS else part.upper() for part in row.path)
        match = re.fullmatch(VARIABLE_PREFIX + pattern, variable)
        if match is not None:
            names = iter(match.groups())
            path = (next(names).lower().replace("_", "-") if part in PLACEHOLDERS else part for part in row.path)
            return row, tuple(path)
    return None


def _from_flags(inputs: ConfigInputs) -> Iterator[tuple[KeyPath, str, object]]:
    rows = {row.path: row for row in settings_rows()}
    for dotted, value in inputs.overrides.items():
        path = tuple(dotted.split("."))
        row = rows.get(general_path(path))
        yield path, f"flag {FLAGS.get(dotted, dotted)}", value if row is None else _read_flag(row, value)


def _read_flag(row: SettingRow, value: object) -> object:
    """A flag's value; a relative path begins at the working directory."""
    if not isinstance(value, str):
        return list(value) if isinstance(value, tuple) else value
    return str(Path.cwd() / value) if row.kind == "path" and value else _read(row, value)


def _read(row: SettingRow, text: str) -> object:
    """The value of a variable's or a flag's text. A text that cannot be read stays as it is; the model refuses it."""
    if row.kind == "number":
        return _number(text)
    if row.kind == "switch":
        return {"true": True, "false": False}.get(text.strip().lower(), text)
    if row.kind == "list":
        return _items(text)
    if row.kind == "counts":
        return _counts(text)
    return text


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _counts(text: str) -> dict[str, int | str] | str:
    """The counts by name. The text stays as it is when a name has no count, as in `amd`, or two, as in `amd=1,amd=2`."""
    pairs = [item.partition("=") for item in _items(text)]
    if not all(equals for _, equals, _ in pairs):
        return text
    counts = {name.strip(): _whole(count.strip()) for name, _, count in pairs}
    return counts if len(counts) == len(pairs) else text


def _number(text: str) -> float | str:
    return float(text) if _DECIMAL.match(text.strip()) else text


def _whole(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_WHOLE else text


def _with(data: Mapping[str, Any], path: KeyPath, value: object) -> dict[str, Any]:
    """The document with one value replaced. A section that is no table stays as it is; the model refuses it."""
    head, *rest = path
    if not rest:
        return {**data, head: value}
    inner = data.get(head, {})
    return {**data, head: _with(inner, tuple(rest), value) if isinstance(inner, dict) else inner}
