"""Accelerators on a PCI bus: which functions count, their vendors, and which of them sleep."""

from pathlib import Path

import pytest

from telemetry_daemon.readers.pci import PciDevice, count_by_vendor, find_accelerators, is_suspended


def add(
    root: Path, bus_id: str, vendor: str, class_code: str, device: str = "0x0001", status: str | None = "active"
) -> Path:
    folder = root / bus_id
    (folder / "power").mkdir(parents=True)
    for name, text in (("vendor", vendor), ("class", class_code), ("device", device)):
        (folder / name).write_text(text + "\n")
    if status is not None:
        (folder / "power/runtime_status").write_text(status + "\n")
    return folder


@pytest.mark.parametrize(
    ("vendor", "class_code", "name"),
    [
        ("0x10de", "0x030200", "nvidia"),
        ("0x10de", "0x040300", None),  # its audio
        ("0x10de", "0x068000", None),  # NVSwitch
        ("0x1002", "0x120000", "amd"),
        ("0x1002", "0x038000", "amd"),
        ("0x1d94", "0x038000", "hygon"),
        ("0x1d94", "0x0b4000", "hygon"),
        ("0x1d94", "0x108000", None),  # a Hygon CPU's cryptography
        ("0x1ed5", "0x030000", "moorethreads"),
        ("0x19e5", "0x120000", "ascend"),
        ("0x19e5", "0x030000", None),  # the VGA of a management controller
        ("0xcabc", "0x120000", "cambricon"),
        ("0x9999", "0x038000", "metax"),
        ("0x1e3e", "0x120000", "iluvatar"),
        ("0x1e36", "0x120000", "enflame"),
        ("0x8086", "0x038000", "intel"),
        ("0x8086", "0x0b4000", None),  # QuickAssist
        ("0x8086", "0x120000", None),  # an FPGA
        ("0x1d22", "0x120000", "kunlunxin"),
        ("none", "0x030000", None),
        ("0x10de", "", None),
    ],
)
def test_vendor_and_class_decide(tmp_path: Path, vendor: str, class_code: str, name: str | None) -> None:
    add(tmp_path, "0000:18:00.0", vendor, class_code)
    expected = () if name is None else (PciDevice("0000:18:00.0", name, int(class_code, 16)),)
    assert find_accelerators(tmp_path) == expected


def test_virtual_functions_and_other_devices_do_not_count(tmp_path: Path) -> None:
    add(tmp_path, "0000:00:02.0", "0x8086", "0x030000")  # graphics within the CPU
    add(tmp_path, "0000:03:00.0", "0x8086", "0x030000")
    add(tmp_path, "0000:07:00.0", "0x1002", "0x030000", device="0x515e")  # ES1000
    add(tmp_path, "0000:07:01.0", "0x1002", "0x030000", device="0x4752")  # Rage XL
    add(tmp_path, "0000:08:00.0", "0x10de", "0x030200")
    (add(tmp_path, "0000:08:00.4", "0x10de", "0x030200") / "physfn").symlink_to("../0000:08:00.0")
    assert [device.bus_id for device in find_accelerators(tmp_path)] == ["0000:03:00.0", "0000:08:00.0"]


@pytest.mark.parametrize(
    ("status", "suspended"),
    [("suspended", True), ("active", False), ("unsupported", False), ("suspending", False), ("", None), (None, None)],
)
def test_only_a_suspended_card_sleeps(tmp_path: Path, status: str | None, suspended: bool | None) -> None:
    add(tmp_path, "0000:18:00.0", "0x1002", "0x038000", status=status)
    assert is_suspended("0000:18:00.0", tmp_path) is suspended


@pytest.mark.parametrize(
    ("driver", "given_away"),
    [
        ("nvidia", False),
        ("vfio-pci", True),
        ("nvgrace-gpu-vfio-pci", True),
        ("mlx5_vfio_pci", True),
        ("pci-stub", True),
    ],
)
def test_driver_shows_whether_a_card_is_passed_through(tmp_path: Path, driver: str, given_away: bool) -> None:
    folder = add(tmp_path, "0000:18:00.0", "0x10de", "0x030200")
    (folder / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    assert [device.is_passed_through for device in find_accelerators(tmp_path)] == [given_away]


def test_devices_are_in_order_and_in_lower_case(tmp_path: Path) -> None:
    for bus_id in ("10000:01:00.0", "0000:C9:00.0", "0000:0a:00.0"):
        add(tmp_path, bus_id, "0x10de", "0x030200")
    assert [device.bus_id for device in find_accelerators(tmp_path)] == [
        "0000:0a:00.0",
        "0000:c9:00.0",
        "10000:01:00.0",
    ]


def test_devices_are_counted_by_vendor(tmp_path: Path) -> None:
    assert count_by_vendor(find_accelerators(tmp_path / "none")) == {}
    for number, vendor in enumerate(("0x10de", "0x1d94", "0x10de")):
        add(tmp_path, f"0000:{number:02x}:00.0", vendor, "0x030200")
    assert count_by_vendor(find_accelerators(tmp_path)) == {"nvidia": 2, "hygon": 1}
    assert sum(count_by_vendor(find_accelerators()).values()) == len(find_accelerators()), "the bus of this machine"
