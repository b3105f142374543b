"""Users without access to the daemon's socket: commands and the Python API use HTTP, or report the failure."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.daemon import COMMAND, Daemon, clean_environment
from kits.fake_mthreads_gmi import CARD, REFUSAL, TOOL, query_json
from kits.fake_tools import Answer, ToolFolder
from telemetry_daemon.commands import daemons
from telemetry_daemon.config.settings import Settings, StateSettings, WebSettings
from telemetry_daemon.remote.http_client import Credentials
from telemetry_daemon.web.server import listeners

# Root may use every socket; without capabilities, file modes apply to root, too.
WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()


SECOND_CARD = {
    **CARD,
    "Index": "1",
    "GPU UUID": "7c1f0c2d-91aa-4c0e-8d17-30f2a4b5c6d7",
    "PCI": {"Bus ID": "00000000:1b:00.0"},
}
CONFIG = '[sources.mthreads-gmi]\ninterval = 0.5\nmode = "always"\n'


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, ToolFolder]]:
    """Yield a daemon that has lost one of two cards, and whose socket this user may not use."""
    folder = tmp_path_factory.mktemp("node")
    tools = ToolFolder(folder / "tools")
    tools.answers(TOOL, {"-q --json": Answer(query_json((CARD, SECOND_CARD)))}, REFUSAL)
    with Daemon(folder, CONFIG, environment={"PATH": tools.search_path}) as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 2)
        tools.answers(TOOL, {"-q --json": Answer(query_json())}, REFUSAL)
        daemon.until(lambda: [card["up"] for card in daemon.document()["devices"]] == [True, False])
        # The socket is for the group, the control socket for the daemon's user alone.
        modes = {name: (folder / "run" / name).stat().st_mode & 0o777 for name in ("local.sock", "control.sock")}
        assert modes == {"local.sock": 0o660, "control.sock": 0o600}
        (folder / "run" / "local.sock").chmod(0)
        yield daemon, tools


def run(
    node: tuple[Daemon, ToolFolder], *arguments: str, address: str = "127.0.0.1:1", web: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command whose configuration names this address of the daemon."""
    daemon, tools = node
    file = daemon.folder / "client.toml"
    state = f'[state]\ndirectory = "{daemon.folder}/state"\nruntime_directory = "{daemon.folder}/run"\n'
    file.write_text(f'{state}[web]\nlisten_address = ["{address}"]\n{web}')
    return subprocess.run(
        [*WITHOUT_CAPABILITIES, *COMMAND, arguments[0], "--config", str(file), *arguments[1:]],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment({"PATH": tools.search_path}),
    )


def test_check_finds_the_lost_card_over_http(node: tuple[Daemon, ToolFolder]) -> None:
    done = run(node, "check", address=node[0].address)
    assert done.returncode == 2, done
    assert "moorethreads 1: lost" in done.stdout


@pytest.mark.parametrize(("form", "status"), [("nagios", 3), ("nhc", 0)])
def test_check_is_unknown_without_access(node: tuple[Daemon, ToolFolder], form: str, status: int) -> None:
    done = run(node, "check", "--format", form)
    assert done.returncode == status, done
    assert "UNKNOWN - the daemon of this node does not answer this user" in done.stdout
    assert "permission denied" in done.stdout


def test_snapshot_reads_the_tools_without_access(node: tuple[Daemon, ToolFolder]) -> None:
    done = run(node, "snapshot")
    assert "MTT S80" in done.stdout
    assert "does not answer this user" in done.stderr
    assert "the tools were read instead" in done.stderr


def test_python_reads_the_tools_without_access(node: tuple[Daemon, ToolFolder]) -> None:
    daemon, tools = node
    code = "import device_telemetry as d; print([c.vendor for c in d.read().devices])"
    environment = {
        "PATH": tools.search_path,
        "TELEMETRY_STATE_RUNTIME_DIRECTORY": f"{daemon.folder}/run",
        "TELEMETRY_WEB_LISTEN_ADDRESS": "127.0.0.1:1",
    }
    done = subprocess.run(
        [*WITHOUT_CAPABILITIES, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment(environment),
    )
    assert done.stdout == "['moorethreads']\n"
    assert "does not answer this user" in done.stderr


def test_answer_of_another_users_process_is_ignored(
    node: tuple[Daemon, ToolFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, _ = node
    state = StateSettings(runtime_directory=f"{daemon.folder}/run")
    settings = Settings(state=state, web=WebSettings(listen_address=(daemon.address,)))
    monkeypatch.setattr(listeners, "sockets_on", lambda port: [(("127.0.0.1", port), 4711, 1)])
    monkeypatch.setattr(daemons, "local_socket_in", lambda folder: Path(folder) / "missing.sock")
    assert daemons.find_local_daemon(settings, Credentials()) is None
