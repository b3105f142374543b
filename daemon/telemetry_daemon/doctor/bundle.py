"""A bundle: an archive of bounded size whose members share one mask, and texts whose format shows where secrets are."""

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
from telemetry_daemon.config.table import show_toml
from telemetry_daemon.guarded import named
from telemetry_daemon.guarded.reading import NotAFileError
from telemetry_daemon.masking.mask import Mask
from telemetry_exporters.text import clean
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import OWNER_LABELS

MOST_BYTES = 32 << 20
# For one member, so that no page or log displaces the others.
MOST_MEMBER_BYTES = 8 << 20
_FOLDER = "telemetry-doctor"
_CONTENTS = "CONTENTS"
_HEAD_BYTES = 1 << 16
# For headers, the list and padding of an archive.
_ROOM_BYTES = 1 << 20
# Masking takes two seconds for each MiB.
_LONGEST_TEXT = 1 << 20

_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'[^'\n]*')|[ \t]*#[^\n]*""")
_SETTING = re.compile(r"^(?P<key>[ \t]*[\w.\"'-]+[ \t]*=[ \t]*)(?P<value>.*)$")
# Settings that contain host names, whatever their values look like.
_OF_HOSTS = frozenset({"rank_table_server", "allowed_hosts"})
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\\n]|\\.)*)"')
_PLAIN_LABELS = frozenset({"owner_kind", "job_id", "basis", "pid"})
# A job's number is not masked, because it joins the members.
_JOB, _OWNER = 'owner_kind="job"', "owner"
# Labels that name a person or something of theirs, whatever the names look like.
_NAMING = frozenset().union(*OWNER_LABELS.values(), {"server", "instance", "nodename"}) - _PLAIN_LABELS
_ASSIGNED = re.compile(r"""(?:"([\w.]+)=(?:[^"\\]|\\.)*"|'([\w.]+)=[^']*'|([\w.]+)=\S*)""")
_CONTINUED = re.compile(r"[ \t]*\\\n[ \t]*")
_ENVIRONMENT = re.compile(r"^([ \t]*Environment=)(.*)$")
# Values of a web configuration that reveal no secret, name or path.
_PLAIN_WORD = re.compile(
    r"TLS[0-9A-Z_]{2,60}|Curve\w{1,10}|X25519|\w{0,24}ClientCert\w{0,8}|nosniff|deny|sameorigin", re.IGNORECASE
)
_KEY = re.compile(r"[A-Za-z_-]{2,40}")
_USERS = "basic_auth_users"


class BundleError(Exception):
    """A bundle that cannot be written: the place, the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file of the bundle: its description, and how many places in it were masked."""

    name: str
    what: str
    content: bytes
    masked: int = 0


class Bundle:
    """Collects members. Missing members, and those for which there is no room, are listed with the reason."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._members: list[Member] = []
        self._left_out: list[tuple[str, str]] = []
        self._bytes = _ROOM_BYTES

    def text(
        self, name: str, what: str, text: str, masked: Callable[[str], str] | None = None, longest: int = _LONGEST_TEXT
    ) -> None:
        """Add a text, cut to that length, masked by the general rules or by `masked`."""
        if not text.strip():
            self.leave_out(name, "there is none")
            return
        more = f"\n… cut here: {len(text) - longest:,} more characters" if len(text) > longest else ""
        before = self._mask.places
        shown = (masked or self._mask.text)(text[:longest] + more).rstrip("\n") + "\n"
        self.add(Member(name, what, shown.encode("utf-8", "replace"), self._mask.places - before))

    def document(self, name: str, what: str, plain: Mapping[str, Any]) -> None:
        """Add a JSON document."""
        if not plain:
            self.leave_out(name, "there is none")
            return
        before = self._mask.places
        content = dumps(self._mask.plain(dict(plain)), ensure_ascii=False, indent=1).encode("utf-8", "replace")
        self.add(Member(name, what, content, self._mask.places - before))

    def add(self, member: Member) -> None:
        """Add a member that is already masked. A member that is too large is left out."""
        if len(member.content) > MOST_MEMBER_BYTES or self._bytes + len(member.content) > MOST_BYTES:
            self.leave_out(member.name, f"its {len(member.content):,} bytes have no room")
            return
        self._bytes += len(member.content)
        self._members.append(member)

    def leave_out(self, name: str, why: str) -> None:
        """List a missing member with the reason."""
        self._left_out.append((name, why))

    def contents(self, head: str) -> str:
        """Return the list of the members with description, size, and number of masked places."""
        width = max((len(member.name) for member in self._members), default=0)
        rows = [
            f"  {member.name:<{width}}  {len(member.content):>10,} bytes  {member.masked:>6,} masked  {member.what}"
            for member in self._members
        ]
        missing = [f"  {name:<{width}}  not there: {why}" for name, why in self._left_out]
        return "\n".join(map(clean, (*head.splitlines(), "", *rows, *missing, ""))) + "\n"

    def packed(self, head: str, time: float) -> bytes:
        """Return the archive."""
        contents = Member(_CONTENTS, "", self.contents(head).encode())
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for member in (contents, *self._members):
                info = tarfile.TarInfo(f"{_FOLDER}/{member.name}")
                info.size, info.mode, info.mtime = len(member.content), 0o600, int(time)
                archive.addfile(info, io.BytesIO(member.content))
        return packed.getvalue()


def check(path: Path) -> None:
    """Raise BundleError if no bundle can be written: the folder is missing, or another file has the name."""
    if path == Path("-"):
        raise BundleError("a bundle is an archive, and nothing for a terminal: name a file, such as bug.tar.gz")
    head = b""
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise NotAFileError(path.lstat().st_mode, str(path))
        descriptor = named.open_existing(path)
        if descriptor is not None:
            with os.fdopen(descriptor, "rb") as file:
                head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise BundleError(_refused(path, error)) from error
    if head and not _unpacked(head).startswith(f"{_FOLDER}/{_CONTENTS}\0".encode()):
        raise BundleError(f"cannot write to {path}: another file exists there; choose a new name")
    if not os.access(path.absolute().parent, os.W_OK):
        raise BundleError(
            f"cannot write to {path}: its folder is not there or not writable; name a file where you may write"
        )


def write(path: Path, content: bytes) -> None:
    """Write the bundle atomically, readable by its owner alone. On failure raises BundleError and leaves nothing."""
    try:
        named.write_file(path, content)
    except OSError as error:
        raise BundleError(_refused(path, error)) from error


def _refused(path: Path, error: OSError) -> str:
    return f"cannot write to {path}: {error.strerror or error}; name a new file with room in a folder that you may write to"


def _unpacked(head: bytes) -> bytes:
    """Return the first unpacked bytes, or nothing if the content is not gzip."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 512)
    except zlib.error:  # so it is no bundle
        return b""


