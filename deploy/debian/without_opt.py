"""Removes the entry of /opt from a Debian package: dpkg removes each empty folder that a package lists, but /opt belongs to the system."""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"!<arch>\n"
HEADER_BYTES = 60
DATA = b"data.tar.xz"


def members(package: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield header and content of each member of an `ar` archive."""
    offset = len(MAGIC)
    while offset < len(package):
        header = package[offset : offset + HEADER_BYTES]
        size = int(header[48:58])
        begin = offset + HEADER_BYTES
        yield header, package[begin : begin + size]
        offset = begin + size + size % 2


def without_folder(folder: str, archive: bytes) -> bytes:
    """Return the tar archive without the header of that folder, otherwise unchanged."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.getmember(f"./{folder}")
    return archive[: member.offset] + archive[member.offset_data :]


def without_opt(package: bytes) -> bytes:
    """Return the package without the entry of /opt in its list of files."""
    headers_and_contents = list(members(package))
    if not any(header.startswith(DATA) for header, _ in headers_and_contents):
        sys.exit(f"the package has no {DATA.decode()}")
    parts = [MAGIC]
    for header, content in headers_and_contents:
        data = lzma.compress(without_folder("opt", lzma.decompress(content))) if header.startswith(DATA) else content
        parts += [header[:48], b"%-10d" % len(data), header[58:], data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def main(file: Path) -> None:
    """Remove the entry of /opt from the package file."""
    file.write_bytes(without_opt(file.read_bytes()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
