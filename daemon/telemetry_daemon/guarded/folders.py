"""Folders held by descriptors, and new files below them: no other user can redirect the path or create a file there first."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from telemetry_parsers.dataclass import dataclass

ROOT = 0
# The number of links that the kernel follows (path_resolution(7)).
_MOST_LINKS = 40
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeError(PermissionError):
    """A path that is not used, because another user could redirect it; the text has the remedy."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EACCES, text)

    def __str__(self) -> str:
        return str(self.strerror)


@dataclass(frozen=True, slots=True)
class Step:
    """A folder, link or file on a path."""

    path: Path
    status: os.stat_result

    @property
    def is_link(self) -> bool:
        """Return whether the step is a link; the mode of a link has no meaning."""
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def is_ours(self) -> bool:
        """Return whether the step belongs to root or to this user."""
        return self.status.st_uid in (ROOT, os.geteuid())

    @property
    def is_sticky(self) -> bool:
        """Return whether users cannot replace each other's files in this folder."""
        return bool(self.status.st_mode & stat.S_ISVTX)

    @property
    def is_firm(self) -> bool:
        """Return whether only root and this user can replace files of this user in this folder."""
        return self.is_ours and (not self.is_shared() or self.is_sticky)

    def is_shared(self, groups: Container[int] = (ROOT,)) -> bool:
        """Return whether others than its owner and these groups may write to it."""
        others = stat.S_IWOTH | (0 if self.status.st_gid in groups else stat.S_IWGRP)
        return bool(self.status.st_mode & others)


def walk(path: Path, visit: Callable[[Step], None]) -> int:
    """Return a descriptor (O_PATH) of the file at the path; `visit` is called with each step from / on, and may raise."""
    here, links = Path("/"), 0
    names_left = list(reversed(path.absolute().parts[1:]))
    with ExitStack() as held:
        folder = _held(held, os.open("/", _STEP))
        visit(Step(here, os.fstat(folder)))
        while names_left:
            name = names_left.pop()
            opened = _held(held, _opened(name, folder))
            step = Step(here.parent if name == ".." else here / name, os.fstat(opened))
            visit(step)
            if not step.is_link:
                folder, here = opened, step.path
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = Path(os.readlink("", dir_fd=opened))
            if target.is_absolute():
                folder, here = _held(held, os.open("/", _STEP)), Path("/")
            names_left.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        return os.dup(folder)


def reach(path: Path) -> int:
    """Return a descriptor of the folder at the path; a link is followed only if it was created by root or this user."""
    return walk(path, _Shared().visit)


def reach_own(path: Path) -> tuple[int, os.stat_result]:
    """Return a descriptor and the status of a folder that only this user can write, or, for root, the service user's folder."""
    guide = _Own()
    with ExitStack() as unless_good:
        descriptor = walk(path, guide.visit)
        unless_good.callback(os.close, descriptor)
        guide.check_end()
        unless_good.pop_all()
    return descriptor, guide.last.status


class _Shared:
    """Checks a path through folders that others may write to: links of other users are not followed."""

    def __init__(self) -> None:
        self._firm = True

    def visit(self, step: Step) -> None:
        """Check the next step. Raises UnsafeError."""
        if not step.is_link:
            self._firm = self._firm and step.is_firm
        elif not (self._firm and step.is_ours):
            raise UnsafeError(f"{step.path} is a link that another user can change; name the target itself")


class _Own(_Shared):
    """Checks the path to a folder of this user; `last` is the newest step that is not a link."""

    def __init__(self) -> None:
        super().__init__()
        # The owner of the folders: this user, or from some step on the service's user, to whom root gave them.
        self._keeper = os.geteuid()
        self.last = Step(Path("/"), Path("/").stat())
        # If / is not root's, as in a user namespace made by hand, root has only the rights of that namespace's creator.
        self._as_root = os.geteuid() == ROOT and self.last.status.st_uid == ROOT

    def visit(self, step: Step) -> None:
        """Check the next step. Raises UnsafeError."""
        super().visit(step)
        if not step.is_link:
            if self._as_root:
                self._look_as_root(step)
            self.last = step

    def check_end(self) -> None:
        """Check that the last step is a folder to which no other user can write. Raises OSError."""
        path, status = self.last.path, self.last.status
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if status.st_uid not in (self._keeper, os.geteuid()):
            raise UnsafeError(f"{path} belongs to user {status.st_uid}: chown {self._keeper} {path}")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UnsafeError(f"{path} can be written by others: chmod go-w {path}")

    def _look_as_root(self, step: Step) -> None:
        owner = step.status.st_uid
        if owner in (ROOT, self._keeper):
            return
        # In a sticky folder any user may have created it; in another user's folder that user may have moved it there.
        given_by_root = self._keeper == ROOT and self.last.is_firm and not self.last.status.st_mode & stat.S_IWOTH
        if not given_by_root:
            raise UnsafeError(f"{step.path} belongs to user {owner}: chown root {step.path}")
        self._keeper = owner


