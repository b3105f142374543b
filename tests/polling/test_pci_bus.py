"""The PCI bus is scanned rarely; whether a known card sleeps is looked at every few seconds."""

from __future__ import annotations

from telemetry_daemon.polling.pci_bus import PciBus
from telemetry_daemon.polling.source import PciView


class Bus:
    """A PCI bus in a folder, with a clock that is moved by hand."""

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


def test_cards_and_sleepers(tmp_path):
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
    assert bus.bus.counts() == {"moorethreads": 2}


def test_a_card_of_a_virtual_machine_is_on_the_bus_and_nobodys_here(tmp_path):
    bus = Bus(tmp_path)
    bus.put("0000:1a:00.0")
    bus.put("0000:1b:00.0")
    (tmp_path / "0000:1b:00.0" / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
    assert bus.bus.view("moorethreads") == PciView(1, 0, ("0000:1a:00.0",))
    assert bus.bus.counts() == {"moorethreads": 2}


def test_a_node_without_a_bus(tmp_path):
    bus = PciBus(tmp_path / "none", lambda: 0.0)
    assert (bus.view("nvidia"), bus.counts()) == (PciView(), {})
