"""Events of devices: how they are counted, and that each stays open until its device is repaired."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from telemetry_daemon.readers.pci import MachineState, read_machine_state
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.devices_file import StoredDevices, load, path_in, save
from telemetry_daemon.state.events import Events
from telemetry_parsers.bounds import MAX_EVENT_CODES
from telemetry_parsers.model import Absent, Event, Identity, MergedDevice, MergedReading, Value

CARD = MergedDevice("nvidia", 0, "GPU-a", "0", "H100", bus_id="0000:3b:00.0")
LOST = replace(CARD, up=False)
POLL = ("nvml", "fast")
NOON = 1_800_000_000.0


def drawn(joules: float, device: MergedDevice = CARD, errors: float = 0.0) -> MergedDevice:
    """Return the card with this energy counter, which starts at 0 with its driver."""
    readings = (
        MergedReading("energy_joules_total", "", joules, "nvml"),
        MergedReading("ecc_uncorrected_total", "dram", errors, "nvml"),
    )
    return replace(device, readings=readings)


@dataclass
class Node:
    """One card and the daemon's memory of it; the daemon's file is in `folder`."""

    folder: Path
    boot: str = "first"
    binding: int = 41
    card: MergedDevice = field(default_factory=lambda: drawn(5000.0))

    def __post_init__(self) -> None:
        self.start()

    def has(self, **now: object) -> Node:
        """Set another boot, driver binding or card."""
        self.__dict__.update(now)
        return self

    def start(self) -> None:
        """Start the daemon with its saved state."""
        machine = MachineState(self.boot, lambda bus_id: self.binding if bus_id == CARD.bus_id else 0)
        self.accumulator = Accumulator(Events(machine, load(path_in(str(self.folder))).events))
        self.see(self.card)

    def restart(self) -> None:
        identity = Identity(self.card.id, "nvidia", "0", "H100")
        save(path_in(str(self.folder)), StoredDevices((identity,), self.accumulator.events.open_events()))
        self.start()

    def see(self, card: MergedDevice, *codes: str) -> Node:
        """Ingest the card once, with new events."""
        self.card = card
        self.accumulator.integrate([card])
        self.accumulator.events.add_report(POLL, [card.id], [Event(0, code) for code in codes], NOON)
        return self

    def values(self, metric: str = "event_open") -> dict[str, Value]:
        """Return the card's values of a metric by code."""
        (shown,) = self.accumulator.with_counters([self.card])
        return {reading.label: reading.value for reading in shown.readings if reading.metric == metric}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


NO_REPAIRS: dict[str, Callable[[Node], object]] = {
    "a restart": lambda node: node.restart(),
    "a restart while it is lost": lambda node: node.see(LOST).restart(),
    "lost and back": lambda node: node.see(LOST).see(drawn(5100.0)),
    "off the bus": lambda node: node.has(binding=0).see(LOST),
    "the kernel names no boot": lambda node: node.has(boot="").restart(),
    "no counters": lambda node: node.see(CARD).see(drawn(5200.0)),
    "the counter of another source": lambda node: node.see(
        replace(CARD, readings=(replace(drawn(3.0).readings[0], source="nvidia-smi"),))
    ),
    "a counter a little back": lambda node: node.see(drawn(8192.0)).see(drawn(8191.9)),
}
REPAIRS: dict[str, Callable[[Node], object]] = {
    "a boot": lambda node: node.has(boot="second").restart(),
    "the driver reloaded": lambda node: node.has(binding=97).see(node.card),
    "the driver reloaded while no daemon ran": lambda node: node.has(binding=97).restart(),
    "off the bus and back": lambda node: node.has(binding=0).see(LOST).has(binding=98).see(drawn(5300.0)),
    "a reset": lambda node: node.see(drawn(12.0)),
    "a reset while no daemon ran": lambda node: node.has(card=drawn(12.0)).restart(),
    "lost, then reset": lambda node: node.see(LOST).see(drawn(12.0)),
    "errors gone": lambda node: node.see(drawn(6000.0, errors=1.0)).see(drawn(6001.0, errors=0.0)),
    "forgotten": lambda node: node.see(LOST).accumulator.forget(CARD.id),
    "acknowledged": lambda node: node.accumulator.events.close(CARD.id),
}


@pytest.mark.parametrize("happens", NO_REPAIRS.values(), ids=NO_REPAIRS)
def test_event_stays_open_without_a_repair(node: Node, happens: Callable[[Node], object]) -> None:
    node.see(node.card, "xid_79", "xid_48")
    happens(node)
    assert node.values() == {"xid_48": 1.0, "xid_79": 1.0}


@pytest.mark.parametrize("repair", REPAIRS.values(), ids=REPAIRS)
def test_repair_closes_an_event(node: Node, repair: Callable[[Node], object]) -> None:
    node.see(node.card, "xid_79", "xid_48")
    repair(node)
    assert node.values() == {}
    node.restart()
    assert node.values() == {}, "nor does it come back with a restart"
    node.see(node.card, "xid_79")
    assert node.values() == {"xid_79": 1.0}, "a new one is open again"


def test_event_of_a_lost_card_closes_with_its_reset(node: Node) -> None:
    node.see(LOST, "xid_79")
    assert node.values() == {"xid_79": 1.0}
    assert node.see(drawn(7.0)).values() == {}


def test_event_of_a_partition_closes_with_the_cards_reset(node: Node) -> None:
    part = replace(CARD, id="GPU-a/1", parent="GPU-a", readings=())
    node.accumulator.integrate([drawn(5000.0), part])
    node.accumulator.events.add_report(POLL, [part.id], [Event(0, "xid_94")], NOON)
    for joules, opened in ((5001.0, 1), (2.0, 0)):
        node.accumulator.integrate([drawn(joules), part])
        assert len(node.accumulator.events.open_events()) == opened


