"""Compiles tests/nvml_fake to a libnvidia-ml.so.1 that has the calls of one driver branch."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "nvml_fake"
COMPILER = "cc"
# The branches whose calls symbols.txt tells.
LEVELS = (450, 470, 515, 525, 535, 550, 560, 570, 575, 580, 590, 595, 610)
_FLAGS = ("-std=gnu11", "-O1", "-g", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror")


def level_of(driver: str) -> int:
    """The branch whose calls a driver version has: 580 for 580.105.08, 525 for 530.30.02."""
    branch = int(driver.partition(".")[0])
    return max(level for level in LEVELS if level <= branch)


def symbols(level: int) -> list[str]:
    """The names that the library of a driver branch has."""
    rows = (line.split() for line in (SOURCES / "symbols.txt").read_text().splitlines())
    return [row[0] for row in rows if row and row[0] != "#" and int(row[1]) <= level]


def build(folder: Path, level: int, *, flags: tuple[str, ...] = ()) -> Path:
    """Build the library of a driver branch in a folder, unless it is there; returns its path."""
    library = folder / f"libnvidia-ml-{level}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / f"{level}.map"
        exported = "".join(f"    {name};\n" for name in symbols(level))
        script.write_text(f"{{\n  global:\n{exported}    fakeNvmlLayout;\n  local: *;\n}};\n")
        new = library.with_suffix(".new")
        _cc("-shared", *flags, f"-DNVML_LEVEL={level}", f"-Wl,-soname,libnvidia-ml.so.1,--version-script={script}",
            "-o", str(new), str(SOURCES / "level.c"), *_objects(folder, flags))  # fmt: skip
        new.replace(library)
    return library


@functools.cache
def build_once(level: int) -> Path:
    """Build the library of a driver branch once for this process and all its tests."""
    return build(_session_folder(), level)


@functools.cache
def _session_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fake-nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # nobody is left to be told
    return folder


def _objects(folder: Path, flags: tuple[str, ...]) -> list[str]:
    objects = []
    for source in sorted(SOURCES.glob("*.c")):
        if source.name != "level.c":
            target = folder / f"{source.stem}.o"
            if not target.exists():
                _cc("-c", *flags, "-o", str(target), str(source))
            objects.append(str(target))
    return objects


def _cc(*arguments: str) -> None:
    ran = subprocess.run([COMPILER, *_FLAGS, *arguments], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"{COMPILER} cannot build the fake NVML:\n{ran.stderr}")
