"""Opens folders and creates files that no other user can redirect."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from telemetry_parsers.dataclass import dataclass

ROOT = 0
# The kernel follows at most this many symbolic links in a path (path_resolution(7)).
_MAX_LINKS = 40
_STEP_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY_NAME = re.compile(r"\.telemetry\.[0-9a-f]{16}\.new")
_CREATE_FLAGS = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeError(PermissionError):
    """A path is not used because another user could redirect it."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EACCES, text)

    def __str__(self) -> str:
        return str(self.strerror)


@dataclass(frozen=True, slots=True)
class PathStep:
    """A folder, link or file along a path."""

    path: Path
    status: os.stat_result

    @property
    def is_link(self) -> bool:
        """Return whether this step is a link."""
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def is_ours(self) -> bool:
        """Return whether the owner is root or this user."""
        return self.status.st_uid in (ROOT, os.geteuid())

    @property
    def is_sticky(self) -> bool:
        """Return whether the folder has the sticky bit."""
        return bool(self.status.st_mode & stat.S_ISVTX)

    @property
    def is_protected(self) -> bool:
        """Return whether only this user and root can replace this user's files here."""
        return self.is_ours and (not self.is_shared() or self.is_sticky)

    def is_shared(self, groups: Container[int] = (ROOT,)) -> bool:
        """Return whether users other than the owner and these groups may write."""
        shared_bits = stat.S_IWOTH | (0 if self.status.st_gid in groups else stat.S_IWGRP)
        return bool(self.status.st_mode & shared_bits)


def open_path(path: Path, visit: Callable[[PathStep], None]) -> int:
    """Open a path with O_PATH, and return the descriptor. Call `visit` for each folder, link and file on the way."""
    current, link_count = Path("/"), 0
    remaining_names = list(reversed(path.absolute().parts[1:]))
    with ExitStack() as open_descriptors:
        folder_descriptor = _close_on_exit(open_descriptors, os.open("/", _STEP_FLAGS))
        visit(PathStep(current, os.fstat(folder_descriptor)))
        while remaining_names:
            name = remaining_names.pop()
            descriptor = _close_on_exit(open_descriptors, _open_step(name, folder_descriptor))
            step = PathStep(current.parent if name == ".." else current / name, os.fstat(descriptor))
            visit(step)
            if not step.is_link:
                folder_descriptor, current = descriptor, step.path
                continue
            link_count += 1
            if link_count > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = Path(os.readlink("", dir_fd=descriptor))
            if target.is_absolute():
                folder_descriptor, current = _close_on_exit(open_descriptors, os.open("/", _STEP_FLAGS)), Path("/")
            remaining_names.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        return os.dup(folder_descriptor)


def open_folder(path: Path) -> int:
    """Return a folder's descriptor. Only links of root or this user are followed."""
    return open_path(path, _SharedPathCheck().visit)


def open_own_folder(path: Path) -> tuple[int, os.stat_result]:
    """Return the descriptor and status of a folder to which no other user can write."""
    check = _OwnPathCheck()
    with ExitStack() as on_error:
        descriptor = open_path(path, check.visit)
        on_error.callback(os.close, descriptor)
        check.check_end()
        on_error.pop_all()
    return descriptor, check.last.status


class _SharedPathCheck:
    """Rejects paths that another user could redirect."""

    def __init__(self) -> None:
        self._is_protected = True

    def visit(self, step: PathStep) -> None:
        """Raise UnsafeError if another user could change this part of the path."""
        if not step.is_link:
            self._is_protected = self._is_protected and step.is_protected
        elif not (self._is_protected and step.is_ours):
            raise UnsafeError(f"{step.path} is a link that another user can change; use its target instead")


