"""What an operator reads: nothing on a healthy node; on others the finding, its remedy, and exit status 2."""

from __future__ import annotations

import errno
import json
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from doctor.played import SCHEMA, Played, unit_of
from kits.daemon import Daemon, run
from kits.tool_node import TOOL, tool_node


def healthy(folder: Path) -> Played:
    node = Played(folder)
    node.card(3)
    node.card(4)
    node.node("dev/dri/renderD128")
    node.node("dev/kfd")
    return node


def test_a_healthy_node_has_no_findings(tmp_path: Path) -> None:
    said = healthy(tmp_path).doctor()
    assert (said.status, said.errors) == (0, "")
    assert "accelerators on the PCI bus: 2 × amd" in said.output
    assert "amdgpu-sysfs: ok" in said.output
    assert said.output.endswith("\nno findings\n")


def test_its_document_has_all_facts(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    status, plain = healthy(tmp_path).document()
    assert (status, plain["findings"], plain["pci"]) == (0, [], {"amd": 2})
    assert [card["driver"] for card in plain["cards"]] == ["amdgpu", "amdgpu"]
    assert [node["path"] for node in plain["device_nodes"]] == ["/dev/kfd"]
    (source,) = [one for one in plain["sources"] if one["source"] == "amdgpu-sysfs"]
    assert (source["state"], source["remedy"]) == ("ok", None)


def container_without_devices(node: Played) -> None:
    node.stranger(9, "0x10de", "nvidia")
    (node.root / ".dockerenv").touch()


def without_rights(node: Played) -> None:
    node.stranger(9, "0x1ed5", "mtgpu")
    node.node("dev/mtgpu.0")
    node.tools.prints("mthreads-gmi", "Error: failed to open /dev/mtgpu.0: Permission denied\n", status=1)
    node.refusal = errno.EACCES


def without_a_right_of_the_unit(node: Played) -> None:
    without_rights(node)
    node.refusal = errno.EPERM


def without_a_driver(node: Played) -> None:
    node.stranger(9, "0x10de")


def without_its_tool(node: Played) -> None:
    node.stranger(9, "0x1ed5", "mtgpu")
    node.node("dev/mtgpu.0")


def with_a_card_that_is_not_listed(node: Played) -> None:
    """On the bus and bound, and its files do not answer."""
    node.stranger(9, "0x1002", "amdgpu")


def with_a_tool_that_fails(node: Played) -> None:
    node.tools.prints("cnmon", "boom\n", status=9)


def with_a_plugin_that_fails(node: Played) -> None:
    (node.folder / "parsers").mkdir()
    (node.folder / "parsers/broken.py").write_text("raise ValueError('no')\n")
    node.config = f'[parsers]\npaths = ["{node.folder}/parsers"]\n'


def with_a_unit_that_failed(node: Played) -> None:
    node.tools.script("systemctl", unit_of(ActiveState="failed", Result="exit-code", ExecMainStatus="78"))


def with_a_unit_that_is_too_small(node: Played) -> None:
    node.tools.script("systemctl", unit_of(ActiveState="activating", MemoryMax="1048576"))


def with_a_state_folder_for_all(node: Played) -> None:
    (node.folder / "state").mkdir()
    (node.folder / "state").chmod(0o777)


def with_too_little_memory(node: Played) -> None:
    container_without_devices(node)
    (node.root / "proc/self").mkdir(parents=True)
    (node.root / "proc/self/cgroup").write_text("0::/\n")
    (node.root / "sys/fs/cgroup").mkdir(parents=True)
    (node.root / "sys/fs/cgroup/memory.max").write_text("33554432\n")


SICK: list[tuple[Callable[[Played], None], str, str]] = [
    (container_without_devices, "there is no /dev/nvidiactl", "give it each of /dev/nvidiactl"),
    (without_rights, "may not open /dev/mtgpu.0 (moorethreads): owner, group or mode", "run as root, or give"),
    (without_a_right_of_the_unit, "the list of devices that are allowed here", "DeviceAllow=/dev/mtgpu.0 rw"),
    (without_a_driver, "1 nvidia card has no kernel driver: 0000:09:00.0", "load the vendor's driver"),
    (without_its_tool, "none is read: mthreads-gmi, mtml not found", "install the vendor's tools"),
    (with_a_card_that_is_not_listed, "devices on the PCI bus is not listed", "lspci"),
    (with_a_tool_that_fails, "cnmon: failed", "run the tool by hand"),
    (with_a_plugin_that_fails, "parsers/broken.py: not loaded", "docs/writing-a-parser.md"),
    (with_a_unit_that_failed, "telemetry.service is failed (exit-code, status 78)", "journalctl -u telemetry"),
    (with_a_unit_that_is_too_small, "1 MiB of memory are allowed", "MemoryMax= in a drop-in"),
    (with_a_state_folder_for_all, "can be written by others", "chmod go-w"),
    (with_too_little_memory, "32 MiB of memory are allowed; the daemon needs 128 MiB", "container's options"),
]


def in_a_container_with_one_of_two_cards(node: Played) -> None:
    (node.root / ".dockerenv").touch()
    node.one_of_moorethreads()
    node.stranger(0x1B, "0x1ed5", "mtgpu")


def in_a_container_with_as_many_as_expected(node: Played) -> None:
    in_a_container_with_one_of_two_cards(node)
    (node.root / "dev/mtgpu.0").unlink()
    node.config = "[expect]\ndevices = {moorethreads = 1}\n"


def with_a_card_that_nobody_wants_to_read(node: Played) -> None:
    node.stranger(9, "0x1ed5")
    node.config = '[sources.mthreads-gmi]\nmode = "never"\n[sources.mtml]\nmode = "never"\n'


def with_a_card_of_a_virtual_machine(node: Played) -> None:
    node.stranger(9, "0x1ed5", "vfio-pci")


FINE = [
    (in_a_container_with_one_of_two_cards, "lists the 1 moorethreads card that the container was given"),
    (in_a_container_with_as_many_as_expected, "lists the 1 moorethreads card that the container was given"),
    (with_a_card_that_nobody_wants_to_read, "mthreads-gmi: disabled"),
    (with_a_card_of_a_virtual_machine, "1 card (0000:09:00.0) belongs to a virtual machine"),
]


@pytest.mark.parametrize(("change", "note"), FINE, ids=[change.__name__ for change, _ in FINE])
def test_what_is_unusual_and_well_is_no_finding(tmp_path: Path, change: Callable[[Played], None], note: str) -> None:
    node = healthy(tmp_path)
    change(node)
    said = node.doctor()
    assert said.output.endswith("\nno findings\n"), said.output
    assert (said.status, said.errors, note in said.words) == (0, "", True)


def test_a_container_that_lost_one_of_its_cards(tmp_path: Path) -> None:
    """Its node is still there."""
    node = healthy(tmp_path)
    in_a_container_with_one_of_two_cards(node)
    node.node("dev/mtgpu.1")
    assert [one["where"] for one in node.document()[1]["findings"]] == ["mthreads-gmi"]


@pytest.mark.parametrize(("spoil", "what", "remedy"), SICK, ids=[spoil.__name__ for spoil, _, _ in SICK])
def test_what_is_wrong_is_told_last_with_its_remedy(
    tmp_path: Path, spoil: Callable[[Played], None], what: str, remedy: str
) -> None:
    node = healthy(tmp_path)
    spoil(node)
    said = node.doctor()
    findings = said.words.partition("finding")[2]
    assert (said.status, said.errors) == (2, "")
    assert what in findings
    assert remedy in findings
    status, plain = node.document()
    assert status == 2
    assert any(what in f"{one['where']}: {one['what']}" and remedy in one["remedy"] for one in plain["findings"])


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
        answering = threading.Thread(target=_answer_once, args=(listener, answer))
        answering.start()
        status, plain = node.document()
        answering.join()
    assert [what in one["what"] for one in plain["findings"]] == [True] * bool(what)
    assert status == (2 if what else 0)


def _answer_once(listener: socket.socket, answer: bytes) -> None:
    asked, _ = listener.accept()
    with asked:
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


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--node", "n", "--source", "nvml"), "--source looks at this source alone"),
        (("--bundle", "f", "--source", "nvml"), "--source looks at this source alone"),
        (("--bundle", "f", "--format", "json"), "--bundle writes both formats"),
        (("--bundle", "f", "--node", "n"), "not allowed with"),
    ],
)
def test_what_does_not_go_together(arguments: tuple[str, ...], why: str) -> None:
    status, said, error = run("doctor", *arguments)
    assert (status, said, why in error) == (64, "", True)


def test_one_source_says_nothing_of_the_others(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    without_a_driver(node)
    assert node.doctor("--source", "amdgpu-sysfs").status == 0
