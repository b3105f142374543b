"""`telemetry snapshot`: daemon or tools, marks of simulated cards, watching, and options that conflict."""

import csv
import fcntl
import io
import json
import os
import pty
import pwd
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import COMMAND, Daemon, clean_environment
from kits.fake_mthreads_gmi import BUSY_TABLE, TABLE
from kits.fake_tools import ToolFolder
from kits.ports import free_address
from telemetry_daemon.readers.proc import INITIAL_NAMESPACE

SETTINGS = '[sources.mthreads-gmi]\nmode = "always"\n'


@pytest.fixture
def tools(tmp_path: Path) -> ToolFolder:
    folder = ToolFolder(tmp_path / "tools")
    folder.prints("mthreads-gmi", TABLE)
    return folder


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "alone.toml"
    state = f'[state]\ndirectory = "{tmp_path}/state"\nruntime_directory = "{tmp_path}/run"\n'
    path.write_text(f'{state}[web]\nlisten_address = "{free_address()}"\n')
    return str(path)


def test_daemon_with_the_same_configuration_answers_first(tmp_path: Path, tools: ToolFolder) -> None:
    environment = {"PATH": tools.search_path}
    with Daemon(tmp_path, SETTINGS, environment=environment) as daemon:
        daemon.until_state("mthreads-gmi", "ok")
        daemon.until(lambda: daemon.get("/readyz")[0] == 200)

        def heading(*arguments: str) -> str:
            status, out, _ = run_main("snapshot", *arguments, environment=environment)
            assert (status, "MTT S80" in out) == (0, True)
            return out.splitlines()[0]

        same = ("--config", str(daemon.config_path))
        assert re.search(r", from the daemon: read [0-9.]+ s ago\Z", heading(*same))
        otherwise_written = tmp_path / "same.toml"
        otherwise_written.write_text(f"# the same\n{daemon.config_path.read_text()}")
        assert "from the daemon" in heading("--config", str(otherwise_written))
        for others in (("--source", "mthreads-gmi"), ("--timeout", "9"), ("--all",), ("--from", "tools")):
            assert "daemon" not in heading(*same, *others)
        assert "from the daemon" in heading(*same, "--from", "daemon", "--all", "temp*")
        assert f"from {daemon.address}" in heading("--node", daemon.address)
        status, out, _ = run_main("snapshot", *same, "--format", "json", "--from", "daemon")
        assert (status, json.loads(out)["devices"]) == (0, daemon.document()["devices"])
        status, out, error = run_main("snapshot", *same, "--format", "json", "--device", "7")
        assert (status, json.loads(out)["devices"], "no device matches --device 7" in error) == (3, [], True)
        other = tmp_path / "other.toml"
        other.write_text(f'{daemon.config_path.read_text()}[sources.nvml]\nmode = "never"\n')
        assert "daemon" not in heading("--config", str(other))


def test_simulated_and_recorded_cards_are_marked(tmp_path: Path, tools: ToolFolder, config: str) -> None:
    status, out, _ = run_main("snapshot", "--demo", "2xnvidia", "--format", "json")
    assert (status, [device["simulated"] for device in json.loads(out)["devices"]]) == (0, [True, True])
    recording = str(tmp_path / "recording.jsonl")
    environment = {"PATH": tools.search_path}
    run_main("record", "-o", recording, "--for", "0.1", "--config", config, environment=environment)
    status, out, _ = run_main("snapshot", "--replay", recording)
    assert (status, "MTT S80" in out, "\nReplay: this is a recording of 2" in out) == (0, True, True)


