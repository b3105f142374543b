"""The inputs of the configuration. This module does not import pydantic."""

from __future__ import annotations

import re
import sys
from binascii import crc32
from collections.abc import Mapping
from typing import Any

from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.dataclass import dataclass, field

DEFAULT_FILE = "/etc/telemetry/telemetry.toml"
FILE_VARIABLE = "TELEMETRY_CONFIG"
VARIABLE_PREFIX = "TELEMETRY_"
DEFAULT_RUNTIME_DIRECTORY = "/run/telemetry"
DEFAULT_JOB_DIRECTORY = "/run/telemetry-jobs"
DEFAULT_STEPS_DIRECTORY = "/run/telemetry-steps"
# The daemon's local socket adds these headers to responses.
SETTINGS_HASH_HEADER = "X-Telemetry-Reads"
INPUTS_HASH_HEADER = "X-Telemetry-Given"
MAX_FILE_BYTES = 1 << 20
# Variables with these prefixes affect the readings.
_READING_PREFIXES = tuple(
    VARIABLE_PREFIX + section for section in ("SOURCES_", "PARSERS_", "RANK_", "PRIVACY_", "ATTRIBUTION_")
)

# A key with more parts, separated by dots, is rejected before parsing.
_MAX_PARTS = 64
_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_OVERLONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}[ \t]*\.[ \t]*){{{_MAX_PARTS}}}")

KeyPath = tuple[str, ...]


class ConfigError(CommandError):
    """The configuration is invalid, for the reasons in `lines`."""

    def __init__(self, *lines: str, status: int = exits.CONFIGURATION) -> None:
        super().__init__(*lines, status=status)


@dataclass(frozen=True, slots=True)
class ConfigInputs:
    """All inputs of the settings. Flags override the environment, which overrides the file."""

    path: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, object] = field(default_factory=dict)  # maps settings, such as `log.level`, to flag values
    known_sources: tuple[str, ...] | None = None  # None before the parsers are loaded
    known_polls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_path: str = DEFAULT_FILE

    def variables(self) -> dict[str, str]:
        """Return the non-empty environment variables whose names start with `TELEMETRY_`."""
        return {name: text for name, text in self.environment.items() if name.startswith(VARIABLE_PREFIX) and text}


@dataclass(frozen=True, slots=True)
class Document:
    """The document to validate, with the origin of each value."""

    data: dict[str, Any]
    file: str | None = None
    text: str = ""
    file_data: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def is_set_in_file(self, path: KeyPath) -> bool:
        """Return whether the file contains a value for this path."""
        value: Any = self.file_data
        for part in path:
            if not isinstance(value, dict) or part not in value:
                return False
            value = value[part]
        return True


# The next three functions do not validate the settings, because hooks and requests to the daemon must be fast.


def inputs_hash(path: str | None, environment: Mapping[str, str]) -> str:
    """Return a hash of the settings that affect readings, or "" if the file is unusable."""
    try:
        content = _read_config_file(path, environment)
    except (OSError, ValueError):  # the validation reports the error
        return ""
    variables = sorted(pair for pair in environment.items() if pair[0].startswith(_READING_PREFIXES) and pair[1])
    return f"{crc32(repr((content, variables)).encode()):08x}"


def runtime_directory(path: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the folder for the daemon's sockets, or None if the configuration file is unusable."""
    return _read_path(path, environment, ("state", "runtime_directory"), DEFAULT_RUNTIME_DIRECTORY)


def job_directory(path: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the folder for job files, or None if the configuration file is unusable."""
    return _read_path(path, environment, ("attribution", "job_directory"), DEFAULT_JOB_DIRECTORY)


def _read_path(path: str | None, environment: Mapping[str, str], setting: tuple[str, str], default: str) -> str | None:
    section, name = setting
    if variable := environment.get(VARIABLE_PREFIX + "_".join(setting).upper()):
        return variable if variable.startswith("/") else None
    try:
        content = _read_config_file(path, environment)
        document = parse_toml(content.decode()) if name.encode() in content else {}
        value = document.get(section, {}).get(name, default)
    except (OSError, ValueError, AttributeError):  # the validation reports the error
        return None
    return value if isinstance(value, str) and value.startswith("/") else None


def _read_config_file(path: str | None, environment: Mapping[str, str]) -> bytes:
    """Return the configuration file's content. The default file may be missing."""
    requested_path = path or environment.get(FILE_VARIABLE)
    try:
        return read_file(requested_path or DEFAULT_FILE, MAX_FILE_BYTES)
    except FileNotFoundError:
        if requested_path:
            raise
        return b""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document. Raise ValueError if it is invalid."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if _OVERLONG_KEY.search(text):  # tomllib would use gigabytes of memory for such a key
        raise ValueError(f"a key has more than {_MAX_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("the file is nested too deeply") from None
