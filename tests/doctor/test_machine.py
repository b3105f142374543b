"""Cards, drivers, device nodes and containers, read from files of the test."""

from pathlib import Path

import pytest

from doctor.played import Played
from telemetry_daemon.doctor.machine import FIRST_USER_GROUP, group_names, read_machine


def test_cards_have_their_drivers(tmp_path: Path) -> None:
    played = Played(tmp_path)
    played.stranger(0x3B, "0x10de", "nvidia")
    played.stranger(0x5E, "0x10de", "vfio-pci")
    played.stranger(0x86, "0x1002")
    found = read_machine(played.root, {})
    assert [(card.vendor, card.driver, card.is_passed_through) for card in found.cards] == [
        ("nvidia", "nvidia", False),
        ("nvidia", "vfio-pci", True),
        ("amd", "", False),
    ]
    assert found.bus_counts == {"amd": 1, "nvidia": 2}
    assert [own_card.bus_id for own_card in found.host_cards] == ["0000:3b:00.0", "0000:86:00.0"]


def test_device_nodes_have_their_vendors(tmp_path: Path) -> None:
    """A render node belongs to the card behind it, /dev/kfd to any vendor's card."""
    played = Played(tmp_path)
    played.stranger(0x86, "0x1002", "amdgpu")
    played.stranger(3, "0x8086", "xe")
    for path in ("nvidia0", "nvidia-caps", "kfd", "dri/renderD128", "dri/renderD129", "dri/renderD130"):
        played.node(f"dev/{path}")
    for name, behind in {"renderD128": "0000:86:00.0", "renderD129": "0000:03:00.0"}.items():
        (played.root / f"sys/class/drm/{name}").mkdir(parents=True)
        (played.root / f"sys/class/drm/{name}/device").symlink_to(played.root / "sys/bus/pci/devices" / behind)
    found = read_machine(played.root, {})
    assert {node.path: node.vendors for node in found.nodes} == {
        "/dev/nvidia0": ("nvidia",),
        "/dev/kfd": ("amd", "hygon"),
        "/dev/dri/renderD128": ("amd",),
        "/dev/dri/renderD129": ("intel",),
    }
    assert {node.refusal_errno for node in found.nodes} == {0}
    assert [node.path for node in found.nodes_of("intel")] == ["/dev/dri/renderD129"]


def test_containers_are_recognized(tmp_path: Path) -> None:
    assert read_machine(tmp_path, {}).container == ""
    assert read_machine(tmp_path, {"container": "lxc"}).container == "lxc"
    (tmp_path / ".dockerenv").touch()
    assert read_machine(tmp_path, {}).container == "Docker"
    assert read_machine(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}).container == "Kubernetes"


def test_groups_of_people_are_separate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getgroups", lambda: [0, 54321])
    monkeypatch.setattr("os.getegid", lambda: 0)
    assert group_names() == ("54321", "root")
    assert group_names(FIRST_USER_GROUP) == ("54321",)