@pytest.mark.parametrize(
    ("form", "shape"),
    [
        ("json", r"(\{.*\}\n){2}"),
        ("csv", r"time,hostname,(?s:(?!\ntime).)*"),
        ("table", r"(.* B200, .*\nSimulated: .*\n\nVENDOR .*\nnvidia .*\n\n?){2}"),
    ],
)
def test_watched_snapshots_are_appended(form: str, shape: str) -> None:
    """JSON has a document per line, CSV a single heading, tables a blank line between; nothing clears the screen."""
    command = [*COMMAND, "snapshot", "--demo", "1xnvidia", "--format", form, "--watch", "0.3"]
    with subprocess.Popen(command, env=clean_environment({}), stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        shown, lines = "", {"json": 2, "csv": 120, "table": 11}[form]
        for _ in range(lines):
            shown += watching.stdout.readline()
        watching.terminate()
        watching.communicate()
    assert re.fullmatch(shape, shown), shown


def test_closed_pipe_ends_it_quietly() -> None:
    line = f"{' '.join(COMMAND)} snapshot --demo 1xnvidia --watch 0.2 | head -3; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=clean_environment({}), capture_output=True, text=True)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0", "")


def test_slow_sources_are_named_on_a_terminal(tools: ToolFolder, config: str) -> None:
    tools.hangs("mthreads-gmi")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = clean_environment({"PATH": tools.search_path, "TERM": "xterm"})
    command = [*COMMAND, "snapshot", "--config", config, "--timeout", "2"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 2
    assert re.fullmatch(r"(\r\x1b\[Kwaiting for [a-z, -]*mthreads-gmi[a-z, -]*)+\r\x1b\[K", shown)


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process with a secret and a colour in its command line."""
    with subprocess.Popen(
        (sys.executable, "-c", "import sys; sys.stdin.read()", SECRET), stdin=subprocess.PIPE
    ) as process:
        yield process


SECRET = "--token=\x1b[31mhunter2\u202e"
CLEAN_SECRET = "--token=\ufffd[31mhunter2\ufffd"


@pytest.mark.parametrize("has_daemon", [False, True])
def test_local_processes_are_read_by_the_command(
    tmp_path: Path, config: str, worker: subprocess.Popen[bytes], has_daemon: bool
) -> None:
    """Command lines never come from a daemon, of this node or another."""
    folder = ToolFolder(tmp_path / "tools")
    folder.prints("mthreads-gmi", BUSY_TABLE.replace("4711 ", f"{worker.pid} ").replace("4712 ", "9999999 "))
    environment = {"PATH": folder.search_path}
    with ExitStack() as end:
        if has_daemon:
            daemon = end.enter_context(Daemon(tmp_path, SETTINGS, environment=environment))
            daemon.until_state("mthreads-gmi", "ok")
            config = str(daemon.config_path)

        def output_of(*arguments: str) -> str:
            status, out, _ = run_main("snapshot", "--processes", *arguments, environment=environment)
            assert status == 0
            return out

        (device,) = json.loads(output_of("--config", config, "--format", "json"))["devices"]
        here, ended = device["processes"]
        if str(Path("/proc/self/ns/pid").readlink()) != INITIAL_NAMESPACE:
            # A tool's pid means another process here, so nothing is shown of it.
            assert (here["user"], here["command_line"]) == (None, None)
            return
        assert (here["pid"], here["user"]) == (worker.pid, pwd.getpwuid(os.getuid()).pw_name)
        assert here["command_line"].endswith(f" {CLEAN_SECRET}")
        assert 0 <= time.time() - datetime.fromisoformat(here["started"].replace("Z", "+00:00")).timestamp() < 3600
        assert (ended["pid"], ended["user"], ended["command_line"]) == (9999999, None, None)
        assert re.search(
            rf" {worker.pid}  +\S+ .* {re.escape(CLEAN_SECRET)}$", output_of("--config", config), re.MULTILINE
        )
        rows = list(csv.DictReader(io.StringIO(output_of("--config", config, "--format", "csv"))))
        assert [row["pid"] for row in rows] == [str(worker.pid), "9999999"]
        assert rows[0]["command_line"].endswith(CLEAN_SECRET)
        if has_daemon:
            assert "hunter2" not in json.dumps(daemon.document())
            for form in ("table", "json", "csv"):
                assert "hunter2" not in output_of("--node", daemon.address, "--format", form)
