"""Findings of cards, drivers and device nodes: tables of facts and findings."""

import errno
from typing import Any

import pytest

from telemetry_daemon.doctor.cards import VendorSources, notes, unread_card_findings
from telemetry_daemon.doctor.machine import DeviceNode, Machine
from telemetry_daemon.readers.pci import PciDevice

NOTHING_READS = VendorSources("nvidia", missing=("nvml",))
FAILS = VendorSources("nvidia", failed=("nvml",))
WELL = VendorSources("nvidia", successful=("nvml",))
CONTROL = DeviceNode("/dev/nvidiactl", ("nvidia",))


def card(number: int = 0, driver: str = "nvidia", vendor: str = "nvidia") -> PciDevice:
    return PciDevice(f"0000:{number:02x}:00.0", vendor, 0x030200, driver)


def node(path: str = "/dev/nvidia0", refusal: int = 0, group: str = "video", mode: int = 0o660) -> DeviceNode:
    return DeviceNode(path, ("nvidia",), refusal, "root", group, mode)


def machine_with(*cards: PciDevice, nodes: tuple[DeviceNode, ...] = (), **more: Any) -> Machine:
    return Machine(cards=cards, nodes=nodes, **more)


def denied(error: int = errno.EACCES, path: str = "/dev/nvidia0", **more: Any) -> DeviceNode:
    return node(path, error, **more)


FOREIGN = ("PCI bus", "1 nvidia card bound to the driver nouveau", "/etc/modprobe.d")
NO_NODES = ("device nodes", "but /dev/nvidiactl and /dev/nvidia[0-9]* are missing", "as root to create the nodes")
IN_DOCKER = "runtime (nvidia), or pass the device nodes /dev/nvidiactl and /dev/nvidia[0-9]* with --device"
# The machine, the state of its sources, and the findings: where, what, and the remedy.
CASES: dict[str, tuple[Machine, VendorSources, list[tuple[str, str, str]]]] = {
    "nothing there": (machine_with(), VendorSources("nvidia"), []),
    "all well": (machine_with(card(), nodes=(CONTROL,)), WELL, []),
    "no driver at all says nothing of its tools and nodes": (
        machine_with(*(card(number, driver="") for number in range(6))),
        NOTHING_READS,
        [("PCI bus", "6 nvidia cards without a kernel driver: 0000:00:00.0 ", "load the vendor's driver")],
    ),
    "a card of a virtual machine is none of ours": (machine_with(card(driver="vfio-pci")), NOTHING_READS, []),
    "a driver that shows a picture only": (
        machine_with(card(driver="nouveau"), nodes=(CONTROL,)),
        NOTHING_READS,
        [FOREIGN],
    ),
    "beside one of the right driver": (machine_with(card(driver="nouveau"), card(1)), FAILS, [FOREIGN, NO_NODES]),
    "no source reads them": (
        machine_with(card(driver="nouveau"), card(1, driver=""), card(2), nodes=(CONTROL,)),
        VendorSources("nvidia", missing=("nvml",), is_switched_off=True),
        [],
    ),
    "the tool is missing": (
        machine_with(card(), nodes=(CONTROL,)),
        NOTHING_READS,
        [("nvidia", "nvml not found", "install the vendor's tools")],
    ),
    "device nodes without a bus": (
        machine_with(nodes=(CONTROL,)),
        NOTHING_READS,
        [("nvidia", "nvidia device nodes without readings", "install the vendor's tools")],
    ),
    "no device nodes": (machine_with(card()), FAILS, [NO_NODES]),
    "no device nodes in a container": (machine_with(card(), container="Docker"), FAILS, [(*NO_NODES[:2], IN_DOCKER)]),
    "the tool is missing in a container": (
        machine_with(card(), nodes=(CONTROL,), container="Docker"),
        NOTHING_READS,
        [("nvidia", "nvml not found", "runtime (nvidia), or mount the vendor's tools")],
    ),
    "not in the group": (
        machine_with(card(), nodes=(denied(),), user="mia"),
        FAILS,
        [("device nodes", "mia cannot open /dev/nvidia0 (nvidia): owner, group or mode", "run `usermod -aG video mia")],
    ),
    "a mode that lets root alone in": (
        machine_with(card(), nodes=(denied(mode=0o600),)),
        FAILS,
        [("device nodes", "cannot open", 'MODE="0660"')],
    ),
    "not in the unit's list": (
        machine_with(card(), nodes=(denied(errno.EPERM), denied(errno.EPERM, "/dev/nvidia1"))),
        FAILS,
        [
            (
                "device nodes",
                "/dev/nvidia0 /dev/nvidia1 (nvidia): the device cgroup forbids access",
                "DeviceAllow=/dev/nvidia0 rw",
            )
        ],
    ),
    "no device behind the node": (
        machine_with(card(), nodes=(denied(errno.ENXIO),)),
        FAILS,
        [("device nodes", "ENXIO", "dmesg")],
    ),
    "denied, and not needed to read it": (machine_with(card(), nodes=(denied(),)), WELL, []),
}


@pytest.mark.parametrize(("machine", "fared", "expected"), CASES.values(), ids=CASES)
def test_findings_of_drivers_and_device_nodes(
    machine: Machine, fared: VendorSources, expected: list[tuple[str, str, str]]
) -> None:
    found = list(unread_card_findings(machine, [fared]))
    assert [finding.where for finding in found] == [where for where, _, _ in expected]
    for finding, (_, what, remedy) in zip(found, expected, strict=True):
        assert what in finding.what
        assert remedy in finding.remedy


@pytest.mark.parametrize(("error", "remedy"), [(errno.EACCES, "--group-add video"), (errno.EPERM, "--device /dev/nv")])
def test_remedy_in_a_container(error: int, remedy: str) -> None:
    (finding,) = unread_card_findings(machine_with(card(), nodes=(denied(error),), container="Podman"), [FAILS])
    assert remedy in finding.remedy


def test_each_group_has_its_remedy() -> None:
    nodes = (node(refusal=errno.EACCES), node("/dev/nvidia1", errno.EACCES, group="render"))
    found = list(unread_card_findings(Machine(user="mia", cards=(card(),), nodes=nodes), [FAILS]))
    assert [finding.remedy.split("` and log in")[0] for finding in found] == [
        "run `usermod -aG render mia",
        "run `usermod -aG video mia",
    ]


def test_notes_name_virtual_machines_and_containers() -> None:
    lines = list(notes(Machine(container="Docker", cards=(card(driver="vfio-pci"), card(1))), ()))
    assert lines[0] == "assigned to virtual machines: 1 card (0000:00:00.0), bound to vfio-pci"
    assert "Docker" in lines[1]
    assert list(notes(Machine(cards=(card(),)), ())) == []
