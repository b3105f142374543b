"""The evidence against a device in its readings and in comparison with its model. Each function returns the words of what it finds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from telemetry_exporters.human import celsius
from telemetry_exporters.judgement.thresholds import number, pattern, seconds
from telemetry_exporters.snapshot_filter import shown_readings
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import BOARD_SENSORS, OTHER_SENSORS, is_main_temperature
from telemetry_parsers.model import Absent, MergedDevice, Snapshot
from telemetry_parsers.readings import Readings, Shape

# By metric: each of its labels, and the position of the value.
Positions = Mapping[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Peers:
    """A summary of the devices of one model: how many links of each are up, and whether any fan turns."""

    links_up: tuple[int, ...] = ()
    fan_turns: bool = False

    @property
    def usual_links(self) -> int:
        """Return the usual number of links that are up; 0 with too few devices to compare."""
        enough = len(self.links_up) >= number("straggler_peers")
        return sorted(self.links_up)[(len(self.links_up) - 1) // 2] if enough else 0


@dataclass(frozen=True, slots=True)
class View:
    """One device as the conditions see it; `now` is the snapshot's wall time."""

    device: MergedDevice
    readings: Readings
    positions: Positions
    now: float
    peers: Peers = Peers()

    def numbers(self, metric: str) -> dict[str, float]:
        """Return the numbers of a metric by label."""
        values = self.readings.values
        found = ((label, values[position]) for label, position in self.positions.get(metric, ()))
        return {label: value for label, value in found if not isinstance(value, Absent)}

    def number(self, metric: str) -> float | None:
        """Return the number of a metric without labels, or None."""
        value = self.readings.value(metric)
        return None if isinstance(value, Absent) else value

    def active(self, metric: str) -> list[str]:
        """Return the labels under which a metric is 1."""
        values = self.readings.values
        return [label for label, position in self.positions.get(metric, ()) if values[position] == 1.0]


def views(snapshot: Snapshot, metrics: Collection[str]) -> Iterator[View]:
    """Yield each device of the snapshot with the positions of these metrics."""
    columns = [(device, Readings.of(shown_readings(device))) for device in snapshot.devices]
    # Devices of one model usually share one shape.
    shapes = {id(readings.shape): readings.shape for _, readings in columns}
    by_shape = {key: _positions(shape, metrics) for key, shape in shapes.items()}
    alone = [View(device, readings, by_shape[id(readings.shape)], snapshot.wall_time) for device, readings in columns]
    peers = _peers(alone)
    for view in alone:
        yield View(view.device, view.readings, view.positions, view.now, peers[_model(view.device)])


def _positions(shape: Shape, metrics: Collection[str]) -> Positions:
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for (metric, label), position in shape.places.items():
        if metric in metrics:
            found[metric].append((label, position))
    return {metric: tuple(labels) for metric, labels in found.items()}


def _model(device: MergedDevice) -> tuple[str, str]:
    return device.vendor, device.current_model or device.model


def _peers(devices: list[View]) -> Mapping[tuple[str, str], Peers]:
    links: dict[tuple[str, str], list[int]] = defaultdict(list)
    fans: dict[tuple[str, str], bool] = defaultdict(bool)
    for view in devices:
        model = _model(view.device)
        fans[model] |= bool(view.number("fan_ratio"))
        if view.numbers("link_up"):
            links[model].append(len(view.active("link_up")))
    return {model: Peers(tuple(links[model]), turns) for model, turns in fans.items()}


Evidence = Callable[[View], list[str]]
READ = (
    "temperature_celsius",
    "temperature_margin_celsius",
    "temperature_slowdown_celsius",
    "temperature_critical_celsius",
    "temperature_shutdown_celsius",
)
_is_inner = re.compile(pattern("inner_sensors")).fullmatch
# Prometheus sees an event at the next scrape, and evaluates alerts once a minute.
_ALERT_DELAY_SECONDS = 120.0
# Any of these shows that the device was read; limits and sizes alone do not.
LOOKED_AT = ("temperature_celsius", "power_watts", "memory_used_bytes", "memory_used_ratio", "utilization_ratio")
EVENTS = ("event_open", "event_last_timestamp_seconds")
_LINK_DOWN, _LOST = "link_down", "gpu_lost"


def lost(view: View) -> list[str]:
    """Return whether the driver no longer lists the device."""
    return ["lost"] if view.device.up is False else []


def unknown(view: View) -> list[str]:
    """Return `unknown` for a device that no source lists, or without a reading of its condition."""
    if view.device.up is False or asleep(view):
        return []
    was_read = view.device.up and any(view.numbers(metric) for metric in LOOKED_AT)
    return [] if was_read else ["unknown"]


def asleep(view: View) -> list[str]:
    """Return whether the device sleeps, so that it is not read."""
    return ["asleep"] if view.number("suspended") == 1.0 else []


def recovery_action(view: View) -> list[str]:
    """Return the action that the driver requests."""
    return [f"needs {action.replace('_', ' ')}" for action in view.active("recovery_action") if action != "none"]


def health(*states: str) -> Evidence:
    """Return the health state that the device reports, if it is one of these."""
    return lambda view: [state for state in view.active("health") if state in states]


def health_unknown(view: View) -> list[str]:
    """Return whether the device reports an unknown health."""
    return ["health unknown"] if "unknown" in view.active("health") else []


def is_one(metric: str, word: str) -> Evidence:
    """Return the word if that reading is 1."""
    return lambda view: [word] if view.number(metric) == 1.0 else []


def uncorrected_errors(view: View) -> list[str]:
    """Return whether memory had uncorrected errors."""
    return ["uncorrected errors"] if any(view.numbers("ecc_uncorrected_total").values()) else []


def corrected_errors(view: View) -> list[str]:
    """Return whether memory errors are corrected very often."""
    errors = view.numbers("ecc_corrected_total")
    in_sram = sum(count for location, count in errors.items() if location.startswith("sram"))
    many = sum(errors.values()) > number("ecc_corrected") or in_sram > number("ecc_corrected_sram")
    return ["ECC error storm"] if many else []


def worn_memory(view: View) -> list[str]:
    """Return whether much of the memory is out of use."""
    pages, rows = (sum(view.numbers(metric).values()) for metric in ("retired_pages", "remapped_rows"))
    return ["memory wearing out"] if pages > number("retired_pages") or rows >= number("remapped_rows") else []


def critical_events(view: View) -> list[str]:
    """Return the open events that end jobs."""
    return [code for code in view.active("event_open") if _is("xid_critical", code)]


def lasting_events(view: View) -> list[str]:
    """Return the other open events except Xids: they last until a repair, or until the tool no longer lists them."""
    return [code for code in view.active("event_open") if not code.startswith("xid_") and not _is("own_alert", code)]


def late_events(view: View) -> list[str]:
    """Return the other open Xids while their alert fires."""
    shown = seconds("event_window") + _ALERT_DELAY_SECONDS
    special = ("xid_critical", "xid_application")
    codes = (code for code in view.active("event_open") if code.startswith("xid_") or code == _LOST)
    return [code for code in codes if not any(_is(name, code) for name in special) and _since(view, code) < shown]


def application_events(view: View) -> list[str]:
    """Return the recent Xids of applications."""
    codes = (code for code in view.active("event_open") if _is("xid_application", code))
    return [code for code in codes if _since(view, code) < seconds("application_window")]


def _since(view: View, code: str) -> float:
    """Return the seconds since the last event with that code; 0 if its time is unknown."""
    return view.now - view.numbers("event_last_timestamp_seconds").get(code, view.now)


def links_down(view: View) -> list[str]:
    """Return the number of links that are down, if they were up before or are up on its peers."""
    links, up = len(view.numbers("link_up")), len(view.active("link_up"))
    fell = _LINK_DOWN in view.active("event_open")
    if links > up and (fell or up < view.peers.usual_links):
        return [_down(links - up)]
    return ["links down"] if fell else []


def links_without_peer(view: View) -> list[str]:
    """Return the number of links that are down and may never have been connected."""
    links, up = len(view.numbers("link_up")), len(view.active("link_up"))
    some_up = any(view.peers.links_up)
    return [_down(links - up)] if links > up and some_up and not links_down(view) else []


def _down(links: int) -> str:
    return f"{links} link{'s' * (links > 1)} down"


def throttled_by(reasons: str, word: str) -> Evidence:
    """Return the word if clocks are throttled for one of these reasons."""
    is_one_of = re.compile(pattern(reasons)).fullmatch
    return lambda view: [word] if any(map(is_one_of, view.active("throttled"))) else []


