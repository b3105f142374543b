"""Interactive shells at a pseudo-terminal, for tests of completion."""

import os
import pty
from collections.abc import Sequence
from pathlib import Path

_READ_BYTES = 4096


def what_ran(shell: Sequence[str], preparation: str, typed: Sequence[str], folder: Path) -> list[str]:
    """Return the arguments that `telemetry` got for each line; a tab in a line requests completion."""
    # Joined from two parts, so that the echo of the typed line is not mistaken for the output.
    spy = "telemetry() { echo RA''N: \"$@\"; }"
    keys = "".join(f"{line}\n" for line in (preparation, spy, *(f"telemetry {line}" for line in typed), "exit"))
    screen = _screen(shell, keys, folder)
    return [line.removeprefix("RAN: ") for line in screen.splitlines() if line.startswith("RAN: ")]


def _screen(shell: Sequence[str], keys: str, folder: Path) -> str:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(shell[0], shell, {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "LC_ALL": "C"})
    try:
        os.write(terminal, keys.encode())
        return b"".join(iter(lambda: _read(terminal), b"")).decode(errors="replace")
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, _READ_BYTES)
    except OSError:  # the error of Linux for a terminal whose shell has exited
        return b""
