"""Builds of one commit by two users with different folders, times and shell settings."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kits.captures import ROOT

GIT = ("git", "-c", "safe.directory=*")


def repository(folder: Path) -> Path:
    """Return a repository whose only commit is the current content of this checkout."""
    listed = subprocess.run(
        [*GIT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    subprocess.run([*GIT, "init", "--quiet"], cwd=folder, check=True)
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    subprocess.run([*GIT, "add", "--all"], cwd=folder, check=True)
    name = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run([*GIT, *name, "commit", "--quiet", "--message", "a"], cwd=folder, check=True)


@dataclass(frozen=True)
class Builder:
    """The folder of a user's clone, and the settings of the user's shell."""

    folder_name: str
    umask: int
    variables: Mapping[str, str]

    def clone(self, origin: Path, folder: Path) -> Path:
        """Make a new clone; its files have the current time."""
        checkout = folder / self.folder_name
        command = [*GIT, "clone", "--quiet", "--no-local", str(origin), str(checkout)]
        subprocess.run(command, check=True, umask=self.umask)
        return checkout

    def run(self, checkout: Path, command: Sequence[str]) -> None:
        """Run a command in the clone with the commit's epoch; show its output if it fails."""
        epoch = subprocess.run(
            [*GIT, "log", "-1", "--format=%ct"], cwd=checkout, capture_output=True, text=True, check=True
        )
        variables = {"SOURCE_DATE_EPOCH": epoch.stdout.strip(), "PYTHON": sys.executable, **self.variables}
        done = subprocess.run(
            command, cwd=checkout, umask=self.umask, env=os.environ | variables, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


BUILDERS = (
    Builder("one", 0o022, {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"}),
    Builder("somewhere/quite/else", 0o077, {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "2"}),
)


def differences(first: Path, second: Path) -> Iterator[str]:
    """Yield the names of files that only one folder has, or that differ."""
    for name in sorted({file.name for folder in (first, second) for file in folder.iterdir()}):
        both = [folder / name for folder in (first, second)]
        if not all(file.exists() for file in both) or both[0].read_bytes() != both[1].read_bytes():
            yield name
