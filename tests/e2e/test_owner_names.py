"""Whose processes are on a card, as the running daemon tells it: by name or hidden, and never with a command line."""

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_mthreads_gmi import BUSY_TABLE
from kits.fake_tools import ToolFolder

pytestmark = pytest.mark.installed

SETTINGS = '[sources.mthreads-gmi]\nmode = "always"\n[sources.proc]\npath = "/"\n[attribution]\nenabled = true\nprocess_metrics = true\n'
# A configured path means that the pids are those of the processes below it, also in a container of tests.
USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, "-c", "import sys; sys.stdin.read()", "--password=hunter2")
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process


@pytest.mark.parametrize(
    ("users", "shown"),
    [("name", re.escape(USER)), pytest.param("hash", "[0-9a-f]{12}", marks=pytest.mark.long), ("none", "None")],
)
def test_a_process_is_reported_as_the_settings_say(
    tmp_path: Path, worker: subprocess.Popen[bytes], users: str, shown: str
) -> None:
    tools = ToolFolder(tmp_path / "tools")
    tools.prints("mthreads-gmi", BUSY_TABLE.replace("4711 ", f"{worker.pid} ").replace("4712 ", "9999999 "))
    with Daemon(tmp_path, f'{SETTINGS}users = "{users}"\n', environment={"PATH": tools.search_path}) as daemon:

        def here() -> dict[str, object]:
            devices = daemon.document()["devices"]
            return next(
                (process for device in devices for process in device["processes"] if process["pid"] == worker.pid), {}
            )

        daemon.until(lambda: here().get("started") is not None)
        assert re.fullmatch(shown, str(here()["user"]))
        assert re.search(rf'accelerator_process_memory_bytes{{.*pid="{worker.pid}".*}} 2.097152e\+09', daemon.page())
        (device,) = daemon.document()["devices"]
        assert len(device["allocations"]) == 1
        status, parsed, _ = run_main("snapshot", "--node", daemon.address, "--processes", "--why")
        assert status == 0
        told_by_daemon = [parsed, daemon.page(), str(daemon.document()), str(daemon.get("/")[1])]
        assert "hunter2" not in "".join(told_by_daemon)
        # As a value: some of the words around it may be the same.
        named = re.compile(rf"""["'( ]{re.escape(USER)}["')]""")
        assert any(map(named.search, told_by_daemon)) == (users == "name")
