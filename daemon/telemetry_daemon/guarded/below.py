"""Files made and replaced below a folder's descriptor: always new ones, whatever others have put there."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator

_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def create(folder: int, name: str, access: int = os.O_WRONLY) -> int:
    """A descriptor of a new, empty file that is its owner's alone; FileExistsError where anything has the name."""
    return os.open(name, _NEW | access, 0o600, dir_fd=folder)


def remove(folder: int, name: str) -> None:
    """Take away what has the name, be it there or not; a link goes itself. Raises OSError, as for a folder."""
    with contextlib.suppress(FileNotFoundError):  # that it is gone is what was wanted
        os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def replacing(folder: int, name: str) -> Iterator[int]:
    """A new file to write to; after the block it has the name in one step, or after an error it is gone."""
    temporary = f".{name}.{secrets.token_hex(8)}.new"  # where others may write, nobody can be there before us
    descriptor = create(folder, temporary)
    try:
        yield descriptor
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            remove(folder, temporary)
        raise
    finally:
        os.close(descriptor)


def write(descriptor: int, content: bytes) -> None:
    """Write all of it. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