def masked_settings(text: str, mask: Mask) -> str:
    """Return a TOML configuration without comments, with everything masked that is not generic."""
    usual = frozenset(show_toml(Settings()).split("\n"))
    lines = _COMMENT.sub(lambda match: match[1] or "", text).split("\n")
    return "\n".join(line if line in usual else _setting(line, mask) for line in lines)


def masked_unit(text: str, mask: Mask) -> str:
    """Return a unit as `systemctl cat` prints it, with only the names of its environment variables."""
    whole = _CONTINUED.sub(" ", text)
    lines = (_ENVIRONMENT.sub(lambda match: match[1] + _names_of(match[2]), line) for line in whole.split("\n"))
    return mask.text("\n".join(lines))


def masked_page(text: str, mask: Mask) -> str:
    """Return a page of metrics with the values of its labels masked."""

    @lru_cache(maxsize=1 << 16)
    def shown(name: str, value: str) -> str:
        return mask.name(value) if name in _NAMING else mask.text(value, name)

    def sample(line: str) -> str:
        if line.startswith("#"):
            return line
        free = _OWNER if _JOB in line else ""
        return _LABEL.sub(lambda match: f'{match[1]}="{shown("" if match[1] == free else match[1], match[2])}"', line)

    return "\n".join(map(sample, text.split("\n")))


def redacted_web(content: bytes) -> str:
    """Return a web configuration without secrets: keys, switches and numbers, and only the number of users."""
    import yaml

    try:
        plain = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError):  # its text may contain secrets anywhere
        return "it is no YAML\n"
    return "".join(f"{line}\n" for line in _of_web(plain, ""))


def _setting(line: str, mask: Mask) -> str:
    found = _SETTING.match(line)
    if found is not None and found["key"].strip(" \t=\"'") in _OF_HOSTS:
        return found["key"] + mask.name(found["value"])
    return mask.text(line)


def _names_of(assignments: str) -> str:
    names = (next(filter(None, match.groups()), "") for match in _ASSIGNED.finditer(assignments))
    return " ".join(f"{name}=removed" for name in names)


def _of_web(plain: object, indent: str) -> Iterator[str]:
    if not isinstance(plain, dict):
        yield f"{indent}{_word(plain)}"
        return
    for key, value in plain.items():
        name = key if isinstance(key, str) and _KEY.fullmatch(key) else "removed"
        if key == _USERS:
            yield f"{indent}{name}: {len(value) if isinstance(value, dict) else 0} removed"
        elif isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _of_web(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {_word(value)}"


def _word(value: object) -> str:
    if isinstance(value, bool | int | float) or value is None:
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_word, value))}]"
    return value if isinstance(value, str) and _PLAIN_WORD.fullmatch(value) else "removed"
