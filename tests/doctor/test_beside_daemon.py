"""The doctor beside the daemon of this node, and with the daemon of another node."""

import contextlib
import json
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from doctor.played import Played, checked, healthy, unit_of
from kits.command_line import run_main
from kits.daemon import Daemon, run
from kits.tool_node import TOOL, tool_text

SNAPSHOT = {
    "schema": "telemetry.snapshot/1",
    "hostname": "n",
    "time": "2026-11-01T10:00:00Z",
    "devices": [],
    "sources": [],
}


@contextlib.contextmanager
def answering(listener: socket.socket, *connections: Sequence[bytes]) -> Iterator[None]:
    """Send these answers on each of the connections, in order."""

    def answer() -> None:
        for answers in connections:
            asked, _ = listener.accept()
            with asked:
                for answer in answers:
                    asked.recv(1 << 16)
                    asked.sendall(answer)

    thread = threading.Thread(target=answer)
    thread.start()
    yield
    thread.join()


@pytest.fixture
def in_its_place(tmp_path: Path) -> Iterator[socket.socket]:
    """Yield a listener on the daemon's socket."""
    (tmp_path / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "run" / "local.sock"))
        listener.listen()
        yield listener


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    head = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (http(b"", "404 No"), "no telemetry daemon answers there"),
        (http(b"{"), "the document is invalid: "),
        (http(b"{}"), "missing or empty"),
    ],
)
def test_bundle_explains_missing_history(tmp_path: Path, in_its_place: socket.socket, history: bytes, why: str) -> None:
    page = http(b"", "200 OK", "Connection: close")
    with answering(in_its_place, (http(json.dumps(SNAPSHOT).encode()), page), (history,)):
        done, _ = healthy(tmp_path).bundle()
    assert f"history.json missing: {why}" in done.words


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (http(b"{}"), "the daemon's document is invalid"),
        (b"boom\r\n\r\n", "the answer is not valid HTTP"),
        (http(b"", "500 No"), "the response has status 500"),
        (http(b"", "401 No"), ""),
    ],
)
def test_invalid_answer_of_the_daemon_is_a_finding(
    tmp_path: Path, in_its_place: socket.socket, answer: bytes, what: str
) -> None:
    with answering(in_its_place, (answer,)):
        status, plain = healthy(tmp_path).document()
    assert [what in finding["what"] for finding in plain["findings"]] == [True] * bool(what)
    assert status == (2 if what else 0)


def test_other_program_at_the_address_is_ignored(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener, answering(listener, (b"SSH-2.0-x\r\n",)):
        node.environment["TELEMETRY_WEB_LISTEN_ADDRESS"] = f"127.0.0.1:{listener.getsockname()[1]}"
        status, plain = node.document()
    assert (status, plain["findings"]) == (0, [])


POLLED_SOON = f"interval = 1\n[sources.{TOOL}]\ninterval = 1\n"


@pytest.fixture(scope="module")
def with_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Played, Daemon]]:
    """Yield a node with two cards and a good tool, and its daemon, which expects more cards."""
    folder = tmp_path_factory.mktemp("with_daemon")
    node = healthy(folder)
    node.tools.prints(TOOL, tool_text())
    expected = "[expect]\ndevices = {amd = 8, nvidia = 1}\n"
    config = f'[sources.amdgpu-sysfs]\npath = "{node.root}"\n{POLLED_SOON}{expected}'
    with Daemon(folder, config, environment={"PATH": node.tools.search_path}) as daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until_state("amdgpu-sysfs", "ok")
        yield node, daemon


@pytest.fixture
def node(with_daemon: tuple[Played, Daemon]) -> Played:
    """Return the node with its usual configuration, unit and tools."""
    node, _ = with_daemon
    node.config = POLLED_SOON
    node.tools.script("systemctl", "exit 1")
    return node


@pytest.fixture
def daemon(with_daemon: tuple[Played, Daemon]) -> Daemon:
    return with_daemon[1]


def test_other_configuration_and_missing_cards_are_findings(node: Played, daemon: Daemon) -> None:
    node.config += "[expect]\ndevices = {amd = 1}\n"
    same = node.doctor()
    assert "daemon     version " in same.stdout
    assert (same.status, same.stdout.endswith("no findings\n")) == (0, True), same.stdout
    node.config += f'[sources.cnmon]\npath = "{node.tools.folder}/{TOOL}"\n'
    node.config = node.config.replace("amd = 1", "amd = 8, nvidia = 1")
    other = node.doctor()
    assert other.status == 2
    assert "8 amd devices are expected, 2 found" in other.words
    assert "1 nvidia device is expected, 0 found" in other.words
    assert "wrong daemon: the daemon and this command have different settings" in other.words
    assert "systemctl reload telemetry" in other.words


