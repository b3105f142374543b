"""Detects the conditions of a device in its readings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from telemetry_exporters.human import celsius
from telemetry_exporters.judgement.thresholds import pattern, seconds, threshold
from telemetry_exporters.snapshot_filter import shown_readings
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import BOARD_SENSORS, OTHER_SENSORS, is_main_sensor
from telemetry_parsers.model import Absent, MergedDevice, Snapshot
from telemetry_parsers.readings import Readings, Shape

# Maps each metric to (label value, index in `Readings.values`) for each of its readings.
Positions = Mapping[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """The links and fans of all devices of one model."""

    up_link_counts: tuple[int, ...] = ()  # one count for each device that reports links
    has_turning_fan: bool = False

    @property
    def usual_up_links(self) -> int:
        """Return the median number of links that are up, or 0 if the model has too few devices for a median."""
        counts = sorted(self.up_link_counts)
        return counts[(len(counts) - 1) // 2] if len(counts) >= threshold("straggler_peers") else 0


@dataclass(frozen=True, slots=True)
class DeviceView:
    """The data of a device from which its conditions are derived."""

    device: MergedDevice
    readings: Readings
    positions: Positions
    now: float
    model: ModelSummary = ModelSummary()

    def numbers_by_label(self, metric: str) -> dict[str, float]:
        """Map each label value of a metric to its number."""
        values = self.readings.values
        labelled = ((label, values[position]) for label, position in self.positions.get(metric, ()))
        return {label: value for label, value in labelled if not isinstance(value, Absent)}

    def number(self, metric: str) -> float | None:
        """Return the number of a metric without labels, or None if it is absent."""
        value = self.readings.value(metric)
        return None if isinstance(value, Absent) else value

    def active_labels(self, metric: str) -> list[str]:
        """Return the label values for which the metric is 1."""
        values = self.readings.values
        return [label for label, position in self.positions.get(metric, ()) if values[position] == 1.0]


def device_views(snapshot: Snapshot, metrics: Collection[str]) -> Iterator[DeviceView]:
    """Yield a view of each device. `metrics` are the metrics that the conditions read."""
    device_readings = [(device, Readings.of(shown_readings(device))) for device in snapshot.devices]
    # Devices of the same model usually share a shape.
    shapes = {id(readings.shape): readings.shape for _, readings in device_readings}
    positions = {key: _label_positions(shape, metrics) for key, shape in shapes.items()}
    now = snapshot.wall_time
    views = [DeviceView(device, readings, positions[id(readings.shape)], now) for device, readings in device_readings]
    summaries = _model_summaries(views)
    for view in views:
        yield DeviceView(view.device, view.readings, view.positions, now, summaries[_model_key(view.device)])


def _label_positions(shape: Shape, metrics: Collection[str]) -> Positions:
    positions: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for (metric, label), position in shape.indices.items():
        if metric in metrics:
            positions[metric].append((label, position))
    return {metric: tuple(labels) for metric, labels in positions.items()}


def _model_key(device: MergedDevice) -> tuple[str, str]:
    return device.vendor, device.current_model or device.model


def _model_summaries(views: list[DeviceView]) -> Mapping[tuple[str, str], ModelSummary]:
    up_link_counts: dict[tuple[str, str], list[int]] = defaultdict(list)
    has_turning_fan: dict[tuple[str, str], bool] = defaultdict(bool)
    for view in views:
        model = _model_key(view.device)
        has_turning_fan[model] |= bool(view.number("fan_ratio"))
        if view.numbers_by_label("link_up"):
            up_link_counts[model].append(len(view.active_labels("link_up")))
    return {model: ModelSummary(tuple(up_link_counts[model]), has_fan) for model, has_fan in has_turning_fan.items()}


# Returns the words of the conditions that a device has.
Detector = Callable[[DeviceView], list[str]]
TEMPERATURES = (
    "temperature_celsius",
    "temperature_margin_celsius",
    "temperature_slowdown_celsius",
    "temperature_critical_celsius",
    "temperature_shutdown_celsius",
)
_is_inner_sensor = re.compile(pattern("inner_sensors")).fullmatch
# Alerts start and end later than events, because Prometheus must first scrape the event and then evaluate the alert.
_ALERT_DELAY_SECONDS = 120.0
# Each of these metrics proves that the device was read. A limit or a size does not.
PROOF_OF_READING = ("temperature_celsius", "power_watts", "memory_used_bytes", "memory_used_ratio", "utilization_ratio")
EVENTS = ("event_open", "event_last_timestamp_seconds")
_LINK_DOWN_CODE, _GPU_LOST_CODE = "link_down", "gpu_lost"


def detect_lost(view: DeviceView) -> list[str]:
    """Return `lost` if the driver no longer lists the device."""
    return ["lost"] if view.device.up is False else []


def detect_unknown(view: DeviceView) -> list[str]:
    """Return `unknown` if the device's presence is unknown, or no reading proves that the device was read."""
    if view.device.up is False or detect_asleep(view):
        return []
    was_read = view.device.up and any(view.numbers_by_label(metric) for metric in PROOF_OF_READING)
    return [] if was_read else ["unknown"]


