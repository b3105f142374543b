"""Reads the configuration from file, environment and flags, and returns validated settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from telemetry_daemon.config.inputs import (
    FILE_VARIABLE,
    MAX_FILE_BYTES,
    VARIABLE_PREFIX,
    ConfigError,
    ConfigInputs,
    Document,
    KeyPath,
    parse_toml,
)
from telemetry_daemon.config.settings import FLAGS, Settings
from telemetry_daemon.config.table import PLACEHOLDERS, SettingRow, placeholder_path, settings_rows, toml_key
from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.terminal.suggestions import did_you_mean, similar_names
from telemetry_parsers.dataclass import dataclass, replace

# Variables that have the prefix but are not settings.
_RESERVED_VARIABLES = (FILE_VARIABLE, "TELEMETRY_DEBUG", "TELEMETRY_PASSWORD", "TELEMETRY_SHARED", "TELEMETRY_USER")
_RESERVED_PREFIX = "TELEMETRY_TEST_"

_MAX_DIGITS = 18
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?\Z")
# Maps the first words of a TOML parser's message to the remedy.
_REMEDIES: Mapping[str, str] = {
    "Cannot overwrite a value": "this setting appears twice; keep one",
    "Cannot declare": "this section appears twice; put its settings under one heading",
    "Invalid value": "this is not a value; strings need quotes",
    "Expected newline or end of document": "unexpected text after the value; strings need quotes",
}
_POSITION = re.compile(r" \(at line ([0-9]+), column ([0-9]+)\)\Z")


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """The settings, their file, and the origin of each setting."""

    settings: Settings
    file: str | None
    origins: Mapping[str, str]


def load(inputs: ConfigInputs) -> Settings:
    """Return the validated settings. If any are invalid, raise one ConfigError with all errors."""
    return load_with_origins(inputs).settings


def load_with_origins(inputs: ConfigInputs) -> LoadedConfig:
    """Return the validated settings and their origins. If any are invalid, raise one ConfigError with all errors."""
    document = _with_overrides(_read_document(inputs), inputs)
    problems = _unknown_variable_errors(inputs)
    settings = Settings()
    if document.data:
        # Imported only if a value is set, because importing pydantic takes 0.1 s.
        from telemetry_daemon.config.validation import validate

        settings = validate(document, inputs, problems)
    elif problems:
        raise ConfigError(*problems)
    return LoadedConfig(settings, document.file, {toml_key(path): origin for path, origin in document.origins.items()})


def path_of(inputs: ConfigInputs) -> str:
    """Return the path of the configuration file."""
    return inputs.path or inputs.variables().get(FILE_VARIABLE) or inputs.default_path


def _read_document(inputs: ConfigInputs) -> Document:
    requested_path = inputs.path or inputs.variables().get(FILE_VARIABLE)
    path = requested_path or inputs.default_path
    try:
        content = read_file(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        if requested_path is None:
            return Document({})
        remedy = "`telemetry config default` prints a default file"
        raise ConfigError(f"{_printable_path(path)}: no such file; {remedy}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{_printable_path(path)}: cannot be read: {_error_reason(error)}") from error
    text = _decode_text(_printable_path(path), content)
    return Document(_parse_document(_printable_path(path), text), _printable_path(path), text)


def _error_reason(error: OSError | ValueError) -> str:
    if isinstance(error, PermissionError):
        return f"permission denied for user id {os.geteuid()}; make the file readable for this user"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _decode_text(path: str, content: bytes) -> str:
    if b"\0" in content:
        raise ConfigError(f"{path} is binary or UTF-16, not a TOML file; save it as UTF-8 text")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line} is not valid UTF-8; save the file as UTF-8 text") from None
    if text.startswith("\ufeff"):
        raise ConfigError(f"{path}: line 1 begins with a byte order mark; save the file as UTF-8 without this mark")
    return text.replace("\r\n", "\n")


def _parse_document(path: str, text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ConfigError(_syntax_error(path, str(error))) from None


def _syntax_error(path: str, message: str) -> str:
    position = _POSITION.search(message)
    if position is None:
        return f"{path} is not valid TOML: {message}"
    error = message[: position.start()]
    explanation = next((remedy for words, remedy in _REMEDIES.items() if error.startswith(words)), error)
    return f"{path}: line {position[1]} is not valid TOML at column {position[2]}: {explanation}"


def _printable_path(path: str) -> str:
    text = path.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if text.isprintable() else ascii(text)


def _with_overrides(document: Document, inputs: ConfigInputs) -> Document:
    data = document.data
    origins: dict[KeyPath, str] = {}
    for path, origin, value in (*_environment_values(inputs), *_flag_values(inputs)):
        data = _with_value(data, path, value)
        origins[path] = origin
    return replace(document, data=data, file_data=document.data, origins=origins)


def _unknown_variable_errors(inputs: ConfigInputs) -> list[str]:
    variables = {row.variable.removeprefix(VARIABLE_PREFIX): row.variable for row in settings_rows() if row.variable}
    lines = []
    for variable in sorted(inputs.variables()):
        if _is_reserved(variable) or _find_setting(variable) is not None:
            continue
        suggestions = similar_names(variable.removeprefix(VARIABLE_PREFIX), variables)
        remedy = did_you_mean(variables[name] for name in suggestions) or "; unset it for this program"
        lines.append(f"environment variable {variable}: no such setting{remedy}")
    return lines


def _environment_values(inputs: ConfigInputs) -> Iterator[tuple[KeyPath, str, object]]:
    for variable, text in sorted(inputs.variables().items()):
        setting = None if _is_reserved(variable) else _find_setting(variable)
        if setting is not None:
            row, path = setting
            yield path, f"environment variable {variable}", _parse_value(row, text)


def _is_reserved(variable: str) -> bool:
    return variable in _RESERVED_VARIABLES or variable.startswith(_RESERVED_PREFIX)


def _find_setting(variable: str) -> tuple[SettingRow, KeyPath] | None:
    """Return the setting that an environment variable sets, and the setting's path."""
    for row in sorted((row for row in settings_rows() if row.variable), key=lambda row: -len(row.path)):
        pattern = "_".join("(.+)" if part in PLACEHOLDERS else part.upper() for part in row.path)
        match = re.fullmatch(VARIABLE_PREFIX + pattern, variable)
        if match is not None:
            names = iter(match.groups())
            path = (next(names).lower().replace("_", "-") if part in PLACEHOLDERS else part for part in row.path)
            return row, tuple(path)
    return None


