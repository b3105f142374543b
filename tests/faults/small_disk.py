"""A small disk, and a daemon that logs to a file on it."""

import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kits.daemon import Daemon
from kits.waiting import PATIENCE_SECONDS


@dataclass
class SmallDisk:
    folder: Path
    _ballast: Path = field(init=False)

    def __post_init__(self) -> None:
        self._ballast = self.folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):  # the disk is full
            while True:
                file.write(b"x" * 4096)

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, kibibytes: int = 256) -> Iterator[SmallDisk]:
    folder.mkdir()
    options = f"size={kibibytes}k,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, timeout=PATIENCE_SECONDS)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=PATIENCE_SECONDS)


class LoggingToFile(Daemon):
    """A daemon whose standard error is a file, as without journald; set `log_path` before the start."""

    log_path: Path = Path("/nowhere")

    def __enter__(self) -> Daemon:
        self.prefix = ("sh", "-c", f'exec "$@" 2>>{shlex.quote(str(self.log_path))}', "sh")
        return super().__enter__()

    def read_log(self) -> None:
        """Find the daemon's address in the log file; tests read the other lines."""
        super_lines = threading.Thread(target=super().read_log, daemon=True)  # an empty pipe, read to its end
        super_lines.start()
        while not self.address and self.process is not None and self.process.poll() is None:
            text = self.log_path.read_text() if self.log_path.exists() else ""
            for line in text.splitlines():
                if 'msg="serving"' in line or "msg=serving" in line:
                    self.address = line.partition("address=")[2].split()[0].strip('"')
            time.sleep(0.02)
