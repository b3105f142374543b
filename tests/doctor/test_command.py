"""What an operator reads: nothing on a healthy node; on others the finding, its remedy, and exit status 2."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from doctor.played import SCHEMA, Played, checked, healthy, unit_of
from kits.command_line import run_main


def test_a_healthy_node_has_no_findings(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    said = node.doctor()
    assert (said.status, said.errors) == (0, "")
    assert "accelerators on the PCI bus: 2 × amd" in said.output
    assert "amdgpu-sysfs: ok" in said.output
    assert said.output.endswith("\nno findings\n")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    status, plain = node.document()
    assert (status, plain["findings"], plain["pci"]) == (0, [], {"amd": 2})
    assert [card["driver"] for card in plain["cards"]] == ["amdgpu", "amdgpu"]
    assert [node["path"] for node in plain["device_nodes"]] == ["/dev/kfd"]
    (source,) = [one for one in plain["sources"] if one["source"] == "amdgpu-sysfs"]
    assert (source["state"], source["remedy"]) == ("ok", None)


Spoil = Callable[[Played], None]
MEMBERS = {
    "configuration": "configuration.toml",
    "file": "configuration-file.toml",
    "machine": "machine.txt",
    "recording": "recording.jsonl.gz",
    "text": "doctor.txt",
    "unit": "unit.txt",
    "versions": "versions.txt",
}
FAULTS: list[Any] = []


def fault(what: str, remedy: str, **evidence: str) -> Callable[[Spoil], Spoil]:
    """A fault that a function plays: what the finding says, its remedy, and what else support finds in a member of the bundle."""

    def kept(spoil: Spoil) -> Spoil:
        FAULTS.append(pytest.param(spoil, what, remedy, evidence, id=spoil.__name__))
        return spoil

    return kept


@fault("there is no /dev/nvidiactl", "give it each of /dev/nvidiactl", machine="container: Docker")
def container_without_devices(node: Played) -> None:
    node.stranger(9, "0x10de", "nvidia")
    (node.root / ".dockerenv").touch()


@fault(
    "may not open /dev/mtgpu.0 (moorethreads): owner, group or mode",
    "run as root, or give",
    machine="refused: Permission denied",
    recording="mtgpu.0",
    text="no_permission",
)
def without_rights(node: Played) -> None:
    node.stranger(9, "0x1ed5", "mtgpu")
    node.node("dev/mtgpu.0")
    (node.root / "dev/mtgpu.0").chmod(0o600)
    node.tools.prints("mthreads-gmi", "Error: failed to open /dev/mtgpu.0: Permission denied\n", status=1)
    node.refusal = errno.EACCES


@fault("the list of devices that are allowed here", "DeviceAllow=/dev/mtgpu.0 rw", machine="refused")
def without_a_right_of_the_unit(node: Played) -> None:
    without_rights(node)
    node.refusal = errno.EPERM


@fault(
    "1 nvidia card has no kernel driver: 0000:09:00.0",
    "load the vendor's driver",
    machine="card 0000:09:00.0 nvidia class 030200 driver none",
)
def without_a_driver(node: Played) -> None:
    node.stranger(9, "0x10de")


@fault(
    "none is read: mthreads-gmi, mtml not found", "install the vendor's tools", machine="node crw-r--r-- ", text="PATH"
)
def without_its_tool(node: Played) -> None:
    node.stranger(9, "0x1ed5", "mtgpu")
    node.node("dev/mtgpu.0")


@fault("devices on the PCI bus is not listed", "lspci", machine="0000:09:00.0 amd")
def with_a_card_that_is_not_listed(node: Played) -> None:
    """On the bus and bound, and its files do not answer."""
    node.stranger(9, "0x1002", "amdgpu")


@fault("cnmon: failed (exit_status)", "run the tool by hand", recording="boom", versions="cnmon")
def with_a_tool_that_fails(node: Played) -> None:
    node.tools.prints("cnmon", "boom\n", status=9)


@fault("mthreads-gmi: failed (driver_gone)", 'sources.mthreads-gmi.mode = "never"', recording="driver not loaded")
def with_a_tool_without_its_driver(node: Played) -> None:
    """Perhaps without its cards, too."""
    node.tools.prints("mthreads-gmi", "Error: failed to initialize mtml: driver not loaded\n", status=1)


@fault("the worker could not be started: ", "must be allowed to run Python")
def with_a_worker_that_cannot_start(node: Played) -> None:
    """As one whose Python the user may not run."""
    node.python = "/dev/null"


@fault("not loaded", "docs/writing-a-parser.md", configuration="[parsers]")
def with_a_plugin_that_fails(node: Played) -> None:
    (node.folder / "parsers").mkdir()
    (node.folder / "parsers/broken.py").write_text("raise ValueError('no')\n")
    node.config = f'[parsers]\npaths = ["{node.folder}/parsers"]\n'


@fault("telemetry.service is failed (exit-code, status 78)", "journalctl -u telemetry", unit="ActiveState=failed")
def with_a_unit_that_failed(node: Played) -> None:
    node.tools.script("systemctl", unit_of(ActiveState="failed", Result="exit-code", ExecMainStatus="78"))


@fault("started again (exit-code, status 69, 43 times)", "web.listen_address")
def with_a_unit_in_a_loop(node: Played) -> None:
    loop = {"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code"}
    node.tools.script("systemctl", unit_of(**loop, ExecMainStatus="69", NRestarts="43"))


@fault("it cannot be made in /proc/self", "set state.directory")
def with_a_state_folder_that_cannot_be_made(node: Played) -> None:
    node.state = "/proc/self/nope/state"  # the folder above is the user's own


@fault("is a link to nothing", "make what it names")
def with_a_link_to_nothing_for_its_state(node: Played) -> None:
    (node.folder / "state").symlink_to(node.folder / "nothing")


@fault("it is mounted with hidepid", "gid= names")
def with_a_proc_that_hides_processes(node: Played) -> None:
    node.tools.script("systemctl", unit_of(User="nobody", ActiveState="inactive", UnitFileState="disabled"))
    (node.root / "proc/self").mkdir(parents=True)
    (node.root / "proc/self/mounts").write_text("proc /proc proc rw,nosuid,hidepid=invisible 0 0\n")
    node.config = "[attribution]\nenabled = true\n"


@fault("1 MiB of memory are allowed", "MemoryMax= in a drop-in")
def with_a_unit_that_is_too_small(node: Played) -> None:
    node.tools.script("systemctl", unit_of(ActiveState="activating", MemoryMax="1048576"))


@fault("can be written by others", "chmod go-w", machine="folder state.directory")
def with_a_state_folder_for_all(node: Played) -> None:
    (node.folder / "state").mkdir()
    (node.folder / "state").chmod(0o777)


@fault("32 MiB of memory are allowed; the daemon needs 128 MiB", "container's options")
def with_too_little_memory(node: Played) -> None:
    container_without_devices(node)
    (node.root / "proc/self").mkdir(parents=True)
    (node.root / "proc/self/cgroup").write_text("0::/\n")
    (node.root / "sys/fs/cgroup").mkdir(parents=True)
    (node.root / "sys/fs/cgroup/memory.max").write_text("33554432\n")


@fault("cnmon: failed (timeout)", "run the tool by hand", recording='"timeout"', versions="cnmon")
def with_a_tool_that_hangs(node: Played) -> None:
    node.tools.hangs("cnmon")
    node.config = "[sources.cnmon]\ndeadline = 0.5\n"


@fault("cnmon: failed (too_much_output)", "see what it says", recording="MiB")
def with_a_tool_that_prints_too_much(node: Played) -> None:
    node.tools.script("cnmon", "yes | head -c 9000000")


@fault("cnmon: failed (killed)", "out of memory")
def with_a_tool_that_is_killed(node: Played) -> None:
    node.tools.script("cnmon", "kill -KILL $$")


@fault("cnmon: failed (not_understood)", "--bundle FILE", recording="a version to come")
def with_words_that_nobody_knows(node: Played) -> None:
    node.tools.prints("cnmon", "a page of a version to come\n")


@fault("ixsmi: failed (library_mismatch)", "reboot after the driver upgrade", recording="libixml.so")
def with_a_library_of_another_version(node: Played) -> None:
    node.tools.prints("ixsmi", "error while loading shared libraries: libixml.so: cannot open\n", status=127)


@fault("cnmon: stuck", "see the line above", text="another process")
def with_a_tool_that_another_process_holds(node: Played) -> None:
    """As one that hangs in the driver does: it has inherited the lock."""
    node.tools.prints("cnmon", "")
    node.config = "[sources.cnmon]\ndeadline = 0.5\n"
    locks = node.folder / "run" / "locks"
    locks.mkdir(parents=True, mode=0o700)
    node.held = (locks / "cnmon.lock").open("w")
    fcntl.flock(node.held, fcntl.LOCK_EX)


@fault("log.levle", "`telemetry config check`", file="levle")
def with_a_mistake_in_the_configuration(node: Played) -> None:
    node.config = '[log]\nlevle = "debug"\n'


@pytest.mark.parametrize(("spoil", "what", "remedy", "evidence"), FAULTS)
def test_a_fault_is_found_with_its_remedy_and_evidence(
    tmp_path: Path, spoil: Spoil, what: str, remedy: str, evidence: dict[str, str]
) -> None:
    with contextlib.closing(healthy(tmp_path)) as node:
        spoil(node)
        said, inside = node.bundle() if evidence else (node.doctor(), {})
    assert (said.status, said.errors) == (2, "")
    text = " ".join(inside["doctor.txt"].decode().split()) if inside else said.words
    findings = text[text.rindex("finding") :]
    assert (what in findings, remedy in findings) == (True, True), findings
    for name, words in evidence.items():
        assert words in inside[MEMBERS[name]].decode()
    if inside:
        plain = checked(inside["doctor.json"])
        assert any(what in f"{one['where']}: {one['what']}" and remedy in one["remedy"] for one in plain["findings"])


def test_a_fault_is_found_without_a_bundle(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    without_a_driver(node)
    said = node.doctor()
    assert (said.status, said.errors) == (2, "")
    assert "1 nvidia card has no kernel driver: 0000:09:00.0" in said.words.partition("finding")[2]
    status, plain = node.document()
    assert (status, [one["where"] for one in plain["findings"]]) == (2, ["PCI bus"])
    assert node.doctor("--source", "amdgpu-sysfs").status == 0


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
    status, said, error = run_main("doctor", *arguments)
    assert (status, said, why in error) == (64, "", True)


def test_on_a_terminal_it_names_who_lets_it_wait(tmp_path: Path) -> None:
    """And clears that line before it shows anything."""
    node = healthy(tmp_path)
    node.tools.hangs("cnmon")
    node.config = "[sources.cnmon]\ndeadline = 2.0\n"
    told = node.told_meanwhile()
    assert re.fullmatch(r"(\r\x1b\[Kwaiting for [a-z, -]*cnmon[a-z, -]*)+\r\x1b\[K", told)


def test_a_number_stands_beside_its_word(tmp_path: Path) -> None:
    """Where a line is broken, too."""
    node = healthy(tmp_path)
    vendors = ("0x10de", "0x1ed5", "0x9999", "0x19e5", "0x1e36", "0x1e3e", "0xcabc", "0x1d22", "0x1d94")
    for place, vendor in enumerate(vendors):
        node.stranger(0x20 + place, vendor, f"a-driver-{place}")
    for line in node.doctor().output.splitlines():
        assert not line.rstrip().endswith("×")
        assert not line.lstrip().startswith("×")
        assert not re.search(r"(, |: )[0-9]+$", line) or "×" not in line
