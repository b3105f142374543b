"""What is found between cards, their drivers and their device nodes: tables of facts and what is said of them."""

import errno
from typing import Any

import pytest

from telemetry_daemon.doctor.cards import VendorSources, notes, unread_cards
from telemetry_daemon.doctor.machine import DeviceNode, Machine
from telemetry_daemon.readers.pci import PciDevice

NOTHING_READS = VendorSources("nvidia", missing=("nvml",))
FAILS = VendorSources("nvidia", failed=("nvml",))
WELL = VendorSources("nvidia", read_by=("nvml",))
CONTROL = DeviceNode("/dev/nvidiactl", ("nvidia",))


def card(number: int = 0, driver: str = "nvidia", vendor: str = "nvidia") -> PciDevice:
    return PciDevice(f"0000:{number:02x}:00.0", vendor, 0x030200, suspended=False, driver=driver)


def node(path: str = "/dev/nvidia0", refusal: int = 0, group: str = "video", mode: int = 0o660) -> DeviceNode:
    return DeviceNode(path, ("nvidia",), refusal, "root", group, mode)


def of(*cards: PciDevice, nodes: tuple[DeviceNode, ...] = (), **more: Any) -> Machine:
    return Machine(cards=cards, nodes=nodes, **more)


def denied(error: int = errno.EACCES, path: str = "/dev/nvidia0", **more: Any) -> DeviceNode:
    return node(path, error, **more)


FOREIGN = ("PCI bus", "nouveau is the driver of 1 nvidia card", "/etc/modprobe.d")
NO_NODES = ("device nodes", "but /dev/nvidiactl and /dev/nvidia[0-9]* are missing", "as root, which creates them")
IN_DOCKER = "runtime (nvidia), or add each of /dev/nvidiactl /dev/nvidia[0-9]* with --device"
# The machine, how its sources fared, and what is found: where, what, and the remedy.
CASES: dict[str, tuple[Machine, VendorSources, list[tuple[str, str, str]]]] = {
    "nothing there": (of(), VendorSources("nvidia"), []),
    "all well": (of(card(), nodes=(CONTROL,)), WELL, []),
    "no driver at all says nothing of its tools and nodes": (
        of(*(card(number, driver="") for number in range(6))),
        NOTHING_READS,
        [("PCI bus", "6 nvidia cards without a kernel driver: 0000:00:00.0 ", "load the vendor's driver")],
    ),
    "a card of a virtual machine is none of ours": (of(card(driver="vfio-pci")), NOTHING_READS, []),
    "a driver that shows a picture only": (
        of(card(driver="nouveau"), nodes=(CONTROL,)),
        NOTHING_READS,
        [FOREIGN],
    ),
    "beside one of the right driver": (of(card(driver="nouveau"), card(1)), FAILS, [FOREIGN, NO_NODES]),
    "no source reads them": (
        of(card(driver="nouveau"), card(1, driver=""), card(2), nodes=(CONTROL,)),
        VendorSources("nvidia", missing=("nvml",), is_switched_off=True),
        [],
    ),
    "the tool is missing": (
        of(card(), nodes=(CONTROL,)),
        NOTHING_READS,
        [("nvidia", "nvml not found", "install the vendor's tools")],
    ),
    "device nodes without a bus": (
        of(nodes=(CONTROL,)),
        NOTHING_READS,
        [("nvidia", "nvidia device nodes without readings", "install the vendor's tools")],
    ),
    "no device nodes": (of(card()), FAILS, [NO_NODES]),
    "no device nodes in a container": (of(card(), container="Docker"), FAILS, [(*NO_NODES[:2], IN_DOCKER)]),
    "the tool is missing in a container": (
        of(card(), nodes=(CONTROL,), container="Docker"),
        NOTHING_READS,
        [("nvidia", "nvml not found", "runtime (nvidia), or mount the vendor's tools")],
    ),
    "not in the group": (
        of(card(), nodes=(denied(),), user="mia"),
        FAILS,
        [("device nodes", "mia cannot open /dev/nvidia0 (nvidia): owner, group or mode", "usermod -aG video mia")],
    ),
    "a mode that lets root alone in": (
        of(card(), nodes=(denied(mode=0o600),)),
        FAILS,
        [("device nodes", "cannot open", 'MODE="0660"')],
    ),
    "not in the unit's list": (
        of(card(), nodes=(denied(errno.EPERM), denied(errno.EPERM, "/dev/nvidia1"))),
        FAILS,
        [
            (
                "device nodes",
                "/dev/nvidia0 /dev/nvidia1 (nvidia): the list of allowed devices",
                "DeviceAllow=/dev/nvidia0 rw",
            )
        ],
    ),
    "no device behind the node": (
        of(card(), nodes=(denied(errno.ENXIO),)),
        FAILS,
        [("device nodes", "ENXIO", "dmesg")],
    ),
    "denied, and not needed to read it": (of(card(), nodes=(denied(),)), WELL, []),
}


@pytest.mark.parametrize(("machine", "fared", "expected"), CASES.values(), ids=CASES)
def test_what_is_found(machine: Machine, fared: VendorSources, expected: list[tuple[str, str, str]]) -> None:
    found = list(unread_cards(machine, [fared]))
    assert [finding.where for finding in found] == [where for where, _, _ in expected]
    for finding, (_, what, remedy) in zip(found, expected, strict=True):
        assert what in finding.what
        assert remedy in finding.remedy


@pytest.mark.parametrize(("error", "remedy"), [(errno.EACCES, "--group-add video"), (errno.EPERM, "--device /dev/nv")])
def test_a_container_is_given_what_it_lacks(error: int, remedy: str) -> None:
    (finding,) = unread_cards(of(card(), nodes=(denied(error),), container="Podman"), [FAILS])
    assert remedy in finding.remedy


def test_each_group_has_its_remedy() -> None:
    nodes = (node(refusal=errno.EACCES), node("/dev/nvidia1", errno.EACCES, group="render"))
    found = list(unread_cards(Machine(user="mia", cards=(card(),), nodes=nodes), [FAILS]))
    assert [finding.remedy.split(" and log in")[0] for finding in found] == [
        "usermod -aG render mia",
        "usermod -aG video mia",
    ]


def test_cards_of_virtual_machines_and_the_container_are_said() -> None:
    lines = list(notes(Machine(container="Docker", cards=(card(driver="vfio-pci"), card(1))), ()))
    assert lines[0] == "1 card assigned to virtual machines (0000:00:00.0): bound to vfio-pci"
    assert "Docker" in lines[1]
    assert list(notes(Machine(cards=(card(),)), ())) == []