class _OwnPathCheck(_SharedPathCheck):
    """Checks the path of a folder that only its owner can write to."""

    def __init__(self) -> None:
        super().__init__()
        # If the process runs as root, this becomes the owner of the path's first folder that root does not own.
        self._expected_owner = os.geteuid()
        self.last = PathStep(Path("/"), Path("/").stat())
        # If / does not belong to root, this process is root only in a user namespace.
        self._runs_as_root = os.geteuid() == ROOT and self.last.status.st_uid == ROOT

    def visit(self, step: PathStep) -> None:
        super().visit(step)
        if not step.is_link:
            if self._runs_as_root:
                self._check_as_root(step)
            self.last = step

    def check_end(self) -> None:
        """Raise OSError unless the last step is a folder that only its owner can write to."""
        path, status = self.last.path, self.last.status
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if status.st_uid not in (self._expected_owner, os.geteuid()):
            is_root, owner_text = os.geteuid() == ROOT, f"{path} belongs to user {status.st_uid}"
            remedy = (
                f"chown {self._expected_owner} {path}" if is_root else "run this as its owner, or use another folder"
            )
            raise UnsafeError(f"{owner_text}: {remedy}")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UnsafeError(f"{path} can be written by others: chmod go-w {path}")

    def _check_as_root(self, step: PathStep) -> None:
        owner = step.status.st_uid
        if owner in (ROOT, self._expected_owner):
            return
        # If another user can write to the parent folder, that user may have moved this folder here.
        is_parent_trusted = self.last.is_ours and not self.last.is_shared()
        if self._expected_owner != ROOT or not is_parent_trusted:
            raise UnsafeError(f"{step.path} belongs to user {owner}: chown root {step.path}")
        self._expected_owner = owner


def _close_on_exit(open_descriptors: ExitStack, descriptor: int) -> int:
    open_descriptors.callback(os.close, descriptor)
    return descriptor


def _open_step(name: str, folder_descriptor: int) -> int:
    """Open a file or folder with O_PATH. Opening a folder triggers automount."""
    try:
        return os.open(name, _STEP_FLAGS | os.O_DIRECTORY, dir_fd=folder_descriptor)
    except NotADirectoryError:  # the name is a link or a file
        return os.open(name, _STEP_FLAGS, dir_fd=folder_descriptor)


def create(folder_descriptor: int, name: str, access: int = os.O_WRONLY) -> int:
    """Create an empty file with mode 0600, and return its descriptor. Raises FileExistsError if the name exists."""
    return os.open(name, _CREATE_FLAGS | access, 0o600, dir_fd=folder_descriptor)


def status_of(folder_descriptor: int, name: str) -> os.stat_result | None:
    """Return the status of a file or link, or None if it does not exist."""
    try:
        return os.stat(name, dir_fd=folder_descriptor, follow_symlinks=False)
    except FileNotFoundError:  # the name does not exist
        return None


def is_named(folder_descriptor: int, name: str, descriptor: int) -> bool:
    """Return whether this name in the folder still refers to the open file."""
    status = status_of(folder_descriptor, name)
    return status is not None and os.path.samestat(status, os.fstat(descriptor))


def remove(folder_descriptor: int, name: str) -> None:
    """Remove a file or a link if it exists. Raise OSError if it cannot be removed."""
    with contextlib.suppress(FileNotFoundError):  # already removed
        os.unlink(name, dir_fd=folder_descriptor)


