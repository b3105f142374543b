"""The inputs of a configuration, and the error for an invalid configuration. The daemon imports this module: no pydantic."""

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
# Headers of a daemon's local socket: fingerprints of its settings, and of the inputs of these settings.
READS_HEADER = "X-Telemetry-Reads"
GIVEN_HEADER = "X-Telemetry-Given"
LARGEST_FILE_BYTES = 1 << 20
# The variables that affect what is read.
_DECIDING = tuple(
    VARIABLE_PREFIX + section for section in ("SOURCES_", "PARSERS_", "RANK_", "PRIVACY_", "ATTRIBUTION_")
)

# No setting's name has more than five parts.
_MOST_PARTS = 64
_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_ENDLESS_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}[ \t]*\.[ \t]*){{{_MOST_PARTS}}}")

KeyPath = tuple[str, ...]


class ConfigError(CommandError):
    """The configuration is invalid; `lines` have position, error and remedy, one line per error."""

    def __init__(self, *lines: str, status: int = exits.CONFIGURATION) -> None:
        super().__init__(*lines, status=status)


@dataclass(frozen=True, slots=True)
class ConfigInputs:
    """All inputs of the settings.

    Flags beat the environment, and the environment beats the file. `path` is the value of `--config`. `overrides` maps
    dotted paths such as `log.level` to the flags' values. `known_sources` is None before the parsers are loaded: then
    any well-formed name may be a source. `known_polls` are the polls of sources whose parser is loaded.
    """

    path: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, object] = field(default_factory=dict)
    known_sources: tuple[str, ...] | None = None
    known_polls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_path: str = DEFAULT_FILE

    def variables(self) -> dict[str, str]:
        """Return the environment's variables with our prefix; an empty variable counts as not set."""
        return {name: text for name, text in self.environment.items() if name.startswith(VARIABLE_PREFIX) and text}


@dataclass(frozen=True, slots=True)
class Document:
    """The document to validate. `origins` names the variable or flag of each value that is not from the file."""

    data: dict[str, Any]
    file: str | None = None
    text: str = ""
    file_data: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def file_has(self, path: KeyPath) -> bool:
        """Return whether the file itself sets the path."""
        inner: Any = self.file_data
        for part in path:
            if not isinstance(inner, dict) or part not in inner:
                return False
            inner = inner[part]
        return True


# A command that asks the daemon, and a scheduler's hook, need only the following three functions: checking the
# configuration takes longer than the rest of the command.


def given_word(path: str | None, environment: Mapping[str, str]) -> str:
    """Return a fingerprint of file and environment, unchecked: the same inputs read the same. Empty if the file cannot be read."""
    try:
        content = _content(path, environment)
    except (OSError, ValueError):  # the check reports the error
        return ""
    deciding = sorted(item for item in environment.items() if item[0].startswith(_DECIDING) and item[1])
    return f"{crc32(repr((content, deciding)).encode()):08x}"


def runtime_directory(path: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the folder of the daemon's sockets by file and environment, unchecked, or None if they must be checked first."""
    return _folder(path, environment, ("state", "runtime_directory"), DEFAULT_RUNTIME_DIRECTORY)


def job_directory(path: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the folder of job files by file and environment, unchecked, or None if it is not set validly."""
    return _folder(path, environment, ("attribution", "job_directory"), DEFAULT_JOB_DIRECTORY)


def _folder(path: str | None, environment: Mapping[str, str], setting: tuple[str, str], default: str) -> str | None:
    section, name = setting
    if variable := environment.get(VARIABLE_PREFIX + "_".join(setting).upper()):
        return variable if variable.startswith("/") else None
    try:
        content = _content(path, environment)
        found = toml_in(content.decode()).get(section, {}).get(name, default) if name.encode() in content else default
    except (OSError, ValueError, AttributeError):  # the check reports the error
        return None
    return found if isinstance(found, str) and found.startswith("/") else None


def _content(path: str | None, environment: Mapping[str, str]) -> bytes:
    """Return the content of the file from `--config` or the variable, or of the default file, which is optional."""
    named = path or environment.get(FILE_VARIABLE)
    try:
        return read_file(named or DEFAULT_FILE, LARGEST_FILE_BYTES)
    except FileNotFoundError:
        if named:
            raise
        return b""


def toml_in(text: str) -> dict[str, Any]:
    """Return the document of a TOML file, or raise ValueError. The reader takes gigabytes for a key of thousands of parts."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if _ENDLESS_KEY.search(text):
        raise ValueError(f"it has a key of more than {_MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
