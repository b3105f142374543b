"""Builds the bundle of a bug report, and removes secrets from its members."""

from __future__ import annotations

import io
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from json import dumps
from pathlib import Path
from typing import Any

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.config.table import effective_toml
from telemetry_daemon.guarded import named
from telemetry_daemon.guarded.reading import NotAFileError
from telemetry_daemon.masking.mask import Mask
from telemetry_exporters.text import clean
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import OWNER_LABELS

MAX_BYTES = 32 << 20
# A larger member would leave too little room for the others.
MAX_MEMBER_BYTES = 8 << 20
_ARCHIVE_FOLDER = "telemetry-doctor"
_CONTENTS_NAME = "CONTENTS"
_HEAD_BYTES = 1 << 16
# The archive's headers, padding and list of contents need less space than this.
_OVERHEAD_BYTES = 1 << 20
# Masking takes two seconds for each MiB.
_MAX_TEXT_LENGTH = 1 << 20

_TOML_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'[^'\n]*')|[ \t]*#[^\n]*""")
_SETTING = re.compile(r"^(?P<key>[ \t]*[\w.\"'-]+[ \t]*=[ \t]*)(?P<value>.*)$")
# Settings whose values are host names.
_HOST_SETTINGS = frozenset({"rank_table_server", "allowed_hosts"})
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\\n]|\\.)*)"')
_UNMASKED_LABELS = frozenset({"owner_kind", "job_id", "basis", "pid"})
# The job number in the label `owner` is not masked as a name, so that a job can be found in all members.
_JOB_MARK, _OWNER_LABEL = 'owner_kind="job"', "owner"
# The values of these labels are names and are masked completely.
_NAME_LABELS = frozenset().union(*OWNER_LABELS.values(), {"server", "instance", "nodename"}) - _UNMASKED_LABELS
_ASSIGNMENT = re.compile(r"""(?:"([\w.]+)=(?:[^"\\]|\\.)*"|'([\w.]+)=[^']*'|([\w.]+)=\S*)""")
_LINE_CONTINUATION = re.compile(r"[ \t]*\\\n[ \t]*")
_ENVIRONMENT = re.compile(r"^([ \t]*Environment=)(.*)$")
# Values of a web configuration that contain no secret, name or path.
_HARMLESS_VALUE = re.compile(
    r"TLS[0-9A-Z_]{2,60}|Curve\w{1,10}|X25519|\w{0,24}ClientCert\w{0,8}|nosniff|deny|sameorigin", re.IGNORECASE
)
_CONFIG_KEY = re.compile(r"[A-Za-z_-]{2,40}")
_USERS_KEY = "basic_auth_users"


class BundleError(Exception):
    """A bundle cannot be written."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in the bundle, with the number of values that were masked."""

    name: str
    title: str
    content: bytes
    masked_count: int = 0


class Bundle:
    """The members of a bundle, and the reasons for missing members."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._members: list[Member] = []
        self._missing: list[tuple[str, str]] = []
        self._size_bytes = _OVERHEAD_BYTES

    def add_text(
        self, name: str, title: str, text: str, mask: Callable[[str], str] | None = None, limit: int = _MAX_TEXT_LENGTH
    ) -> None:
        """Truncate a text to `limit` characters, mask it, and add it as a member."""
        if not text.strip():
            self.add_missing(name, "missing or empty")
            return
        ending = f"\n… truncated: {len(text) - limit:,} more characters" if len(text) > limit else ""
        previous_count = self._mask.replacement_count
        masked = (mask or self._mask.masked_text)(text[:limit] + ending).rstrip("\n") + "\n"
        self.add(Member(name, title, masked.encode("utf-8", "replace"), self._mask.replacement_count - previous_count))

    def add_document(self, name: str, title: str, value: Mapping[str, Any]) -> None:
        """Mask a JSON document, and add it."""
        if not value:
            self.add_missing(name, "missing or empty")
            return
        previous_count = self._mask.replacement_count
        content = dumps(self._mask.masked_plain(dict(value)), ensure_ascii=False, indent=1).encode("utf-8", "replace")
        self.add(Member(name, title, content, self._mask.replacement_count - previous_count))

    def add(self, member: Member) -> None:
        """Add a member that is already masked. If it is too large, list it as missing."""
        if len(member.content) > MAX_MEMBER_BYTES or self._size_bytes + len(member.content) > MAX_BYTES:
            self.add_missing(member.name, f"its {len(member.content):,} bytes exceed the size limit")
            return
        self._size_bytes += len(member.content)
        self._members.append(member)

    def add_missing(self, name: str, reason: str) -> None:
        """List a missing member in the contents, with the reason."""
        self._missing.append((name, reason))

    def contents(self, heading: str) -> str:
        """Return the list of contents, which also names missing members."""
        width = max((len(member.name) for member in self._members), default=0)
        rows = [
            f"  {member.name:<{width}}  {len(member.content):>10,} bytes  {member.masked_count:>6,} masked  {member.title}"
            for member in self._members
        ]
        missing = [f"  {name:<{width}}  missing: {reason}" for name, reason in self._missing]
        return "\n".join(map(clean, (*heading.splitlines(), "", *rows, *missing, ""))) + "\n"

    def to_archive(self, heading: str, time: float) -> bytes:
        """Return a compressed tar archive that starts with the list of contents."""
        contents = Member(_CONTENTS_NAME, "", self.contents(heading).encode())
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for member in (contents, *self._members):
                info = tarfile.TarInfo(f"{_ARCHIVE_FOLDER}/{member.name}")
                info.size, info.mode, info.mtime = len(member.content), 0o600, int(time)
                archive.addfile(info, io.BytesIO(member.content))
        return content.getvalue()


def check_path(path: Path) -> None:
    """Raise BundleError if no bundle can be written to the path."""
    if path == Path("-"):
        raise BundleError("a bundle cannot be written to a terminal; name a file, such as bug.tar.gz")
    head = b""
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise NotAFileError(path.lstat().st_mode, str(path))
        descriptor = named.open_existing(path)
        if descriptor is not None:
            with os.fdopen(descriptor, "rb") as file:
                head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise BundleError(_error_text(path, error)) from error
    if head and not _decompress_head(head).startswith(f"{_ARCHIVE_FOLDER}/{_CONTENTS_NAME}\0".encode()):
        raise BundleError(f"cannot write to {path}: another file exists there; choose a new name")
    if not os.access(path.absolute().parent, os.W_OK):
        raise BundleError(f"cannot write to {path}: its folder is missing or not writable; use a writable folder")


def write_file(path: Path, content: bytes) -> None:
    """Write the bundle atomically, readable only by its owner. Raise BundleError if it cannot be written."""
    try:
        named.write_file(path, content)
    except OSError as error:
        raise BundleError(_error_text(path, error)) from error


def _error_text(path: Path, error: OSError) -> str:
    return f"cannot write to {path}: {error.strerror or error}; use a new file in a writable folder on a disk with free space"


def _decompress_head(head: bytes) -> bytes:
    """Decompress the beginning of a gzip file. Return b"" for other files."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 512)
    except zlib.error:  # not a bundle
        return b""


