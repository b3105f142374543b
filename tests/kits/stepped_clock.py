"""A wall clock that tests set in other processes: a preloaded library adds an offset to the time of day."""

import mmap
import struct
import subprocess
from pathlib import Path

from kits.waiting import PATIENCE_SECONDS

SOURCE = Path(__file__).with_suffix(".c")


class SteppedClock:
    """The time of day in processes that were started with `environment()`; monotonic clocks are unchanged."""

    def __init__(self, folder: Path) -> None:
        self._library = build(folder)
        self._path = folder / "offset"
        self._path.write_bytes(bytes(8))
        with self._path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 8)
        self.offset_seconds = 0.0

    def environment(self) -> dict[str, str]:
        """Return the environment in which a process and its children see this clock."""
        return {"LD_PRELOAD": str(self._library), "TELEMETRY_TEST_CLOCK": str(self._path)}

    def step(self, seconds: float) -> None:
        """Set the clock forward, or back if `seconds` is negative, in all these processes at once."""
        self.offset_seconds += seconds
        self._page[:] = struct.pack("=q", round(self.offset_seconds * 1e9))

    def close(self) -> None:
        self._page.close()


def build(folder: Path) -> Path:
    library = folder / "stepped_clock.so"
    command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-o", str(library), str(SOURCE)]
    subprocess.run([*command, "-ldl", "-pthread"], check=True, timeout=PATIENCE_SECONDS)
    return library