@contextlib.contextmanager
def open_for_listing(parent_descriptor: int, name: str = ".") -> Iterator[int]:
    """Yield a descriptor to list a folder or to change its owner. Raises OSError if `name` is a link."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_descriptor)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacement(folder_descriptor: int, name: str) -> Iterator[int]:
    """Yield the descriptor of a temporary file, which replaces the file `name` if the `with` block succeeds."""
    temporary_name, descriptor = _locked_temporary_file(folder_descriptor)
    try:
        yield descriptor
        os.rename(temporary_name, name, src_dir_fd=folder_descriptor, dst_dir_fd=folder_descriptor)
    except BaseException:
        with contextlib.suppress(OSError):  # the original error is more important
            remove(folder_descriptor, temporary_name)
        raise
    finally:
        os.close(descriptor)
    with contextlib.suppress(OSError):  # the folder cannot be listed, but the file is written
        _remove_abandoned_files(folder_descriptor)


def _locked_temporary_file(folder_descriptor: int) -> tuple[str, int]:
    while True:
        temporary_name = f".telemetry.{os.urandom(8).hex()}.new"  # no other user can create the name first
        descriptor = create(folder_descriptor, temporary_name)
        with contextlib.suppress(OSError):  # abandoned files cannot be detected without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_named(folder_descriptor, temporary_name, descriptor):
            return temporary_name, descriptor
        os.close(descriptor)  # another process removed the file before the lock


def _remove_abandoned_files(folder: int) -> None:
    with open_for_listing(folder) as listed_descriptor, os.scandir(listed_descriptor) as entries:
        names = [entry.name for entry in entries if _TEMPORARY_NAME.fullmatch(entry.name)]
    for name in names:
        with contextlib.suppress(OSError):  # the file is locked, was removed, or belongs to another user
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder, name)
            finally:
                os.close(descriptor)


def write(descriptor: int, content: bytes) -> None:
    """Write all bytes to the descriptor. Raise OSError if writing fails, for example on a full disk."""
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def append(descriptor: int, content: bytes) -> None:
    """Append complete lines, and sync them to disk. On OSError, the file keeps its previous content."""
    previous_size = os.fstat(descriptor).st_size
    is_incomplete = previous_size > 0 and os.pread(descriptor, 1, previous_size - 1) != b"\n"
    try:
        os.lseek(descriptor, previous_size, os.SEEK_SET)
        write(descriptor, b"\n" * is_incomplete + content)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, previous_size)
        raise


def replacement_risk(path: Path, users: Container[int], groups: Container[int] = ()) -> str | None:
    """Return how another user could replace the file, or None if no other user can. Raise OSError if it is missing."""
    real_path = path.resolve(strict=True)
    # For the parent's parents, such as /tmp, the sticky bit is sufficient protection.
    strict_paths = (real_path, real_path.parent)
    steps: list[PathStep] = []
    os.close(open_path(path, steps.append))
    return next((text for step in steps if (text := _risk_at(step, users, groups, strict_paths)) is not None), None)


def _risk_at(
    step: PathStep, users: Container[int], groups: Container[int], strict_paths: Container[Path]
) -> str | None:
    path, status = step.path, step.status
    if status.st_uid not in users:
        return f"{path} belongs to user {status.st_uid}, who could change the code: chown root {path}"
    if step.is_link:  # the mode of a link has no meaning
        return None
    if step.is_shared(groups) and not (step.is_sticky and path not in strict_paths):
        return f"{path} can be written by others, who could change the code: chmod go-w {path}"
    return None


@dataclass(frozen=True, slots=True)
class TemporaryFile:
    """An open temporary file, which other programs can open by its name."""

    stream: BinaryIO
    _path: str

    def add_name(self) -> str:
        """Create a path of the file, and return it. The path is valid until `remove_name` is called."""
        self.stream.flush()
        with contextlib.suppress(FileExistsError):  # the file already has this name: see `_open_temporary`
            # With `src_dir_fd`, Python calls linkat, which follows the link in /proc.
            os.link(f"/proc/self/fd/{self.stream.fileno()}", self._path, src_dir_fd=self.stream.fileno())
        return self._path

    def remove_name(self) -> None:
        """Remove the file's name, but keep open descriptors valid."""
        Path(self._path).unlink(missing_ok=True)


@contextlib.contextmanager
def temporary_file() -> Iterator[TemporaryFile]:
    """Yield a temporary file that only this user can open."""
    import tempfile  # imports shutil and random, which most processes do not need

    path = f"{tempfile.gettempdir()}/telemetry-{os.urandom(16).hex()}"
    with os.fdopen(_open_temporary(path), "w+b") as stream:
        file = TemporaryFile(stream, path)
        try:
            yield file
        finally:
            file.remove_name()


def _open_temporary(path: str) -> int:
    """Return a new file's descriptor. If possible, the file has no name."""
    try:
        return os.open(Path(path).parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # overlayfs supports O_TMPFILE only since Linux 6.1
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