def test_ongoing_error_is_open_while_it_is_listed(node: Node) -> None:
    events = node.accumulator.events
    for codes in (["error_1"], ["error_1"], [], ["error_1"]):
        events.add_report(POLL, [CARD.id], [Event(0, code, is_ongoing=True) for code in codes], NOON)
        assert node.values() == dict.fromkeys(codes, 1.0)
    assert node.values("events_total") == {"error_1": 2.0}
    assert events.close(CARD.id) == (), "its tool still lists it"
    node.accumulator.forget(CARD.id)
    assert node.values() == {}


def test_events_of_a_lost_device_are_counted(node: Node) -> None:
    node.see(LOST, "xid_79", "xid_31")
    node.accumulator.events.add_report(POLL, [LOST.id], [Event(0, "xid_31", wall_time=NOON + 9)], NOON)
    assert node.values("events_total") == {"xid_31": 2.0, "xid_79": 1.0}
    assert node.values("event_last_timestamp_seconds") == {"xid_31": NOON + 9, "xid_79": NOON}


def test_event_before_a_restart_counts_0(node: Node) -> None:
    node.see(node.card, "xid_94").restart()
    assert (node.values("events_total"), node.values("event_last_timestamp_seconds")) == (
        {"xid_94": 0.0},
        {"xid_94": NOON},
    )
    assert node.see(node.card, "xid_94").values("events_total") == {"xid_94": 1.0}


def test_event_time_survives_a_restart(node: Node) -> None:
    node.see(node.card, "xid_94", "xid_79").accumulator.events.add_report(
        POLL, [CARD.id], [Event(0, "xid_94", wall_time=NOON + 60)], NOON
    )
    node.restart()
    assert node.values("event_last_timestamp_seconds") == {"xid_79": NOON, "xid_94": NOON + 60}
    file = path_in(str(node.folder))
    text = json.loads(file.read_text())
    for event in text["events"]:
        del event["times"]  # as an earlier version wrote it
    file.write_text(json.dumps(text))
    node.start()
    assert (node.values(), node.values("event_last_timestamp_seconds")) == ({"xid_79": 1.0, "xid_94": 1.0}, {})
    assert node.see(node.card, "xid_79").values("event_last_timestamp_seconds") == {"xid_79": NOON}


def test_impossible_event_time_is_dropped(node: Node) -> None:
    node.accumulator.events.add_report(POLL, [CARD.id], [Event(0, "xid_31", wall_time=math.inf)], NOON)
    assert node.values("event_last_timestamp_seconds") == {"xid_31": Absent.IMPLAUSIBLE}
    node.restart()
    assert (node.values(), node.values("event_last_timestamp_seconds")) == ({"xid_31": 1.0}, {})


def test_events_without_a_device_are_ignored(node: Node) -> None:
    node.accumulator.events.add_report(POLL, [None, CARD.id], [Event(0, "a"), Event(2, "b"), Event(None, "c")], NOON)
    assert node.values("events_total") == {}


@pytest.mark.parametrize("is_ongoing", [False, True])
def test_invented_codes_are_bounded(node: Node, is_ongoing: bool) -> None:
    number = 10 * MAX_EVENT_CODES
    many = [Event(0, f"code_{n}", is_ongoing=is_ongoing) for n in range(number)]
    node.accumulator.events.add_report(POLL, [CARD.id], many, NOON)
    totals = node.values("events_total")
    assert (len(totals), totals["other"]) == (MAX_EVENT_CODES + 1, 9 * MAX_EVENT_CODES)
    assert node.values().keys() == totals.keys()


def test_saved_events_change_rarely(node: Node) -> None:
    node.see(node.card, "xid_94")
    remembered = set()
    for joules in range(5000, 50_000, 10):
        remembered.add(node.see(drawn(float(joules)), "xid_94").accumulator.events.open_events())
    assert len(remembered) <= 5


def test_driver_link_changes_with_each_binding(tmp_path: Path) -> None:
    link, boot = tmp_path / "0000:3b:00.0" / "driver", tmp_path / "boot_id"
    link.parent.mkdir()
    boot.write_text("3dd15037\n")
    machine = read_machine_state(boot, tmp_path)
    assert (machine.boot, machine.binding_of("0000:3b:00.0")) == ("3dd15037", 0)
    link.symlink_to("../nvidia")
    bound = machine.binding_of("0000:3b:00.0")
    assert bound == machine.binding_of("0000:3b:00.0") != 0
    link.rename(tmp_path / "kept, so that its number stays taken")
    link.symlink_to("../nvidia")
    assert machine.binding_of("0000:3b:00.0") not in (0, bound)
    assert read_machine_state(tmp_path / "hidden", tmp_path).boot == ""


@pytest.mark.parametrize("name", ["elsewhere", "../elsewhere", "{}/elsewhere", "\0", "x" * 5000])
def test_invalid_bus_address_has_no_binding(tmp_path: Path, name: str) -> None:
    """A plugin may report any text: no file outside the kernel's list is read, and no poll fails."""
    (tmp_path / "devices").mkdir()
    for folder in (tmp_path / "elsewhere", tmp_path / "devices" / "elsewhere"):
        folder.mkdir()
        (folder / "driver").touch()
    assert read_machine_state(pci_devices=tmp_path / "devices").binding_of(name.format(tmp_path)) == 0
