"""What is found between cards, their drivers and their device nodes: tables of facts and what is said of them."""

from __future__ import annotations

import errno

import pytest

from telemetry_daemon.doctor.fared import Fared
from telemetry_daemon.doctor.kernel import findings, notes
from telemetry_daemon.doctor.machine import DeviceNode, Machine
from telemetry_daemon.readers.pci import PciDevice

NOTHING_READS = Fared("nvidia", missing=("nvml",))
FAILS = Fared("nvidia", bad=("nvml",))
WELL = Fared("nvidia", read_by=("nvml",))
CONTROL = DeviceNode("/dev/nvidiactl", ("nvidia",))


def card(number: int = 0, driver: str = "nvidia", vendor: str = "nvidia") -> PciDevice:
    return PciDevice(f"0000:{number:02x}:00.0", vendor, 0x030200, suspended=False, driver=driver)


def node(path: str = "/dev/nvidia0", refusal: int = 0, group: str = "video", mode: int = 0o660) -> DeviceNode:
    return DeviceNode(path, ("nvidia",), refusal, "root", group, mode)


CASES = [
    pytest.param(Machine(), Fared("nvidia"), [], id="nothing there"),
    pytest.param(Machine(cards=(card(),), nodes=(CONTROL,)), WELL, [], id="all well"),
    pytest.param(
        Machine(cards=(card(driver=""), card(1), card(2, driver="")), nodes=(CONTROL,)),
        WELL,
        [("PCI bus", "2 nvidia cards have no kernel driver: 0000:00:00.0 0000:02:00.0", "load the vendor's driver")],
        id="a driver is missing",
    ),
    pytest.param(
        Machine(cards=tuple(card(number, driver="") for number in range(6))),
        NOTHING_READS,
        [("PCI bus", "0000:03:00.0 and 2 more", "on the host")],
        id="no driver at all says nothing of its tools and nodes",
    ),
    pytest.param(
        Machine(cards=(card(driver="vfio-pci"),)), NOTHING_READS, [], id="a card of a virtual machine is none of ours"
    ),
    pytest.param(
        Machine(cards=(card(driver="nouveau"),)),
        NOTHING_READS,
        [("PCI bus", "nouveau is the driver of 1 nvidia card", "/etc/modprobe.d")],
        id="a driver that shows a picture only",
    ),
    pytest.param(
        Machine(cards=(card(driver="radeon", vendor="amd"),), nodes=(DeviceNode("/dev/dri/renderD128", ("amd",)),)),
        Fared("amd", missing=("amd-smi",)),
        [("PCI bus", "radeon is the driver of 1 amd card", "older one is for screens only")],
        id="another one, with its node",
    ),
    pytest.param(
        Machine(cards=(card(driver="nouveau"), card(1))),
        FAILS,
        [
            ("PCI bus", "nouveau is the driver of 1 nvidia card", "/etc/modprobe.d"),
            ("device nodes", "there is no /dev/nvidiactl", "as root, which makes them"),
        ],
        id="beside one of the right driver",
    ),
    pytest.param(
        Machine(cards=(card(driver="nouveau"), card(1, driver=""), card(2)), nodes=(CONTROL,)),
        Fared("nvidia", missing=("nvml",), is_switched_off=True),
        [],
        id="nobody wants to read them",
    ),
    pytest.param(
        Machine(cards=(card(),), nodes=(CONTROL,)),
        NOTHING_READS,
        [("nvidia", "nvml not found", "install the vendor's tools")],
        id="the tool is missing",
    ),
    pytest.param(
        Machine(nodes=(CONTROL,)),
        NOTHING_READS,
        [("nvidia", "the node has nvidia device nodes", "install the vendor's tools")],
        id="device nodes without a bus",
    ),
    pytest.param(
        Machine(cards=(card(),)),
        FAILS,
        [("device nodes", "there is no /dev/nvidiactl and no /dev/nvidia[0-9]*", "as root, which makes them")],
        id="no device nodes",
    ),
    pytest.param(
        Machine(container="Docker", cards=(card(),)),
        FAILS,
        [
            (
                "device nodes",
                "there is no /dev/nvidiactl",
                "runtime (nvidia), or give it each of /dev/nvidiactl /dev/nvidia[0-9]* with --device",
            )
        ],
        id="no device nodes in a container",
    ),
    pytest.param(
        Machine(container="Docker", cards=(card(),), nodes=(CONTROL,)),
        NOTHING_READS,
        [("nvidia", "nvml not found", "runtime (nvidia), or mount the vendor's tools")],
        id="the tool is missing in a container",
    ),
    pytest.param(Machine(cards=(card(),)), WELL, [], id="no nodes, and yet it is read"),
    pytest.param(
        Machine(user="mia", cards=(card(),), nodes=(node(refusal=errno.EACCES),)),
        FAILS,
        [("device nodes", "mia may not open /dev/nvidia0 (nvidia): owner, group or mode", "usermod -aG video mia")],
        id="not in the group",
    ),
    pytest.param(
        Machine(container="Docker", cards=(card(),), nodes=(node(refusal=errno.EACCES),)),
        FAILS,
        [("device nodes", "may not open", "--group-add video")],
        id="not in the group in a container",
    ),
    pytest.param(
        Machine(cards=(card(),), nodes=(node(refusal=errno.EACCES, mode=0o600),)),
        FAILS,
        [("device nodes", "may not open", 'MODE="0660"')],
        id="a mode that lets root alone in",
    ),
    pytest.param(
        Machine(cards=(card(),), nodes=(node(refusal=errno.EPERM), node("/dev/nvidia1", errno.EPERM))),
        FAILS,
        [("device nodes", "/dev/nvidia0 /dev/nvidia1 (nvidia): the list of devices", "DeviceAllow=/dev/nvidia0 rw")],
        id="not in the unit's list",
    ),
    pytest.param(
        Machine(container="Podman", cards=(card(),), nodes=(node(refusal=errno.EPERM),)),
        FAILS,
        [("device nodes", "the list of devices that are allowed here", "--device /dev/nvidia0")],
        id="not in the container's list",
    ),
    pytest.param(
        Machine(cards=(card(),), nodes=(node(refusal=errno.ENXIO),)),
        FAILS,
        [("device nodes", "ENXIO", "dmesg")],
        id="nobody behind the node",
    ),
    pytest.param(
        Machine(cards=(card(),), nodes=(node(refusal=errno.EACCES),)), WELL, [], id="denied, and not needed to read it"
    ),
]


@pytest.mark.parametrize(("machine", "fared", "expected"), CASES)
def test_what_is_found(machine: Machine, fared: Fared, expected: list[tuple[str, str, str]]) -> None:
    found = list(findings(machine, [fared]))
    assert [finding.where for finding in found] == [where for where, _, _ in expected]
    for finding, (_, what, remedy) in zip(found, expected, strict=True):
        assert what in finding.what
        assert remedy in finding.remedy


def test_each_group_has_its_remedy() -> None:
    nodes = (node(refusal=errno.EACCES), node("/dev/nvidia1", errno.EACCES, group="render"))
    found = list(findings(Machine(user="mia", cards=(card(),), nodes=nodes), [FAILS]))
    assert [finding.remedy.split(" and log in")[0] for finding in found] == [
        "usermod -aG render mia",
        "usermod -aG video mia",
    ]


def test_cards_of_virtual_machines_and_the_container_are_said() -> None:
    said = list(notes(Machine(container="Docker", cards=(card(driver="vfio-pci"), card(1)))))
    assert said[0] == "1 card (0000:00:00.0) belongs to a virtual machine: bound to vfio-pci"
    assert "Docker" in said[1]
    assert list(notes(Machine(cards=(card(),)))) == []