def _flag_values(inputs: ConfigInputs) -> Iterator[tuple[KeyPath, str, object]]:
    rows = {row.path: row for row in settings_rows()}
    for setting, value in inputs.overrides.items():
        path = tuple(setting.split("."))
        row = rows.get(placeholder_path(path))
        yield path, f"flag {FLAGS.get(setting, setting)}", value if row is None else _flag_value(row, value)


def _flag_value(row: SettingRow, value: object) -> object:
    """Return a flag's value. Relative paths become absolute."""
    if not isinstance(value, str):
        return list(value) if isinstance(value, tuple) else value
    return str(Path.cwd() / value) if row.kind == "path" and value else _parse_value(row, value)


def _parse_value(row: SettingRow, text: str) -> object:
    """Parse the text of a setting. Invalid text is returned unchanged, and fails the validation."""
    if row.kind == "number":
        return _parse_number(text)
    if row.kind == "switch":
        return {"true": True, "false": False}.get(text.strip().lower(), text)
    if row.kind == "list":
        return _split_list(text)
    if row.kind == "counts":
        return _parse_counts(text)
    return text


def _split_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _parse_counts(text: str) -> dict[str, int | str] | str:
    """Parse counts such as `amd=1,nvidia=2`. Invalid text is returned unchanged."""
    pairs = [pair_text.partition("=") for pair_text in _split_list(text)]
    if not all(equals for _, equals, _ in pairs):
        return text
    counts = {name.strip(): _parse_whole_number(count.strip()) for name, _, count in pairs}
    return counts if len(counts) == len(pairs) else text


def _parse_number(text: str) -> float | str:
    return float(text) if _DECIMAL.match(text.strip()) else text


def _parse_whole_number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else text


def _with_value(data: Mapping[str, Any], path: KeyPath, value: object) -> dict[str, Any]:
    name, *rest = path
    if not rest:
        return {**data, name: value}
    section = data.get(name, {})
    return {**data, name: _with_value(section, tuple(rest), value) if isinstance(section, dict) else section}