def narrow_pcie(view: View) -> list[str]:
    """Return the lanes of the PCIe link, if it can have more."""
    # A low generation counts only for a card that has been busy for minutes, which only the alert knows.
    width, widest = view.number("pcie_link_width"), view.number("pcie_link_width_max")
    return [f"PCIe x{width:.0f} of x{widest:.0f}"] if width and widest and width < widest else []


def fan_stopped(view: View) -> list[str]:
    """Return whether the fan stands still while the device is hot. Some tools print 0 for a model without a fan."""
    hot = (_main_temperature(view) or 0.0) > number("fan_stopped_celsius")
    return ["fan stopped"] if view.number("fan_ratio") == 0.0 and hot and view.peers.fan_turns else []


def at_power_cap(view: View) -> list[str]:
    """Return whether the device draws all the power that it may."""
    power, cap = view.number("power_watts"), view.number("power_cap_watts")
    full = power is not None and cap and power >= number("at_cap_ratio") * cap
    return ["at power cap"] if full or _CAPPED(view) else []


_CAPPED = throttled_by("cap_reasons", "at power cap")


def _is(name: str, word: str) -> bool:
    return re.fullmatch(pattern(name), word) is not None


_T, _MARGIN, _SLOWDOWN, _CRITICAL, _SHUTDOWN = READ


class _Near(NamedTuple):
    """The degrees that are left below a limit, and the limit. Some devices report only the degrees."""

    degrees: float
    limit: str


def over_critical(view: View) -> list[str]:
    """Return the hottest of the sensors that have reached their critical temperature."""
    reported = view.numbers(_SHUTDOWN) | view.numbers(_CRITICAL)
    slowdown = view.numbers(_SLOWDOWN)
    hottest = _hottest_first(view)
    limits = ((degrees, sensor, _critical(sensor, degrees, reported, slowdown)) for sensor, degrees in hottest)
    for degrees, sensor, limit in limits:
        if limit is not None and degrees >= limit:
            return [("" if is_main_temperature(sensor) else f"{sensor} ") + f"critical {celsius(limit)}"]
    return []


def _hottest_first(view: View) -> list[tuple[str, float]]:
    return sorted(view.numbers(_T).items(), key=lambda item: -item[1])


def _critical(sensor: str, degrees: float, reported: dict[str, float], slowdown: dict[str, float]) -> float | None:
    if sensor in reported:
        return reported[sensor]
    # Boards have no common limit, and a temperature below the device's slowdown is not critical.
    if sensor.startswith(BOARD_SENSORS) or degrees < slowdown.get(sensor, degrees):
        return None
    return number("critical_junction_celsius" if _is_inner(sensor) else "critical_celsius")


def over_limit(view: View) -> list[str]:
    """Return the limit at which the device slows down, if it is hotter."""
    near = _nearest(view)
    return [f"over {near.limit}"] if near is not None and near.degrees < 0 else []


def near_limit(view: View) -> list[str]:
    """Return the limit at which the device slows down, if it is close to it."""
    near, margin = _nearest(view), number("limit_margin_celsius")
    return [f"near {near.limit}"] if near is not None and 0 <= near.degrees < margin else []


def over_common(view: View) -> list[str]:
    """Return the common limit that a device without a limit of its own exceeds."""
    if _nearest(view) is not None:
        return []
    figures = ((degrees, _common(sensor)) for sensor, degrees in _hottest_first(view))
    return [f"over {celsius(limit)}" for degrees, limit in figures if limit is not None and degrees > limit][:1]


def _common(sensor: str) -> float | None:
    if _is_inner(sensor):
        return number("hot_junction_celsius")
    return None if sensor.startswith(OTHER_SENSORS) else number("hot_celsius")


def _main_temperature(view: View) -> float | None:
    """Return the hottest sensor other than memory and board, or None."""
    return max((degrees for sensor, degrees in view.numbers(_T).items() if is_main_temperature(sensor)), default=None)


def _nearest(view: View) -> _Near | None:
    """Return how near the device is to its limit, or None if it reports no limit."""
    reported = view.number(_MARGIN)
    if reported is not None:
        return _Near(reported, "its limit") if _main_temperature(view) is not None else None
    limits = view.numbers(_SHUTDOWN) | view.numbers(_CRITICAL) | view.numbers(_SLOWDOWN)
    margins = [
        _Near(limits[sensor] - degrees, celsius(limits[sensor]))
        for sensor, degrees in view.numbers(_T).items()
        if sensor in limits and is_main_temperature(sensor)
    ]
    return min(margins, default=None)
