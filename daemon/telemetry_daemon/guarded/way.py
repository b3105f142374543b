"""The way to a folder, step by step from /, held by descriptors: nobody can bend it behind our back."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

ROOT = 0
# As many as the kernel follows (path_resolution(7)).
_MOST_LINKS = 40
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeError(PermissionError):
    """A place that is not used, since somebody else could lead us elsewhere from there; the text says what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EACCES, text)

    def __str__(self) -> str:
        return str(self.strerror)


@dataclass(frozen=True, slots=True)
class Step:
    """A folder, link or file on the way."""

    place: Path
    status: os.stat_result

    @property
    def is_link(self) -> bool:
        """Whether it leads elsewhere; its mode then says nothing."""
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def is_ours(self) -> bool:
        """Whether it belongs to root or to us."""
        return self.status.st_uid in (ROOT, os.geteuid())

    @property
    def is_firm(self) -> bool:
        """Whether root and we alone decide what lies in it; in a sticky folder each decides over their own."""
        shared = stat.S_IWOTH | (0 if self.status.st_gid == ROOT else stat.S_IWGRP)
        mode = self.status.st_mode
        return self.is_ours and (not mode & shared or bool(mode & stat.S_ISVTX))


def walk(path: Path, visit: Callable[[Step], None]) -> int:
    """A descriptor (O_PATH) of what the path leads to; `visit` sees every step from / on, and may end it by raising."""
    here, links = Path("/"), 0
    left = list(reversed(path.absolute().parts[1:]))
    with ExitStack() as held:
        folder = _held(held, os.open("/", _STEP))
        visit(Step(here, os.fstat(folder)))
        while left:
            name = left.pop()
            found = _held(held, _opened(name, folder))
            step = Step(here.parent if name == ".." else here / name, os.fstat(found))
            visit(step)
            if not step.is_link:
                folder, here = found, step.place
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = Path(os.readlink("", dir_fd=found))
            if target.is_absolute():
                folder, here = _held(held, os.open("/", _STEP)), Path("/")
            left.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        return os.dup(folder)


def reach(path: Path) -> int:
    """A descriptor of the folder at the path; a link is followed only where root and we alone could have put it."""
    return walk(path, _Shared().visit)


def reach_own(path: Path) -> tuple[int, os.stat_result]:
    """A descriptor and the status of a folder in which we alone write, or as root the service's user, too.

    As root, a folder of another user is taken only where root put it, and only with what that user alone may write.
    """
    guide = _Own()
    with ExitStack() as unless_good:
        descriptor = walk(path, guide.visit)
        unless_good.callback(os.close, descriptor)
        guide.check_end()
        unless_good.pop_all()
    return descriptor, guide.last.status


class _Shared:
    """Watches a way on which others may have a hand: they cannot turn us aside with a link."""

    def __init__(self) -> None:
        self._firm = True

    def visit(self, step: Step) -> None:
        """Look at the next step. Raises UnsafeError."""
        if not step.is_link:
            self._firm = self._firm and step.is_firm
        elif not (self._firm and step.is_ours):
            raise UnsafeError(f"{step.place} is a link that another user can change; name the place itself")


class _Own(_Shared):
    """Watches the way to a folder of ours; `last` is where it has come to."""

    def __init__(self) -> None:
        super().__init__()
        # Whose folders these are: ours, or from some step on those that root gave to the service's user.
        self._keeper = os.geteuid()
        self.last = Step(Path("/"), Path("/").stat())
        # Where / is another's, as in a user namespace made by hand, root has no more rights than the user who made it.
        self._as_root = os.geteuid() == ROOT == self.last.status.st_uid

    def visit(self, step: Step) -> None:
        """Look at the next step. Raises UnsafeError."""
        super().visit(step)
        if not step.is_link:
            if self._as_root:
                self._look_as_root(step)
            self.last = step

    def check_end(self) -> None:
        """Whether the last step is a folder that nobody else can write to. Raises OSError."""
        place, status = self.last.place, self.last.status
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
        if status.st_uid not in (self._keeper, os.geteuid()):
            raise UnsafeError(f"{place} belongs to user {status.st_uid}: chown {self._keeper} {place}")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UnsafeError(f"{place} can be written by others: chmod go-w {place}")

    def _look_as_root(self, step: Step) -> None:
        owner = step.status.st_uid
        if owner in (ROOT, self._keeper):
            return
        # In a sticky folder anybody may have made it; in another user's folder that user may have moved it there.
        given = self._keeper == ROOT and self.last.is_firm and not self.last.status.st_mode & stat.S_IWOTH
        if not given:
            raise UnsafeError(f"{step.place} belongs to user {owner}: chown root {step.place}")
        self._keeper = owner


def _held(held: ExitStack, descriptor: int) -> int:
    """The descriptor, closed when the walk is over."""
    held.callback(os.close, descriptor)
    return descriptor


def _opened(name: str, folder: int) -> int:
    """A descriptor of what has the name; asked for as a folder first, which mounts one that automount looks after."""
    try:
        return os.open(name, _STEP | os.O_DIRECTORY, dir_fd=folder)
    except NotADirectoryError:  # a link or a file
        return os.open(name, _STEP, dir_fd=folder)
