"""What a configuration says at a glance, without checking it: where its daemon's sockets and the files of jobs are, and a word for what is given.

`telemetry snapshot` of a daemon must not pay for the check: pydantic alone takes as long as the whole command may.
"""

from __future__ import annotations

import sys
from binascii import crc32
from collections.abc import Mapping
from dataclasses import dataclass

from telemetry_daemon.guarded.reading import read_file

DEFAULT_FILE = "/etc/telemetry/telemetry.toml"
FILE_VARIABLE = "TELEMETRY_CONFIG"
VARIABLE_PREFIX = "TELEMETRY_"
DEFAULT_RUNTIME_DIRECTORY = "/run/telemetry"
DEFAULT_JOB_DIRECTORY = "/run/telemetry-jobs"
DEFAULT_STEPS_DIRECTORY = "/run/telemetry-steps"
# By which a daemon tells, on its local socket, by what settings it reads, and what these are made from.
READS_HEADER = "X-Telemetry-Reads"
GIVEN_HEADER = "X-Telemetry-Given"

_LARGEST_FILE_BYTES = 1 << 20
_RUNTIME_VARIABLE = VARIABLE_PREFIX + "STATE_RUNTIME_DIRECTORY"
_JOBS_VARIABLE = VARIABLE_PREFIX + "ATTRIBUTION_JOB_DIRECTORY"
# The variables that decide what is read.
_DECIDING = tuple(
    VARIABLE_PREFIX + section for section in ("SOURCES_", "PARSERS_", "RANK_", "PRIVACY_", "ATTRIBUTION_")
)


@dataclass(frozen=True, slots=True)
class Glance:
    """Where the runtime directory is, and the word: who is given the same reads the same."""

    runtime_directory: str
    word: str


def glance(path: str | None, environment: Mapping[str, str]) -> Glance | None:
    """What the file that `--config` named, or else the usual one, and the environment say; None if that must be checked first."""
    content = _content(path, environment)
    if content is None:
        return None
    directory = environment.get(_RUNTIME_VARIABLE) or _folder(
        content, "state", "runtime_directory", DEFAULT_RUNTIME_DIRECTORY
    )
    return None if directory is None else Glance(directory, _word(content, environment))


def job_directory(path: str | None, environment: Mapping[str, str]) -> str:
    """Where the same say that the files of jobs are; the usual place where they say nothing that can be used."""
    content = _content(path, environment) or b""
    told = environment.get(_JOBS_VARIABLE) or _folder(content, "attribution", "job_directory", DEFAULT_JOB_DIRECTORY)
    return told or DEFAULT_JOB_DIRECTORY


def word_of(path: str | None, environment: Mapping[str, str]) -> str:
    """The word alone; empty where the file cannot be read."""
    content = _content(path, environment)
    return "" if content is None else _word(content, environment)


def _content(path: str | None, environment: Mapping[str, str]) -> bytes | None:
    try:
        return read_file(path or environment.get(FILE_VARIABLE) or DEFAULT_FILE, _LARGEST_FILE_BYTES)
    except FileNotFoundError:  # nobody has to have the default one
        return b"" if path is None and not environment.get(FILE_VARIABLE) else None
    except (OSError, ValueError):  # whoever checks it says what is wrong
        return None


def _word(content: bytes, environment: Mapping[str, str]) -> str:
    deciding = sorted(item for item in environment.items() if item[0].startswith(_DECIDING) and item[1])
    return f"{crc32(repr((content, deciding)).encode()):08x}"


def _folder(content: bytes, section: str, name: str, default: str) -> str | None:
    """What the file says of a folder, else the default; None if the file has to be checked."""
    if name.encode() not in content:
        return default
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        found = tomllib.loads(content.decode()).get(section, {}).get(name, default)
    except (ValueError, AttributeError, RecursionError):  # whoever checks it says what is wrong
        return None
    return found if isinstance(found, str) and found.startswith("/") else None