def test_other_node_is_asked(node: Played, daemon: Daemon) -> None:
    status, output, error = run("doctor", "--node", daemon.address)
    assert (status, error) == (2, "")
    assert f"at {daemon.address}: version " in output
    assert f"{TOOL}: ok" in output
    node.tools.prints(TOOL, "boom\n", status=7)
    daemon.until_state(TOOL, "failed")
    status, output, _ = run_main("doctor", "--node", daemon.address, "--format", "json")
    node.tools.prints(TOOL, tool_text())
    plain = checked(output)
    assert (status, plain["node"], plain["user"]) == (2, daemon.address, None)
    assert [finding["where"] for finding in plain["findings"]] == [TOOL, "expect.devices", "expect.devices"]
    assert [finding["what"] for finding in plain["findings"][1:]] == [
        "8 amd devices are expected, 2 found",
        "1 nvidia device is expected, 0 found",
    ]
    daemon.until_state(TOOL, "ok")


def test_bundle_contains_the_daemons_view(node: Played, daemon: Daemon) -> None:
    uuid = daemon.document()["devices"][0]["uuid"]
    page = daemon.page()
    done, inside = node.bundle()
    assert (done.status, "missing: no daemon" in done.stdout) == (0, False), done.stdout
    shown = json.loads(inside["snapshot.json"])
    amd_devices = [(device["model"], device["bus_id"]) for device in shown["devices"] if device["vendor"] == "amd"]
    assert amd_devices == [("AMD INSTINCT MI210", "0000:03:00.0"), ("AMD INSTINCT MI210", "0000:04:00.0")]
    assert json.loads(inside["history.json"])["schema"] == "telemetry.history/1"
    masked_page = inside["metrics.txt"].decode()
    assert masked_page.count("\n") > 100
    assert "accelerator_power_watts{" in masked_page
    assert "earlier captures" in done.stdout
    own_captures = sum(len(source["polls"]) for source in json.loads(inside["doctor.json"])["sources"])
    assert len(inside["recording.jsonl.gz"].splitlines()) > own_captures
    stand_in = shown["devices"][0]["uuid"]
    assert (uuid in page, stand_in in masked_page, stand_in != uuid) == (True, True, True)
    for content in inside.values():
        assert uuid.encode() not in content
        assert b"692251000123" not in content


def test_stopped_daemon_is_a_finding(node: Played, daemon: Daemon) -> None:
    node.tools.script("systemctl", unit_of())
    daemon.signal(signal.SIGSTOP)
    try:
        done, inside = node.bundle()
    finally:
        daemon.signal(signal.SIGCONT)
    # The daemon may have been stopped while its tool ran.
    findings = [item for item in checked(inside["doctor.json"])["findings"] if item["where"] != TOOL]
    assert (done.status, [finding["where"] for finding in findings]) == (2, ["daemon"]), findings
    (finding,) = findings
    assert finding["what"] == "the daemon runs, but does not answer: no answer in time"
    assert "kill -CONT" in finding["remedy"]
    assert "snapshot.json, history.json, metrics.txt  missing: no daemon: no answer in time" in done.stdout
    assert "the daemon's last minutes missing: no answer in time" in done.words


def test_lost_card_is_a_finding(node: Played, daemon: Daemon) -> None:
    links = [node.root / "sys/bus/pci" / folder / "0000:04:00.0" for folder in ("drivers/amdgpu", "devices")]
    targets = [link.readlink() for link in links]
    for link in links:
        link.unlink()
    daemon.until(lambda: list(node.folder.glob("state/flights/*lost*")))
    status, plain = node.document()
    for link, target in zip(links, targets, strict=True):
        link.symlink_to(target)
    assert (status, [finding["where"] for finding in plain["findings"]]) == (2, ["amd 1"]), plain["findings"]
    (lost,) = plain["findings"]
    assert lost["what"] == "lost (0000:04:00.0): the driver no longer lists the device"
    assert all(
        words in lost["remedy"] for words in ("power-cycle", "telemetry forget ", "telemetry top --replay", "-lost.")
    )
    daemon.until(lambda: all(device["up"] for device in daemon.document()["devices"]))
