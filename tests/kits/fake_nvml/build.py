"""Compile tests/nvml_fake to a libnvidia-ml.so.1 that has the calls of one driver branch."""

from functools import cache
from pathlib import Path

from kits.compiled import cc, compiled

SOURCES = Path(__file__).parents[2] / "nvml_fake"
# The branches whose calls symbols.txt lists.
LEVELS = (450, 470, 515, 525, 535, 550, 560, 570, 575, 580, 590, 595, 610)
_FLAGS = ("-std=gnu11", "-O1", "-g", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror")


def level_of(driver: str) -> int:
    """Return the newest known branch up to a driver version: 580 for 580.105.08, 525 for 530.30.02."""
    branch = int(driver.partition(".")[0])
    return max(level for level in LEVELS if level <= branch)


def symbols(level: int) -> list[str]:
    rows = (line.split() for line in (SOURCES / "symbols.txt").read_text().splitlines())
    return [row[0] for row in rows if row and row[0] != "#" and int(row[1]) <= level]


@cache
def objects() -> tuple[Path, ...]:
    def make(folder: Path) -> None:
        for source in SOURCES.glob("*.c"):
            if source.name != "level.c":
                cc(*_FLAGS, "-c", "-o", folder / f"{source.stem}.o", source)

    return tuple(sorted(compiled("nvml", _sources(), _FLAGS, make).glob("*.o")))


@cache
def library(level: int) -> Path:
    """Return the library of a driver branch. It has no soname, so a process can load several by their paths."""
    parts = objects()

    def make(folder: Path) -> None:
        exported = "".join(f"    {name};\n" for name in symbols(level))
        script = folder / "exported"
        script.write_text(f"{{\n  global:\n{exported}    fakeNvmlLayout;\n  local: *;\n}};\n")
        cc(*_FLAGS, "-shared", f"-DNVML_LEVEL={level}", f"-Wl,--version-script={script}",
           "-o", folder / "library", SOURCES / "level.c", *parts)  # fmt: skip

    return compiled(f"nvml-{level}", _sources(), _FLAGS, make) / "library"


def _sources() -> list[Path]:
    return sorted(path for path in SOURCES.iterdir() if path.suffix in (".c", ".h", ".txt"))
