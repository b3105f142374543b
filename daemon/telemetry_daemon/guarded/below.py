"""Files made and replaced below a folder's descriptor: always new files, never what others have put there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def create(folder: int, name: str, access: int = os.O_WRONLY) -> int:
    """A descriptor of a new, empty file for its owner alone; FileExistsError if anything has the name."""
    return os.open(name, _NEW | access, 0o600, dir_fd=folder)


def remove(folder: int, name: str) -> None:
    """Remove what has the name, if there is anything; a link itself is removed. Raises OSError, as for a folder."""
    with contextlib.suppress(FileNotFoundError):  # it is gone already
        os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def replacing(folder: int, name: str) -> Iterator[int]:
    """A new file to write to. After the block it takes the name in one step; after an error it is removed."""
    temporary = f".{name}.{os.urandom(8).hex()}.new"  # where others may write, nobody can be there before us
    descriptor = create(folder, temporary)
    try:
        yield descriptor
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            remove(folder, temporary)
        raise
    finally:
        os.close(descriptor)


def write(descriptor: int, content: bytes) -> None:
    """Write all of it. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def append(descriptor: int, content: bytes) -> None:
    """Write all of it behind what a file has, on a line of its own, so that a power cut does not undo it; or nothing of it. Raises OSError."""
    size = os.fstat(descriptor).st_size
    is_half = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    try:
        os.lseek(descriptor, size, os.SEEK_SET)
        write(descriptor, b"\n" * is_half + content)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise
