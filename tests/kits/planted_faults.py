"""Single faults of an otherwise healthy device, and the condition that each output must show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kits.snapshots import WALL_TIME, device, reading, snapshot
from telemetry_parsers.model import MergedDevice, MergedReading, Snapshot

MINUTE = 60.0
# The readings of a healthy card; a fault replaces the reading of the same metric and label.
WELL: Mapping[tuple[str, str], float] = {
    ("temperature_celsius", "core"): 55.0,
    ("temperature_celsius", "memory"): 60.0,
    ("temperature_slowdown_celsius", "core"): 87.0,
    ("temperature_shutdown_celsius", "core"): 97.0,
    ("power_watts", ""): 300.0,
    ("power_cap_watts", ""): 700.0,
    ("memory_used_bytes", ""): 8.0 * 2**30,
    ("memory_total_bytes", ""): 80.0 * 2**30,
    ("utilization_ratio", ""): 0.5,
    ("throttled", "sw_thermal"): 0.0,
    ("throttled", "sw_power_cap"): 0.0,
    ("pcie_link_width", ""): 16.0,
    ("pcie_link_width_max", ""): 16.0,
    ("health", "ok"): 1.0,
    ("recovery_action", "none"): 1.0,
    ("link_up", "0"): 1.0,
    ("link_up", "1"): 1.0,
}
_NO_LIMIT = ("temperature_slowdown_celsius", "core"), ("temperature_shutdown_celsius", "core")


@dataclass(frozen=True)
class Fault:
    """The readings, missing readings and presence of a device with this fault, and the expected condition.

    `is_silent`: no alert fires, because there is none, it has ended, or it needs earlier samples.
    """

    word: str
    severity: str
    reads: Mapping[tuple[str, str], float] = field(default_factory=dict)
    lacks: tuple[tuple[str, str], ...] = ()
    up: bool | None = True
    beside: Mapping[tuple[str, str], float] = field(default_factory=dict)
    is_silent: bool = False


def _fault(word: str, severity: str, metric: str, value: float, label: str = "", **more: object) -> Fault:
    return Fault(word, severity, {(metric, label): value}, **more)  # type: ignore[arg-type]  # the fields of Fault


def _event(
    code: str, severity: str, minutes_ago: float | None = 1.0, word: str = "", *, is_silent: bool = False
) -> Fault:
    when = {("event_last_timestamp_seconds", code): WALL_TIME - minutes_ago * MINUTE} if minutes_ago is not None else {}
    reads = {("event_open", code): 1.0, ("events_total", code): 1.0, **when}
    return Fault(word or code, severity, reads, is_silent=is_silent)


def _hot(degrees: float, word: str, severity: str = "warning", sensor: str = "core", **limits: float) -> Fault:
    """Return a fault: a sensor of this temperature, and limits of that sensor only."""
    reads = {(f"temperature_{name}_celsius", sensor): limit for name, limit in limits.items()}
    return Fault(word, severity, {("temperature_celsius", sensor): degrees, **reads}, _NO_LIMIT)


FAULTS: Mapping[str, Fault] = {
    "lost": Fault("lost", "bad", lacks=tuple(WELL), up=False),
    "state unknown": Fault("unknown", "quiet", lacks=tuple(WELL), up=None),
    "no reading": Fault("unknown", "quiet", lacks=tuple(WELL)),
    "limits and sizes only": Fault("unknown", "quiet", lacks=tuple(key for key in WELL if key[0] not in ("memory_total_bytes", "power_cap_watts"))),
    "asleep": Fault("asleep", "quiet", {("suspended", ""): 1.0}, tuple(WELL)),
    "recovery action": _fault("needs drain and reset", "bad", "recovery_action", 1.0, "drain_and_reset"),
    "alarm": _fault("alarm", "bad", "health", 1.0, "alarm"),
    "critical": _fault("critical", "bad", "health", 1.0, "critical"),
    "warning": _fault("warning", "warning", "health", 1.0, "warning"),
    "health unknown": _fault("health unknown", "quiet", "health", 1.0, "unknown"),
    "uncorrected error": _fault("uncorrected errors", "bad", "ecc_uncorrected_total", 1.0, "dram"),
    "corrected errors": _fault("ECC error storm", "warning", "ecc_corrected_total", 2e7 + 1, "dram"),
    "corrected errors in SRAM": _fault("ECC error storm", "warning", "ecc_corrected_total", 10_001.0, "sram"),
    "row remap failed": _fault("row remap failed", "bad", "row_remap_failed", 1.0),
    "row remap pending": _fault("row remap pending", "warning", "row_remap_pending", 1.0),
    "pages pending": _fault("pages to retire", "warning", "retired_pages_pending", 1.0),
    "pages retired": _fault("memory wearing out", "warning", "retired_pages", 11.0, "single_bit_ecc"),
    "rows remapped": _fault("memory wearing out", "warning", "remapped_rows", 512.0, "correctable"),
    "critical Xid": _event("xid_79", "bad"),
    "critical Xid of last week": _event("xid_48", "bad", minutes_ago=10_000),
    "critical Xid, lost": Fault("lost", "bad", {("event_open", "xid_79"): 1.0}, tuple(WELL), up=False),
    "critical Xid, state unknown": Fault("xid_79", "bad", {("event_open", "xid_79"): 1.0}, tuple(WELL), up=None),
    "Xid": _event("xid_94", "warning"),
    "Xid of the last hour": _event("xid_94", "warning", minutes_ago=58),
    "Xid of just an hour ago": _event("xid_94", "warning", minutes_ago=60, is_silent=True),
    "Xid of an unknown time": _event("xid_94", "warning", minutes_ago=None, is_silent=True),
    "Xid from the future": _event("xid_94", "warning", minutes_ago=-90),
    "Xid of an application": _event("xid_43", "quiet"),
    "error code": _event("error_80e01801", "warning", minutes_ago=10_000),
    "loss that ended": _event("gpu_lost", "warning", is_silent=True),
    "link down, as the daemon saw": Fault("1 link down", "warning", {("link_up", "1"): 0.0, ("event_open", "link_down"): 1.0}),
    "all links down, as the daemon saw": Fault("2 links down", "warning", {("link_up", "0"): 0.0, ("link_up", "1"): 0.0, ("event_open", "link_down"): 1.0}),
    "link down": _fault("1 link down", "quiet", "link_up", 0.0, "1"),
    "over the slowdown limit and throttled": Fault("over 87 °C", "warning", {("temperature_celsius", "core"): 90.0, ("throttled", "sw_thermal"): 1.0}),
    "close to the slowdown limit": _fault("near 87 °C", "warning", "temperature_celsius", 82.1, "core"),
    "over the shutdown limit": _fault("critical 97 °C", "bad", "temperature_celsius", 97.0, "core"),
    "over the critical limit": _hot(110.0, "critical 110 °C", "bad", critical=110.0),
    "margin used up": _fault("over its limit", "warning", "temperature_margin_celsius", -1.0),
    "little margin": _fault("near its limit", "warning", "temperature_margin_celsius", 4.0),
    "hot without a limit": _hot(85.1, "over 85 °C"),
    "critical without a limit": _hot(95.0, "critical 95 °C", "bad"),
    "hot junction without a limit": _hot(95.1, "over 95 °C", sensor="junction"),
    "critical junction without a limit": _hot(105.0, "critical 105 °C", "bad", sensor="junction"),
    "critical memory without a limit": _hot(95.0, "hbm0 critical 95 °C", "bad", sensor="hbm0"),
    "throttled by heat": _fault("throttled by heat", "warning", "throttled", 1.0, "sw_thermal"),
    "throttled by the processor's heat": _fault("throttled by heat", "warning", "throttled", 1.0, "prochot"),
    "power brake": _fault("power brake", "warning", "throttled", 1.0, "hw_power_brake"),
    "narrow PCIe": _fault("PCIe x8 of x16", "warning", "pcie_link_width", 8.0),
    "fan stopped": Fault("fan stopped", "warning", {("fan_ratio", ""): 0.0, ("temperature_celsius", "core"): 71.0}, beside={("fan_ratio", ""): 0.4}),
    "throttled": _fault("throttled", "quiet", "throttled", 1.0, "hw_slowdown"),
    "at its cap, as it says": _fault("at power cap", "quiet", "throttled", 1.0, "sw_power_cap"),
    "at its cap": _fault("at power cap", "quiet", "power_watts", 698.0),
}  # fmt: skip  # a table: a fault is a line
# States that look like a fault but are none.
NO_FAULTS: Mapping[str, Fault] = {
    "nothing": Fault("ok", "good"),
    "Xid of an hour and a bit": _event("xid_94", "good", minutes_ago=63, word="ok"),
    "Xid of an application of long ago": _event("xid_43", "good", minutes_ago=31, word="ok"),
    "event that is over": _fault("ok", "good", "events_total", 3.0, "xid_79"),
    "loss of long ago": _event("gpu_lost", "good", minutes_ago=63, word="ok"),
    "no link was ever up": Fault("ok", "good", {("link_up", "0"): 0.0, ("link_up", "1"): 0.0}),
    "just cool enough": _fault("ok", "good", "temperature_celsius", 82.0, "core"),
    "enough margin": _fault("ok", "good", "temperature_margin_celsius", 5.0),
    "warm without a limit": _hot(85.0, "ok", "good"),
    "warm and far from its limit": _hot(95.0, "ok", "good", slowdown=101.0),
    "hot board": _hot(99.0, "ok", "good", sensor="board"),
    "hot memory": _hot(94.9, "ok", "good", sensor="hbm0"),
    "cool card whose fan stands": Fault("ok", "good", {("fan_ratio", ""): 0.0}, beside={("fan_ratio", ""): 0.4}),
    "hot card without a fan": Fault("ok", "good", {("fan_ratio", ""): 0.0, ("temperature_celsius", "core"): 71.0}),
    "clocks that were set": _fault("ok", "good", "throttled", 1.0, "applications_clocks"),
    "few corrected errors": _fault("ok", "good", "ecc_corrected_total", 2e7, "dram"),
    "some pages retired": _fault("ok", "good", "retired_pages", 10.0, "single_bit_ecc"),
    "some rows remapped": _fault("ok", "good", "remapped_rows", 511.0, "correctable"),
}  # fmt: skip


def readings_with(fault: Fault) -> tuple[MergedReading, ...]:
    """Return the readings of a card that is healthy except for the fault."""
    kept = {key: value for key, value in WELL.items() if key not in fault.lacks}
    return tuple(reading(metric, value, label) for (metric, label), value in {**kept, **fault.reads}.items())


def planted(number: int, fault: Fault) -> tuple[MergedDevice, ...]:
    """Return a card with the fault, and a second card if the fault needs one."""
    model = f"M{number}"
    card = device(2 * number, *readings_with(fault), model=model, up=fault.up)
    beside = Fault("ok", "good", fault.beside)
    return (card, device(2 * number + 1, *readings_with(beside), model=model)) if fault.beside else (card,)


def together(faults: Sequence[Fault]) -> Fault:
    """Return one card with all faults."""
    reads: dict[tuple[str, str], float] = {}
    beside: dict[tuple[str, str], float] = {}
    for fault in faults:
        reads |= fault.reads
        beside |= fault.beside
    lacks = tuple(key for fault in faults for key in fault.lacks)
    return Fault("", "", reads, lacks, next((fault.up for fault in faults if not fault.up), True), beside)


def node_with(faults: Mapping[str, Fault]) -> tuple[Snapshot, Mapping[str, str]]:
    """Return a node with each fault on a card of its own, and the card's id by the fault's name."""
    cards = {name: planted(number, fault) for number, (name, fault) in enumerate(faults.items())}
    return snapshot(*(device for devices in cards.values() for device in devices)), {
        name: devices[0].id for name, devices in cards.items()
    }
