"""The doctor beside the daemon of this node, and asking that of another: what it says of both."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import pytest

from doctor.played import SCHEMA, unit_of
from doctor.test_command import healthy
from kits.daemon import Daemon, run
from kits.tool_node import TOOL, tool_node


def test_a_daemon_with_another_configuration(tmp_path: Path) -> None:
    """It polls other sources and does not find the tool that this command finds."""
    daemon, tools = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        same = ("--config", str(daemon.config_path))
        environment = {"PATH": tools.search_path}
        status, said, _ = run("doctor", *same, environment=environment)
        assert "daemon     version " in said
        assert (status, said.endswith("no findings\n")) == (0, True), said
        other = tmp_path / "other.toml"
        other.write_text(daemon.config_path.read_text() + f'path = "{tools.folder}/{TOOL}"\n')
        status, said, _ = run("doctor", "--config", str(other), environment=environment)
        words = " ".join(said.split())
        assert status == 2
        assert "wrong daemon: it reads by another configuration than this command" in words
        assert "systemctl reload telemetry" in words


def test_a_tool_that_only_this_command_finds(tmp_path: Path) -> None:
    daemon, tools = tool_node(tmp_path)
    hidden = Daemon(tmp_path, daemon.config)
    with hidden:
        hidden.until_state("host", "ok")
        hidden.until_state(TOOL, "missing")
        status, said, _ = run("doctor", "--config", str(hidden.config_path), environment={"PATH": tools.search_path})
    words = " ".join(said.split())
    assert status == 2
    assert f"wrong daemon: {TOOL} is ok here and missing there" in words
    assert "LD_LIBRARY_PATH and the like belong in a drop-in" in words


def test_a_card_that_was_lost(tmp_path: Path) -> None:
    """Only the daemon remembers it; what was recorded when it went is named."""
    node = healthy(tmp_path)
    node.config = "interval = 0.5\n"
    with Daemon(tmp_path, f'[sources.amdgpu-sysfs]\npath = "{node.root}"\ninterval = 0.5\n') as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 2)
        assert node.doctor().status == 0
        node.take_out(4)
        daemon.until(lambda: "lost" in str(list(tmp_path.glob("state/flights/*"))))
        status, plain = node.document()
    (lost,) = plain["findings"]
    assert (status, lost["where"], lost["what"]) == (
        2,
        "amd 1",
        "lost (0000:04:00.0): its driver no longer lists it",
    )
    assert all(words in lost["remedy"] for words in ("dmesg", "telemetry forget ", "telemetry top --replay", "-lost."))


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("amd = 2", []),
        ("amd = 1", []),
        ("amd = 8", ["8 amd devices are expected, and 2 found"]),
        ("amd = 2, nvidia = 1", ["1 nvidia device is expected, and 0 found"]),
    ],
)
def test_cards_that_should_be_there(tmp_path: Path, expected: str, found: list[str]) -> None:
    """Alone, beside the daemon, and as the daemon of another node tells it."""
    node = healthy(tmp_path)
    node.config = f"[expect]\ndevices = {{{expected}}}\n"
    alone = node.document()[1]
    with Daemon(tmp_path, f'[sources.amdgpu-sysfs]\npath = "{node.root}"\n{node.config}') as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 2)
        beside = node.document()[1]
        from_afar = json.loads(run("doctor", "--node", daemon.address, "--format", "json")[1])
    for plain in (alone, beside, from_afar):
        assert [one["what"] for one in plain["findings"]] == found
        assert all(one["where"] == "expect.devices" and "lspci" in one["remedy"] for one in plain["findings"])


def test_a_daemon_that_was_stopped(tmp_path: Path) -> None:
    """It is asked once, also for a bundle, which says of each part why it is not there."""
    node = healthy(tmp_path)
    node.tools.script("systemctl", unit_of())
    with Daemon(tmp_path, f'[sources.amdgpu-sysfs]\npath = "{node.root}"\n') as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 2)
        daemon.signal(signal.SIGSTOP)
        said = node.doctor("--bundle", str(tmp_path / "bundle.tar.gz"))
        status, plain = node.document()
    (finding,) = plain["findings"]
    assert (status, finding["where"]) == (2, "daemon")
    assert finding["what"] == "it runs and does not answer: no answer in time"
    assert "kill -CONT" in finding["remedy"]
    assert said.status == 2
    assert "snapshot.json, history.json, metrics.txt  not there: no daemon: no answer in time" in said.output
    assert "the daemon's last minutes not there: no answer in time" in said.words


SNAPSHOT = {
    "schema": "telemetry.snapshot/1",
    "hostname": "n",
    "time": "2026-11-01T10:00:00Z",
    "devices": [],
    "sources": [],
}


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "no telemetry daemon answers there"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", "it cannot be understood: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "there is none"),
    ],
)
def test_a_bundle_says_why_it_has_no_history(tmp_path: Path, history: bytes, why: str) -> None:
    node = healthy(tmp_path)
    (tmp_path / "run").mkdir(mode=0o700)
    body = json.dumps(SNAPSHOT).encode()
    snapshot = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "run" / "local.sock"))
        listener.listen()
        page = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        answering = threading.Thread(target=_answer, args=(listener, ((snapshot, page), (history,))))
        answering.start()
        said = node.doctor("--bundle", str(tmp_path / "bundle.tar.gz"))
        answering.join()
    assert f"history.json not there: {why}" in said.words


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "its document cannot be understood"),
        (b"boom\r\n\r\n", "what came is no HTTP"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "it answers with status 500"),
        (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", ""),
    ],
)
def test_a_daemon_that_is_not_understood(tmp_path: Path, answer: bytes, what: str) -> None:
    node = healthy(tmp_path)
    (tmp_path / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "run" / "local.sock"))
        listener.listen()
        answering = threading.Thread(target=_answer, args=(listener, ((answer,),)))
        answering.start()
        status, plain = node.document()
        answering.join()
    assert [what in one["what"] for one in plain["findings"]] == [True] * bool(what)
    assert status == (2 if what else 0)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"SSH-2.0-x\r\n"])
def test_another_program_where_the_daemon_would_listen(tmp_path: Path, answer: bytes) -> None:
    """It is not ours to be stopped or started."""
    node = healthy(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        node.environment["TELEMETRY_WEB_LISTEN_ADDRESS"] = f"127.0.0.1:{listener.getsockname()[1]}"
        answering = threading.Thread(target=_answer, args=(listener, ((answer,),)))
        answering.start()
        status, plain = node.document()
        answering.join()
    assert (status, plain["findings"]) == (0, [])


def _answer(listener: socket.socket, connections: Sequence[Sequence[bytes]]) -> None:
    """The answers on each of so many connections, in order."""
    for answers in connections:
        asked, _ = listener.accept()
        with asked:
            for answer in answers:
                asked.recv(1 << 16)
                asked.sendall(answer)


def test_a_daemon_that_another_version_runs(tmp_path: Path) -> None:
    daemon, tools = tool_node(tmp_path)
    code = "from telemetry_daemon import version; version.__version__ = '9.9'; from telemetry_daemon.cli import main; main()"
    daemon.command = (*daemon.command[:1], "-c", code)
    with daemon:
        daemon.until_state(TOOL, "ok")
        status, said, _ = run("doctor", "--config", str(daemon.config_path), environment={"PATH": tools.search_path})
    assert (status, "it runs version 9.9" in " ".join(said.split())) == (2, True)


def test_another_node_is_asked(tmp_path: Path) -> None:
    """Its own words, without the tools of this node, in both formats."""
    daemon, tools = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        status, said, error = run("doctor", "--node", daemon.address)
        assert (status, error) == (0, "")
        assert f"asked at {daemon.address}: version " in said
        assert f"{TOOL}: ok" in said
        tools.prints(TOOL, "boom\n", status=7)
        daemon.until_state(TOOL, "failed")
        status, said, _ = run("doctor", "--node", daemon.address, "--format", "json")
    plain = json.loads(said)
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    assert (status, plain["node"], plain["user"]) == (2, daemon.address, None)
    assert [finding["where"] for finding in plain["findings"]] == [TOOL]
    status, said, error = run("doctor", "--node", daemon.address)
    assert (status, said, "no daemon answers there; start it" in error) == (69, "", True)
