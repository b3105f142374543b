"""Reads the configuration: finds the file, lays environment and flags over it, validates, hands over plain settings."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from telemetry_daemon.config.errors import dotted, explained, unknown_names
from telemetry_daemon.config.glance import FILE_VARIABLE
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.layers import Document, merged, unknown_variables
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.guarded.reading import read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LARGEST_FILE_BYTES = 1 << 20
# What the TOML reader says, and what to do about it where its words do not tell.
_REMEDIES: Mapping[str, str] = {
    "Cannot overwrite a value": "this setting is given twice; keep one",
    "Cannot declare": "this section is given twice; put its settings under one heading",
    "Invalid value": "this is not a value; strings need quotes",
    "Expected newline or end of document": "there is more after the value; strings need quotes",
}
_POSITION = re.compile(r" \(at line ([0-9]+), column ([0-9]+)\)\Z")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings with where they came from: the file, and the variable or flag of each path that one of these set."""

    settings: Settings
    file: str | None
    origins: Mapping[str, str]


def load(inputs: ConfigInputs) -> Settings:
    """The settings in force; a ConfigError names everything that is wrong."""
    return load_with_origins(inputs).settings


def load_with_origins(inputs: ConfigInputs) -> Loaded:
    """The settings in force and where they came from; a ConfigError names everything that is wrong."""
    document = merged(_document(inputs), inputs)
    problems = unknown_variables(inputs)
    settings = _validated(document, problems) if document.data else Settings()
    problems += unknown_names(document, inputs)
    if problems:
        raise ConfigError(*problems)
    return Loaded(settings, document.file, {dotted(path): origin for path, origin in document.origins.items()})


def path_of(inputs: ConfigInputs) -> str:
    """The file that was asked for, or the default one."""
    return inputs.path or inputs.variables().get(FILE_VARIABLE) or inputs.default_path


def _validated(document: Document, problems: list[str]) -> Settings:
    """The settings of a document that sets something; a ConfigError names everything that is wrong with it, after the problems."""
    # Where nothing is set, a command is 0.1 s faster without it.
    from pydantic import ValidationError

    from telemetry_daemon.config.models import validated

    try:
        return validated(document.data)
    except ValidationError as error:
        raise ConfigError(*problems, *explained(error, document)) from None


def _document(inputs: ConfigInputs) -> Document:
    """The file that was asked for, or the default one if it is there, or an empty document."""
    given_path = inputs.path or inputs.variables().get(FILE_VARIABLE)
    path = given_path or inputs.default_path
    try:
        content = read_file(path, _LARGEST_FILE_BYTES)
    except FileNotFoundError:
        if given_path is None:
            return Document({})
        remedy = "`telemetry config default` prints one to start from"
        raise ConfigError(f"{_printable(path)}: there is no such file; {remedy}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{_printable(path)}: cannot be read: {_reason(error)}") from error
    text = _text(_printable(path), content)
    return Document(_parsed(_printable(path), text), _printable(path), text)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, PermissionError):
        return f"permission denied for user id {os.geteuid()}; make the file readable for it"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _text(path: str, content: bytes) -> str:
    """The file as text with plain line ends."""
    if b"\0" in content:
        raise ConfigError(f"{path}: is binary or UTF-16, not a TOML file; save it as UTF-8 text")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line}: is not valid UTF-8; save the file as UTF-8 text") from None
    if text.startswith("\ufeff"):
        raise ConfigError(f"{path}: line 1: begins with a byte order mark; save the file as UTF-8 without one")
    return text.replace("\r\n", "\n")


def _parsed(path: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(_syntax_error(path, str(error))) from None
    except RecursionError:
        raise ConfigError(f"{path}: is not valid TOML: it is nested too deeply") from None


def _syntax_error(path: str, message: str) -> str:
    position = _POSITION.search(message)
    if position is None:
        return f"{path}: is not valid TOML: {message}"
    complaint = message[: position.start()]
    why = next((remedy for words, remedy in _REMEDIES.items() if complaint.startswith(words)), complaint)
    return f"{path}: line {position[1]}: is not valid TOML at column {position[2]}: {why}"


def _printable(path: str) -> str:
    """The path on one line and in valid text."""
    text = path.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if text.isprintable() else ascii(text)