def detect_asleep(view: DeviceView) -> list[str]:
    """Return `asleep` if the device is suspended. Suspended devices are not read."""
    return ["asleep"] if view.number("suspended") == 1.0 else []


def detect_recovery_action(view: DeviceView) -> list[str]:
    """Return the recovery action that the driver requests."""
    return [f"needs {action.replace('_', ' ')}" for action in view.active_labels("recovery_action") if action != "none"]


def health_detector(*states: str) -> Detector:
    """Return a detector that returns the device's active health states if they are in `states`."""
    return lambda view: [state for state in view.active_labels("health") if state in states]


def detect_unknown_health(view: DeviceView) -> list[str]:
    """Return `health unknown` if the device reports that its health is unknown."""
    return ["health unknown"] if "unknown" in view.active_labels("health") else []


def flag_detector(metric: str, word: str) -> Detector:
    """Return a detector that returns `word` if the metric is 1."""
    return lambda view: [word] if view.number(metric) == 1.0 else []


def detect_uncorrected_errors(view: DeviceView) -> list[str]:
    """Return `uncorrected errors` if the memory has had uncorrected errors."""
    return ["uncorrected errors"] if any(view.numbers_by_label("ecc_uncorrected_total").values()) else []


def detect_error_storm(view: DeviceView) -> list[str]:
    """Return `ECC error storm` if the number of corrected memory errors exceeds a threshold."""
    errors = view.numbers_by_label("ecc_corrected_total")
    in_sram = sum(count for location, count in errors.items() if location.startswith("sram"))
    is_storm = sum(errors.values()) > threshold("ecc_corrected") or in_sram > threshold("ecc_corrected_sram")
    return ["ECC error storm"] if is_storm else []


def detect_worn_memory(view: DeviceView) -> list[str]:
    """Return `memory wearing out` if many pages or rows are out of use."""
    pages, rows = (sum(view.numbers_by_label(metric).values()) for metric in ("retired_pages", "remapped_rows"))
    return ["memory wearing out"] if pages > threshold("retired_pages") or rows >= threshold("remapped_rows") else []


def detect_critical_events(view: DeviceView) -> list[str]:
    """Return the codes of open Xids that end jobs."""
    return [code for code in view.active_labels("event_open") if _matches("xid_critical", code)]


def detect_lasting_events(view: DeviceView) -> list[str]:
    """Return the codes of open events other than Xids. Events with an alert of their own are omitted."""
    codes = (code for code in view.active_labels("event_open") if not code.startswith("xid_"))
    return [code for code in codes if not _matches("own_alert", code)]


def detect_recent_events(view: DeviceView) -> list[str]:
    """Return the codes of minor Xids and `gpu_lost` for as long as their alert fires."""
    alert_seconds = seconds("event_window") + _ALERT_DELAY_SECONDS
    codes = (code for code in view.active_labels("event_open") if code.startswith("xid_") or code == _GPU_LOST_CODE)
    minor_codes = (code for code in codes if not (_matches("xid_critical", code) or _matches("xid_application", code)))
    return [code for code in minor_codes if _seconds_since(view, code) < alert_seconds]


def detect_application_events(view: DeviceView) -> list[str]:
    """Return the codes of recent Xids that applications cause."""
    codes = (code for code in view.active_labels("event_open") if _matches("xid_application", code))
    return [code for code in codes if _seconds_since(view, code) < seconds("application_window")]


def _seconds_since(view: DeviceView, code: str) -> float:
    return view.now - view.numbers_by_label("event_last_timestamp_seconds").get(code, view.now)


def detect_links_down(view: DeviceView) -> list[str]:
    """Return a text such as `2 links down` if fewer links than usual are up, or after a link-down event."""
    link_count, up_count = len(view.numbers_by_label("link_up")), len(view.active_labels("link_up"))
    has_event = _LINK_DOWN_CODE in view.active_labels("event_open")
    if link_count > up_count and (has_event or up_count < view.model.usual_up_links):
        return [_links_down_text(link_count - up_count)]
    return ["links down"] if has_event else []


def detect_unconnected_links(view: DeviceView) -> list[str]:
    """Return a text such as `2 links down` if some links are down, but as many links as usual are up."""
    down_count = len(view.numbers_by_label("link_up")) - len(view.active_labels("link_up"))
    is_any_up = any(view.model.up_link_counts)
    return [_links_down_text(down_count)] if down_count > 0 and is_any_up and not detect_links_down(view) else []


def _links_down_text(count: int) -> str:
    return f"{count} link{'s' * (count > 1)} down"


def throttling_detector(pattern_name: str, word: str) -> Detector:
    """Return a detector that returns `word` if an active throttling reason matches the named pattern."""
    matches_reason = re.compile(pattern(pattern_name)).fullmatch
    return lambda view: [word] if any(map(matches_reason, view.active_labels("throttled"))) else []


