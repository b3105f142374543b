"""The doctor's output: no finding on a healthy node; otherwise the finding, its remedy, and exit status 2."""

import contextlib
import errno
import fcntl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from doctor.played import SCHEMA, Played, checked, healthy, unit_of
from kits.fake_mthreads_gmi import install


def test_healthy_node_has_no_findings(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    done = node.doctor()
    assert (done.status, done.stderr) == (0, "")
    assert "accelerators on the PCI bus: 2 × amd" in done.stdout
    assert "amdgpu-sysfs: ok" in done.stdout
    assert done.stdout.endswith("\nno findings\n")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    status, plain = node.document()
    assert (status, plain["findings"], plain["pci"]) == (0, [], {"amd": 2})
    assert [card["driver"] for card in plain["cards"]] == ["amdgpu", "amdgpu"]
    assert [node["path"] for node in plain["device_nodes"]] == ["/dev/kfd"]
    (source,) = [source for source in plain["sources"] if source["source"] == "amdgpu-sysfs"]
    assert (source["state"], source["remedy"]) == ("ok", None)


Spoil = Callable[[Played], object]
MEMBERS = {
    "configuration": "configuration.toml",
    "file": "configuration-file.toml",
    "machine": "machine.txt",
    "recording": "recording.jsonl.gz",
    "text": "doctor.txt",
    "unit": "unit.txt",
    "versions": "versions.txt",
}


@dataclass(frozen=True)
class Fault:
    """A fault that `spoil` causes: words of its finding and of its remedy, and words in members of the bundle."""

    what: str
    remedy: str
    spoil: Spoil
    evidence: Mapping[str, str]


def fault(what: str, remedy: str, spoil: Spoil, **evidence: str) -> Fault:
    return Fault(what, remedy, spoil, evidence)


def container_without_devices(node: Played) -> None:
    node.stranger(9, "0x10de", "nvidia")
    (node.root / ".dockerenv").touch()


def without_rights(node: Played) -> None:
    without_its_tool(node)
    (node.root / "dev/mtgpu.0").chmod(0o600)
    node.tools.prints("mthreads-gmi", "Error: failed to open /dev/mtgpu.0: Permission denied\n", status=1)
    node.refusal = errno.EACCES


def without_its_tool(node: Played) -> None:
    node.stranger(9, "0x1ed5", "mtgpu")
    node.node("dev/mtgpu.0")


def with_a_plugin_that_fails(node: Played) -> None:
    (node.folder / "parsers").mkdir()
    (node.folder / "parsers/broken.py").write_text("raise ValueError('no')\n")
    node.config += f'[parsers]\npaths = ["{node.folder}/parsers"]\n'


def with_a_proc_that_hides_processes(node: Played) -> None:
    node.tools.script("systemctl", unit_of(User="nobody", ActiveState="inactive", UnitFileState="disabled"))
    (node.root / "proc/self").mkdir(parents=True)
    (node.root / "proc/self/mounts").write_text("proc /proc proc rw,nosuid,hidepid=invisible 0 0\n")
    node.config += "[attribution]\nenabled = true\n"


def with_a_state_folder_for_all(node: Played) -> None:
    (node.folder / "state").mkdir()
    (node.folder / "state").chmod(0o777)


def with_too_little_memory(node: Played) -> None:
    (node.root / "proc/self").mkdir(parents=True)
    (node.root / "proc/self/cgroup").write_text("0::/\n")
    (node.root / "sys/fs/cgroup").mkdir(parents=True)
    (node.root / "sys/fs/cgroup/memory.max").write_text("33554432\n")


def with_a_tool_that_hangs(node: Played) -> None:
    node.tools.hangs("cnmon")
    node.config += "[sources.cnmon]\ndeadline = 0.5\n"


def with_a_tool_that_another_process_holds(node: Played) -> None:
    """The process has inherited the lock, like a process that hangs in the driver."""
    node.tools.prints("cnmon", "")
    node.config += "[sources.cnmon]\ndeadline = 0.5\n"
    locks = node.folder / "run" / "locks"
    locks.mkdir(parents=True, mode=0o700)
    node.held = (locks / "cnmon.lock").open("w")
    fcntl.flock(node.held, fcntl.LOCK_EX)


def says(tool: str, text: str, status: int) -> Spoil:
    return lambda node: node.tools.prints(tool, text, status=status)


def has(**fields: str) -> Spoil:
    return lambda node: [setattr(node, name, value) for name, value in fields.items()]


def unit(**properties: str) -> Spoil:
    return lambda node: node.tools.script("systemctl", unit_of(**properties))


NO_DRIVER = "Error: failed to initialize mtml: driver not loaded\n"
NO_LIBRARY = "error while loading shared libraries: libixml.so: cannot open\n"
FAILED_UNIT = {"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "78"}
# The faults of a group are on one node.
FAULTS = {
    "tools that fail": (
        fault("failed (exit_status)", "by hand", says("cnmon", "boom\n", 9), recording="boom", versions="cnmon"),
        fault(
            "failed (driver_gone)", 'mode = "never"', says("mthreads-gmi", NO_DRIVER, 1), recording="driver not loaded"
        ),
        fault("failed (library_mismatch)", "reboot after", says("ixsmi", NO_LIBRARY, 127), recording="libixml.so"),
        fault("failed (exit-code, status 78)", "journalctl -u", unit(**FAILED_UNIT), unit="ActiveState=failed"),
        fault("can be written by others", "chmod go-w", with_a_state_folder_for_all, machine="folder state.directory"),
    ),
    "rights": (
        fault("failed (not_understood)", "--bundle FILE", says("cnmon", "to come\n", 0), recording="to come"),
        fault(
            "cannot open /dev/mtgpu.0 (moorethreads): owner, group or mode",
            "run as root, or set",
            without_rights,
            machine="refused: Permission denied",
            recording="mtgpu.0",
            text="no_permission",
        ),
        fault("1 MiB of memory", "MemoryMax in a drop-in", unit(ActiveState="activating", MemoryMax="1048576")),
        fault("dangling link", "create its target", lambda n: (n.folder / "state").symlink_to(n.folder / "nothing")),
    ),
    "a container": (
        fault(
            "failed (too_much_output)", "read its output", lambda n: n.tools.script("cnmon", "yes | head -c 9000000")
        ),
        fault(
            "but /dev/nvidiactl",
            "pass the device nodes /dev/nvidiactl",
            container_without_devices,
            machine="container: Docker",
        ),
        fault("limit is 32 MiB of memory; the daemon needs 128 MiB", "container's options", with_too_little_memory),
    ),
    "missing tools": (
        fault("failed (killed)", "out of memory", lambda n: n.tools.script("cnmon", "kill -KILL $$")),
        fault(
            "mthreads-gmi, mtml not found", "vendor's tools", without_its_tool, machine="node crw-r--r-- ", text="PATH"
        ),
        fault("not loaded", "docs/writing-a-parser.md", with_a_plugin_that_fails, configuration="[parsers]"),
    ),
    "a tool that hangs": (
        fault(
            "cnmon: failed (timeout)", "run the tool", with_a_tool_that_hangs, recording='"timeout"', versions="cnmon"
        ),
        fault(
            "the PCI bus is not listed",
            "lspci",
            lambda n: n.stranger(9, "0x1002", "amdgpu"),
            machine="0000:09:00.0 amd",
        ),
        fault("the mount option hidepid", "gid=", with_a_proc_that_hides_processes),
    ),
    "a tool in use": (
        fault("cnmon: stuck", "see the line above", with_a_tool_that_another_process_holds, text="another process"),
        # The parent folder belongs to the user.
        fault("cannot be created in /proc/self", "set state.directory", has(state="/proc/self/nope/state")),
    ),
    "no worker": (
        fault("the worker could not be started: ", "needs permission to run Python", has(python="/dev/null")),
    ),
    "a mistyped setting": (
        fault("log.levle", "`telemetry config check`", has(config='[log]\nlevle = "debug"\n'), file="levle"),
    ),
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_faults_are_found_with_remedy_and_evidence(tmp_path: Path, faults: tuple[Fault, ...]) -> None:
    with contextlib.closing(healthy(tmp_path)) as node:
        for fault in faults:
            fault.spoil(node)
        done, inside = node.bundle()
    assert (done.status, done.stderr) == (2, "")
    text = " ".join(inside["doctor.txt"].decode().split())
    shown = text[text.rindex("finding") :]
    findings = checked(inside["doctor.json"])["findings"]
    for fault in faults:
        assert (fault.what in shown, fault.remedy in shown) == (True, True), shown
        assert any(
            fault.what in f"{finding['where']}: {finding['what']}" and fault.remedy in finding["remedy"]
            for finding in findings
        )
        for member, words in fault.evidence.items():
            assert words in inside[MEMBERS[member]].decode()


def test_fault_is_in_the_document_of_its_source_only(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    node.stranger(9, "0x10de")
    status, plain = node.document()
    (finding,) = plain["findings"]
    assert (status, finding["where"]) == (2, "PCI bus")
    assert finding["what"] == "1 nvidia card without a kernel driver: 0000:09:00.0"
    assert node.doctor("--source", "amdgpu-sysfs").status == 0


def in_a_container_with_one_of_two_cards(node: Played) -> None:
    (node.root / ".dockerenv").touch()
    node.stranger(0x1A, "0x1ed5", "mtgpu")
    node.node("dev/mtgpu.0")
    install(node.tools)
    node.stranger(0x1B, "0x1ed5", "mtgpu")


def in_a_container_with_as_many_as_expected(node: Played) -> None:
    in_a_container_with_one_of_two_cards(node)
    (node.root / "dev/mtgpu.0").unlink()
    node.config = "[expect]\ndevices = {moorethreads = 1}\n"


def with_a_card_that_nobody_wants_to_read(node: Played) -> None:
    node.stranger(9, "0x1ed5")
    node.config = '[sources.mthreads-gmi]\nmode = "never"\n[sources.mtml]\nmode = "never"\n'


FINE: list[tuple[Spoil, str]] = [
    (in_a_container_with_one_of_two_cards, "lists the 1 moorethreads card of the container"),
    (in_a_container_with_as_many_as_expected, "lists the 1 moorethreads card of the container"),
    (with_a_card_that_nobody_wants_to_read, "mthreads-gmi: disabled"),
    (lambda node: node.stranger(9, "0x1ed5", "vfio-pci"), "assigned to virtual machines: 1 card (0000:09:00.0)"),
]


@pytest.mark.parametrize(("change", "note"), FINE)
def test_unusual_healthy_nodes_have_no_findings(tmp_path: Path, change: Spoil, note: str) -> None:
    node = healthy(tmp_path)
    change(node)
    done = node.doctor()
    assert done.stdout.endswith("\nno findings\n"), done.stdout
    assert (done.status, done.stderr, note in done.words) == (0, "", True)


def test_container_without_one_of_its_cards(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    in_a_container_with_one_of_two_cards(node)
    node.node("dev/mtgpu.1")
    assert [finding["where"] for finding in node.document()[1]["findings"]] == ["mthreads-gmi"]
