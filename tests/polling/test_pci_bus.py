"""The PCI bus: which cards sleep, and which cards a source does not list."""

import pytest

from telemetry_daemon.polling.pci_bus import PciBus, unlisted_devices_problem
from telemetry_daemon.polling.source import PciView
from telemetry_parsers.model import Device


class Bus:
    """A PCI bus in a folder, with a clock that a test moves."""

    def __init__(self, folder):
        self.folder = folder
        self.now = 0.0
        self.bus = PciBus(folder, lambda: self.now)

    def put(self, address: str, status: str = "active", vendor: str = "0x1ed5") -> None:
        device = self.folder / address
        (device / "power").mkdir(parents=True, exist_ok=True)
        (device / "vendor").write_text(vendor + "\n")
        (device / "class").write_text("0x030200\n")
        (device / "power" / "runtime_status").write_text(status + "\n")


def test_cards_and_sleeping_cards_are_counted(tmp_path):
    bus = Bus(tmp_path)
    bus.put("0000:1a:00.0")
    assert bus.bus.view("moorethreads") == PciView(1, 0, ("0000:1a:00.0",))
    bus.put("0000:1a:00.0", "suspended")
    bus.put("0000:1b:00.0")
    bus.now = 4.9
    assert bus.bus.view("moorethreads") == PciView(1, 0, ("0000:1a:00.0",))
    bus.now = 5.0
    assert bus.bus.view("moorethreads") == PciView(1, 1, ("0000:1a:00.0",))
    bus.now = 60.0
    assert bus.bus.view("moorethreads") == PciView(2, 1, ("0000:1a:00.0", "0000:1b:00.0"))
    assert bus.bus.count_by_vendor() == {"moorethreads": 2}


def test_card_of_a_virtual_machine_is_not_expected(tmp_path):
    bus = Bus(tmp_path)
    bus.put("0000:1a:00.0")
    bus.put("0000:1b:00.0")
    (tmp_path / "0000:1b:00.0" / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
    assert bus.bus.view("moorethreads") == PciView(1, 0, ("0000:1a:00.0",))
    assert bus.bus.count_by_vendor() == {"moorethreads": 2}


def test_node_without_a_bus(tmp_path):
    bus = PciBus(tmp_path / "none", lambda: 0.0)
    assert (bus.view("nvidia"), bus.count_by_vendor()) == (PciView(), {})


BUS = ("0000:1a:00.0", "0000:3d:00.0", "0001:1a:00.0")


def device(bus_id: str | None = None, vendor: str = "nvidia", parent: int | None = None) -> Device:
    return Device(vendor, bus_id=bus_id, parent=parent)


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ([device(address) for address in BUS], None),
        ([device(address) for address in (*BUS, "0000:ff:00.0")], None),
        ([device(BUS[0]), device(BUS[2])], "1 of 3 devices on the PCI bus is not listed (0000:3d:00.0)"),
        ([device(BUS[0])], "2 of 3 devices on the PCI bus are not listed (0000:3d:00.0 0001:1a:00.0)"),
        ([device(), device(), device()], None),
        ([device(), device()], "1 of 3 devices on the PCI bus is not listed:"),
        ([device(BUS[0]), device()], "1 of 3 devices on the PCI bus is not listed:"),
        ([device("1a:00.0"), device("3d:00.0")], "1 of 3 devices on the PCI bus is not listed:"),  # either 1a:00.0
        ([device(BUS[0]), device(BUS[0], parent=0), device(BUS[0], parent=0)], "2 of 3"),
        ([*(device(address) for address in BUS[:2]), device(BUS[2], vendor="hygon")], "1 of 3"),
        ([], "3 of 3"),
    ],
)
def test_unlisted_card_is_named_by_its_address(devices: list[Device], text: str | None) -> None:
    problem = unlisted_devices_problem(devices, "nvidia", BUS)
    assert (problem is None) == (text is None)
    assert problem is None or (problem.where == "PCI bus" and (text or "") in problem.text)


def test_lost_card_that_is_listed_is_not_reported_twice() -> None:
    devices = [device(BUS[0]), Device("nvidia", bus_id=BUS[1], up=False)]
    assert unlisted_devices_problem(devices, "nvidia", BUS[:2]) is None


def test_many_cards_are_abbreviated() -> None:
    addresses = [f"0000:{number:02x}:00.0" for number in range(16)]
    problem = unlisted_devices_problem([], "amd", addresses)
    assert problem is not None
    assert "(0000:00:00.0 0000:01:00.0 0000:02:00.0 0000:03:00.0 and 12 more)" in problem.text


def test_nothing_is_missing_without_a_bus() -> None:
    assert unlisted_devices_problem([device()], "nvidia", ()) is None
