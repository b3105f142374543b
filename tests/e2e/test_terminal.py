"""The command on all kinds of terminals and streams: colours, encodings, closed descriptors, a closed pipe."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from kits.daemon import COMMAND, bare_config, clean_environment
from kits.fake_mthreads_gmi import TABLE
from kits.waiting import PATIENCE_SECONDS

PARSE = (*COMMAND, "parse", "mthreads-gmi", "-", "--format", "table")


def shell(line: str, *arguments: str, environment: dict[str, str] | None = None) -> tuple[int, bytes, str]:
    """Run a command, `$@`, in the shell's redirections; return status, output and errors."""
    done = subprocess.run(
        ["sh", "-c", line, "sh", *arguments],
        input=TABLE.encode(),
        capture_output=True,
        env=clean_environment(environment or {}),
    )
    return done.returncode, done.stdout, done.stderr.decode()


def on_a_terminal(columns: int, environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    done = subprocess.run(
        PARSE, input=TABLE.encode(), stdout=theirs, stderr=subprocess.PIPE, env=clean_environment(environment or {})
    )
    os.close(theirs)
    found = b""
    try:
        while chunk := os.read(ours, 1 << 16):
            found += chunk
    except OSError:  # the error of Linux at the end of a terminal
        pass
    os.close(ours)
    assert (done.returncode, done.stderr) == (0, b"")
    return found.decode()


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), pytest.param({"TERM": "dumb"}, False, marks=pytest.mark.long)],
)
def test_colours_need_a_capable_terminal(environment: dict[str, str], coloured: bool) -> None:  # a column of the table
    """Colours need a terminal that supports them and a user who wants them (https://no-color.org)."""
    assert ("\x1b[" in on_a_terminal(80, {"TERM": "xterm", **environment})) is coloured


def test_pipe_gets_utf_8_in_any_locale() -> None:
    status, out, error = shell('"$@"', *PARSE, environment={"PYTHONIOENCODING": "ascii"})
    assert (status, "MTT S80" in out.decode("utf-8"), "°C" in out.decode("utf-8"), error) == (0, True, True, "")


def test_ascii_terminal_gets_replacements() -> None:
    assert "58 ?C" in on_a_terminal(80, {"TERM": "xterm", "PYTHONIOENCODING": "ascii"})


@pytest.mark.parametrize(
    ("line", "status", "named"),
    [
        ('"$@" >&-', 74, "standard output: Bad file descriptor"),
        ('"$@" >/dev/full', 74, "standard output: No space left on device"),
        ('"$@" <&-', 64, "cannot read '-': Bad file descriptor"),
        ('"$@" 2>&- | head -c 1 >/dev/null', 0, ""),
        pytest.param('"$@" <&- 2>&-', 64, "", marks=pytest.mark.long),
    ],
)
def test_closed_or_full_stream_is_reported_in_one_line(line: str, status: int, named: str) -> None:
    code, _, error = shell(line, *PARSE)
    assert (code, named in error, len(error.splitlines()) <= 1) == (status, True, True)


def test_daemon_without_standard_streams_opens_no_file_in_their_place(tmp_path: Path) -> None:
    """It also exits cleanly if it is stopped as soon as it listens."""
    listening, config = tmp_path / "web.sock", bare_config(tmp_path)
    line = [*COMMAND, "serve", "--demo", "1xamd", "--web.listen-address", f"unix:{listening}", "--config", config]
    closed = 'exec "$@" <&- >&- 2>&-'
    with subprocess.Popen(["sh", "-c", closed, "sh", *line], env=clean_environment({})) as process:
        while not listening.exists():
            assert process.poll() is None
            time.sleep(0.002)  # the daemon is stopped as early as possible
        links = {str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) for number in (0, 1, 2)}
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    assert links == {os.devnull}