def masked_settings(text: str, mask: Mask) -> str:
    """Return a masked TOML configuration without comments. Lines that contain the default value are not masked."""
    default_lines = frozenset(effective_toml(Settings()).split("\n"))
    lines = _TOML_COMMENT.sub(lambda match: match[1] or "", text).split("\n")
    return "\n".join(line if line in default_lines else _masked_setting(line, mask) for line in lines)


def masked_unit(text: str, mask: Mask) -> str:
    """Return the output of `systemctl cat` without the values of environment variables."""
    joined = _LINE_CONTINUATION.sub(" ", text)
    lines = (_ENVIRONMENT.sub(lambda match: match[1] + _remove_values(match[2]), line) for line in joined.split("\n"))
    return mask.masked_text("\n".join(lines))


def masked_page(text: str, mask: Mask) -> str:
    """Mask the label values in a page of Prometheus metrics."""

    @lru_cache(maxsize=1 << 16)
    def masked(name: str, value: str) -> str:
        return mask.masked_name(value) if name in _NAME_LABELS else mask.masked_text(value, name)

    def masked_line(line: str) -> str:
        if line.startswith("#"):
            return line
        job = _OWNER_LABEL if _JOB_MARK in line else ""
        return _LABEL.sub(lambda match: f'{match[1]}="{masked("" if match[1] == job else match[1], match[2])}"', line)

    return "\n".join(map(masked_line, text.split("\n")))


def redacted_web_config(content: bytes) -> str:
    """Return a web configuration without secrets."""
    import yaml

    try:
        configuration = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError):  # a text that is not YAML may contain secrets anywhere
        return "the file is not YAML\n"
    return "".join(f"{line}\n" for line in _web_lines(configuration, ""))


def _masked_setting(line: str, mask: Mask) -> str:
    setting = _SETTING.match(line)
    if setting is not None and setting["key"].strip(" \t=\"'") in _HOST_SETTINGS:
        return setting["key"] + mask.masked_name(setting["value"])
    return mask.masked_text(line)


def _remove_values(assignments: str) -> str:
    names = (next(filter(None, match.groups()), "") for match in _ASSIGNMENT.finditer(assignments))
    return " ".join(f"{name}=removed" for name in names)


def _web_lines(configuration: object, indent: str) -> Iterator[str]:
    if not isinstance(configuration, dict):
        yield f"{indent}{_redacted_value(configuration)}"
        return
    for key, value in configuration.items():
        name = key if isinstance(key, str) and _CONFIG_KEY.fullmatch(key) else "removed"
        if key == _USERS_KEY:
            yield f"{indent}{name}: {len(value) if isinstance(value, dict) else 0} removed"
        elif isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _web_lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {_redacted_value(value)}"


def _redacted_value(value: object) -> str:
    if isinstance(value, bool | int | float) or value is None:
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_redacted_value, value))}]"
    return value if isinstance(value, str) and _HARMLESS_VALUE.fullmatch(value) else "removed"
