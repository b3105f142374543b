"""A bundle: members that went through one mask, the list of them first, packed into an archive of bounded size."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import cast

from telemetry_daemon.guarded import named
from telemetry_daemon.guarded.reading import NotAFileError
from telemetry_daemon.masking.mask import Mask
from telemetry_exporters.text import clean
from telemetry_parsers.model import Plain

MOST_BYTES = 32 << 20
# Of one member, so that no page or log leaves no room for the others.
MOST_MEMBER_BYTES = 8 << 20
_FOLDER = "telemetry-doctor"
_CONTENTS = "CONTENTS"
_HEAD_BYTES = 1 << 16
# What the headers, the list and the padding of an archive take besides.
_ROOM_BYTES = 1 << 20
# Masking takes two seconds for each MiB.
_LONGEST_TEXT = 1 << 20


class BundleError(Exception):
    """A bundle that cannot be written: where, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file of the bundle, what it is, and in how many places something was masked in it."""

    name: str
    what: str
    content: bytes
    masked: int = 0


class Bundle:
    """Takes one member after the other; what there is none of, or no room for, is named as well."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._members: list[Member] = []
        self._left_out: list[tuple[str, str]] = []
        self._bytes = _ROOM_BYTES

    def text(
        self,
        name: str,
        what: str,
        text: str,
        masked: Callable[[str], str] | None = None,
        longest: int = _LONGEST_TEXT,
    ) -> None:
        """Add a text, cut at that length, masked as any text is or in a way of its own."""
        if not text.strip():
            self.leave_out(name, "there is none")
            return
        before = self._mask.places
        shown = (masked or self._mask.text)(_cut(text, longest)).rstrip("\n") + "\n"
        self.add(Member(name, what, shown.encode("utf-8", "replace"), self._mask.places - before))

    def document(self, name: str, what: str, plain: object) -> None:
        """Add a JSON document."""
        if not plain:
            self.leave_out(name, "there is none")
            return
        before = self._mask.places
        masked = self._mask.plain(cast("Plain", plain))
        content = dumps(masked, ensure_ascii=False, indent=1).encode("utf-8", "replace")
        self.add(Member(name, what, content, self._mask.places - before))

    def add(self, member: Member) -> None:
        """Add a member that is masked already; one that is too large is left out."""
        if len(member.content) > MOST_MEMBER_BYTES or self._bytes + len(member.content) > MOST_BYTES:
            self.leave_out(member.name, f"its {len(member.content):,} bytes have no room")
            return
        self._bytes += len(member.content)
        self._members.append(member)

    def leave_out(self, name: str, why: str) -> None:
        """Say that a member is not there, and why."""
        self._left_out.append((name, why))

    def contents(self, head: str) -> str:
        """The list of the members: what each is, its size, and what was masked in it."""
        width = max((len(member.name) for member in self._members), default=0)
        rows = [
            f"  {member.name:<{width}}  {len(member.content):>10,} bytes  {member.masked:>6,} masked  {member.what}"
            for member in self._members
        ]
        missing = [f"  {name:<{width}}  not there: {why}" for name, why in self._left_out]
        return "\n".join(map(clean, (*head.splitlines(), "", *rows, *missing, ""))) + "\n"

    def packed(self, head: str, time: float) -> bytes:
        """The archive."""
        contents = Member(_CONTENTS, "", self.contents(head).encode())
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for member in (contents, *self._members):
                info = tarfile.TarInfo(f"{_FOLDER}/{member.name}")
                info.size, info.mode, info.mtime = len(member.content), 0o600, int(time)
                archive.addfile(info, io.BytesIO(member.content))
        return packed.getvalue()


def check(path: Path) -> None:
    """Raise BundleError where no bundle can be written: no folder, or something there that is no bundle."""
    if path == Path("-"):
        raise BundleError("a bundle is an archive, and nothing for a terminal: name a file, such as bug.tar.gz")
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise NotAFileError(path.lstat().st_mode, str(path))
        head = _head(path)
    except OSError as error:
        raise BundleError(_told(path, error)) from error
    if head and not _unpacked(head).startswith(f"{_FOLDER}/{_CONTENTS}\0".encode()):
        raise BundleError(f"cannot write to {path}: what is there is no bundle of ours; name a new file")
    if not os.access(path.absolute().parent, os.W_OK):
        raise BundleError(
            f"cannot write to {path}: its folder is not there or not writable; name a file where you may write"
        )


def write(path: Path, content: bytes) -> None:
    """Put the bundle there in one step, for its owner alone. Raises BundleError; then nothing is left of it."""
    try:
        named.put(path, content)
    except OSError as error:
        raise BundleError(_told(path, error)) from error


def gzipped(lines: Sequence[bytes]) -> bytes:
    """The lines packed, without a time and a name."""
    return gzip.compress(b"".join(lines), mtime=0)


def _told(path: Path, error: OSError) -> str:
    return f"cannot write to {path}: {error.strerror or error}; name a new file with room in a folder that you may write to"


def _head(path: Path) -> bytes:
    descriptor = named.existing(path)
    if descriptor is None:
        return b""
    try:
        return os.pread(descriptor, _HEAD_BYTES, 0)
    finally:
        os.close(descriptor)


def _unpacked(head: bytes) -> bytes:
    """The first bytes of what was packed; empty where it is not gzip."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 512)
    except zlib.error:  # so it is no bundle
        return b""


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}\n… cut here: {len(text) - longest:,} more characters"
