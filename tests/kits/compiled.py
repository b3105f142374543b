"""Compile C once for all tests, processes and runs; again only if a source, a flag or this file changes."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

COMPILER = "cc"
_BUILD = Path(__file__).parents[2] / "build"


def compiled(label: str, sources: Sequence[Path], flags: Sequence[str], make: Callable[[Path], None]) -> Path:
    """Return the folder that `make` has filled from these sources; its content also depends on `label` and `flags`.

    The folder gets its name when it is complete. Other processes that need it at the same time wait.
    """
    digest = hashlib.sha256(repr((label, flags, os.uname().machine)).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = _cache() / f"{label}-{digest.hexdigest()[:16]}"
    if not folder.exists():
        with (folder.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                new = Path(tempfile.mkdtemp(dir=folder.parent))
                make(new)
                new.rename(folder)
    return folder


def cc(*arguments: str | Path) -> None:
    ran = subprocess.run([COMPILER, *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"{COMPILER} failed:\n{ran.stderr}")


@cache
def _cache() -> Path:
    """Return a folder that only this user can write to: in the checkout if possible, else among temporary files."""
    if _BUILD.parent.stat().st_uid == os.geteuid() and os.access(_BUILD.parent, os.W_OK):
        folder = _BUILD / "fakes"
        folder.mkdir(parents=True, exist_ok=True)
    else:
        folder = Path(tempfile.gettempdir()) / f"telemetry-fakes-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022 or folder.is_symlink():
        raise RuntimeError(f"{folder} is not ours alone: remove it")
    return folder


def copied(file: Path, target: Path) -> None:
    """Replace a file atomically: processes that have loaded the old file keep it."""
    new = target.with_suffix(".new")
    shutil.copyfile(file, new)
    new.replace(target)