def _held(held: ExitStack, descriptor: int) -> int:
    held.callback(os.close, descriptor)
    return descriptor


def _opened(name: str, folder: int) -> int:
    """Return a descriptor of the named file. It is opened as a folder first, so that automount mounts it."""
    try:
        return os.open(name, _STEP | os.O_DIRECTORY, dir_fd=folder)
    except NotADirectoryError:  # a link or a file
        return os.open(name, _STEP, dir_fd=folder)


def create(folder: int, name: str, access: int = os.O_WRONLY) -> int:
    """Return a descriptor of a new, empty file for its owner alone. Raise FileExistsError if the name exists."""
    return os.open(name, _NEW | access, 0o600, dir_fd=folder)


def status_of(folder: int, name: str) -> os.stat_result | None:
    """Return the status of the named file, or of the link itself, or None if the name is free."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:  # it may have been removed meanwhile
        return None


def has(folder: int, name: str, descriptor: int) -> bool:
    """Return whether the open file still has the name."""
    status = status_of(folder, name)
    return status is not None and os.path.samestat(status, os.fstat(descriptor))


def remove(folder: int, name: str) -> None:
    """Remove the named file, or the link itself, if it exists. Raises OSError, for example for a folder."""
    with contextlib.suppress(FileNotFoundError):  # it is gone already
        os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def replacing(folder: int, name: str) -> Iterator[int]:
    """Create a file to write to. After the block it replaces the named file in one step; after an error it is removed."""
    temporary = f".{name}.{os.urandom(8).hex()}.new"  # no other user can create the name first
    descriptor = create(folder, temporary)
    try:
        yield descriptor
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is reported
            remove(folder, temporary)
        raise
    finally:
        os.close(descriptor)


def write(descriptor: int, content: bytes) -> None:
    """Write all bytes. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def append(descriptor: int, content: bytes) -> None:
    """Append all bytes as new lines, safe against a power cut, or none of them. Raises OSError."""
    size = os.fstat(descriptor).st_size
    is_half = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    try:
        os.lseek(descriptor, size, os.SEEK_SET)
        write(descriptor, b"\n" * is_half + content)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def other_writer(path: Path, users: Container[int], groups: Container[int] = ()) -> str | None:
    """Return which other user or group could replace the file, with the remedy, or None. Raises OSError if the path cannot be followed."""
    real = path.resolve(strict=True)
    # In a sticky folder further up, such as /tmp, no user can replace the files of another.
    close = (real, real.parent)
    way: list[Step] = []
    os.close(walk(path, way.append))
    return next((text for step in way if (text := _writer(step, users, groups, close)) is not None), None)


def _writer(step: Step, users: Container[int], groups: Container[int], close: tuple[Path, ...]) -> str | None:
    path, status = step.path, step.status
    if status.st_uid not in users:
        return f"{path} belongs to user {status.st_uid}, who could change what runs here: chown root {path}"
    if step.is_link:  # its mode has no meaning; only writers of its folder can redirect it
        return None
    if step.is_shared(groups) and not (step.is_sticky and path not in close):
        return f"{path} can be written by others, who could change what runs here: chmod go-w {path}"
    return None


@dataclass(frozen=True, slots=True)
class Scratch:
    """The open file, and its optional name."""

    stream: BinaryIO
    _path: str

    def named(self) -> str:
        """Return its path, valid until `unnamed`."""
        self.stream.flush()
        with contextlib.suppress(FileExistsError):  # without support for unnamed files it has its name already
            # A descriptor for the source's folder makes Python call linkat, which follows this link to its file.
            os.link(f"/proc/self/fd/{self.stream.fileno()}", self._path, src_dir_fd=self.stream.fileno())
        return self._path

    def unnamed(self) -> None:
        """Remove the name; open descriptors remain valid."""
        Path(self._path).unlink(missing_ok=True)


@contextlib.contextmanager
def scratch() -> Iterator[Scratch]:
    """Create a temporary file that only this user may open."""
    import tempfile  # imports shutil and random, which most processes do not need

    path = f"{tempfile.gettempdir()}/telemetry-{os.urandom(16).hex()}"
    with os.fdopen(_nameless(path), "w+b") as stream:
        made = Scratch(stream, path)
        try:
            yield made
        finally:
            made.unnamed()


def _nameless(path: str) -> int:
    """Return a descriptor of a file without a name, or with this path if the file system requires a name (overlayfs before Linux 6.1)."""
    try:
        return os.open(Path(path).parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # the docstring explains; errors of the folder are raised below
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