def detect_narrow_pcie_link(view: DeviceView) -> list[str]:
    """Return a text such as `PCIe x8 of x16` if the link could have more lanes."""
    # The generation is not compared, because a low generation is normal for an idle card.
    width, max_width = view.number("pcie_link_width"), view.number("pcie_link_width_max")
    return [f"PCIe x{width:.0f} of x{max_width:.0f}"] if width and max_width and width < max_width else []


def detect_stopped_fan(view: DeviceView) -> list[str]:
    """Return `fan stopped` if a hot device's fan has stopped, but a fan of another device of the model turns."""
    is_hot = (_main_temperature(view) or 0.0) > threshold("fan_stopped_celsius")
    return ["fan stopped"] if view.number("fan_ratio") == 0.0 and is_hot and view.model.has_turning_fan else []


def detect_power_cap(view: DeviceView) -> list[str]:
    """Return `at power cap` if the power reaches the limit, or the device reports that the limit slows it down."""
    power, cap = view.number("power_watts"), view.number("power_cap_watts")
    is_at_cap = power is not None and cap and power >= threshold("at_cap_ratio") * cap
    return ["at power cap"] if is_at_cap or _detect_reported_cap(view) else []


_detect_reported_cap = throttling_detector("cap_reasons", "at power cap")


def _matches(threshold_name: str, code: str) -> bool:
    return re.fullmatch(pattern(threshold_name), code) is not None


_CURRENT, _MARGIN, _SLOWDOWN, _CRITICAL, _SHUTDOWN = TEMPERATURES


class _Distance(NamedTuple):
    """The distance of a temperature from its limit. It is negative if the temperature exceeds the limit."""

    degrees: float
    limit_text: str


def detect_critical_temperature(view: DeviceView) -> list[str]:
    """Return a text such as `critical 95 °C` if a sensor has reached its critical temperature."""
    reported_limits = view.numbers_by_label(_SHUTDOWN) | view.numbers_by_label(_CRITICAL)
    slowdown_limits = view.numbers_by_label(_SLOWDOWN)
    for sensor, degrees in _temperatures_hottest_first(view):
        limit = _critical_limit(sensor, degrees, reported_limits, slowdown_limits)
        if limit is not None and degrees >= limit:
            return [("" if is_main_sensor(sensor) else f"{sensor} ") + f"critical {celsius(limit)}"]
    return []


def _temperatures_hottest_first(view: DeviceView) -> list[tuple[str, float]]:
    return sorted(view.numbers_by_label(_CURRENT).items(), key=lambda item: -item[1])


def _critical_limit(
    sensor: str, degrees: float, reported: dict[str, float], slowdown: dict[str, float]
) -> float | None:
    if sensor in reported:
        return reported[sensor]
    # Boards have no common limit. A temperature below the slowdown temperature is not critical.
    if sensor.startswith(BOARD_SENSORS) or degrees < slowdown.get(sensor, degrees):
        return None
    return threshold("critical_junction_celsius" if _is_inner_sensor(sensor) else "critical_celsius")


def detect_over_limit(view: DeviceView) -> list[str]:
    """Return a text such as `over 90 °C` if the device is hotter than its limit."""
    distance = _smallest_distance(view)
    return [f"over {distance.limit_text}"] if distance is not None and distance.degrees < 0 else []


def detect_near_limit(view: DeviceView) -> list[str]:
    """Return a text such as `near 90 °C` if the device is close to its limit."""
    distance, margin = _smallest_distance(view), threshold("limit_margin_celsius")
    return [f"near {distance.limit_text}"] if distance is not None and 0 <= distance.degrees < margin else []


def detect_over_common_limit(view: DeviceView) -> list[str]:
    """Return a text such as `over 90 °C` if a device without a limit exceeds the common limit."""
    if _smallest_distance(view) is not None:
        return []
    limits = ((degrees, _common_limit(sensor)) for sensor, degrees in _temperatures_hottest_first(view))
    return [f"over {celsius(limit)}" for degrees, limit in limits if limit is not None and degrees > limit][:1]


def _common_limit(sensor: str) -> float | None:
    if _is_inner_sensor(sensor):
        return threshold("hot_junction_celsius")
    return None if sensor.startswith(OTHER_SENSORS) else threshold("hot_celsius")


def _main_temperature(view: DeviceView) -> float | None:
    temperatures = view.numbers_by_label(_CURRENT).items()
    return max((degrees for sensor, degrees in temperatures if is_main_sensor(sensor)), default=None)


def _smallest_distance(view: DeviceView) -> _Distance | None:
    """Return the smallest distance of a main sensor, or None if the device reports no limit for these sensors."""
    reported_margin = view.number(_MARGIN)
    if reported_margin is not None:
        return _Distance(reported_margin, "its limit") if _main_temperature(view) is not None else None
    limits = view.numbers_by_label(_SHUTDOWN) | view.numbers_by_label(_CRITICAL) | view.numbers_by_label(_SLOWDOWN)
    distances = [
        _Distance(limits[sensor] - degrees, celsius(limits[sensor]))
        for sensor, degrees in view.numbers_by_label(_CURRENT).items()
        if sensor in limits and is_main_sensor(sensor)
    ]
    return min(distances, default=None)
