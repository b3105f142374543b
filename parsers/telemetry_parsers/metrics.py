"""The metric catalogue: the name, kind, unit, label, help and plausible range of every metric."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from types import MappingProxyType
from typing import NamedTuple

from telemetry_parsers import sentinels
from telemetry_parsers.card_peaks import DTYPES
from telemetry_parsers.model import REASONS, STATES, Absent, Kind, Metric, Reading, Value

_SENSORS = ("core", "edge", "junction", "memory", "hotspot", "soc", "board")
RAILS = ("graphics", "core", "soc", "memory", "board")
_DOMAINS = ("graphics", "sm", "memory", "video", "soc", "fabric")
_ENGINES = ("encoder", "decoder", "jpeg", "optical_flow", "copy", "aicore", "aicpu", "ctrlcpu", "vector", "cube", "npu")
# NVIDIA's names of tensor pipes: HMMA for 16-bit formats and TF32, DFMA for double precision, IMMA for integers.
PIPES = ("fp64", "fp32", "fp16", "int", "tensor_dfma", "tensor_hmma", "tensor_imma")
_MARGIN_LIMITS = ("slowdown", "shutdown", "memory", "operation")
HEALTH_STATES = ("ok", "warning", "alarm", "critical", "unknown")
RECOVERY_ACTIONS = ("none", "reset", "reboot", "drain", "drain_and_reset", "bus_reset", "recover_imex_domain")
PERFORMANCE_LEVELS = ("auto", "low", "high", "manual", "determinism", "profile", "unknown")
# Sensors whose names begin with these words do not measure the device's main temperature.
MEMORY_SENSORS = ("memory", "hbm", "stack")
BOARD_SENSORS = ("board", "baseboard", "ubb", "vr", "lm75", "inlet", "outlet", "optical")
OTHER_SENSORS = MEMORY_SENSORS + BOARD_SENSORS

_PETABYTE = 1e15
_CENTURY_SECONDS = 4e9


def _device_metric(
    name: str,
    unit: str,
    help: str,
    low: float = 0.0,
    high: float = math.inf,
    label: str = "",
    words: tuple[str, ...] = (),
    *,
    core: bool = False,
    card_level: bool = False,
) -> Metric:
    return Metric("accelerator_" + name, "gauge", unit, help, low, high, label, words, "device", core, card_level)


def _device_counter(
    name: str, unit: str, help: str, label: str = "", high: float = sentinels.MAX_COUNT, *, card_level: bool = False
) -> Metric:
    return Metric("accelerator_" + name, "counter", unit, help, 0.0, high, label, card_level=card_level)


def _daemon_metric(
    name: str,
    unit: str,
    help: str,
    kind: Kind = "gauge",
    high: float = math.inf,
    words: tuple[str, ...] = (),
    low: float = 0.0,
) -> Metric:
    return Metric("telemetry_" + name, kind, unit, help, low, high, words=words, scope="daemon")


def _owner_metric(name: str, kind: Kind, unit: str, help: str, high: float = math.inf) -> Metric:
    return Metric("accelerator_" + name, kind, unit, help, 0.0, high, scope="owner")


def _host_metric(name: str, unit: str, help: str, high: float = math.inf) -> Metric:
    return Metric("telemetry_host_" + name, "gauge", unit, help, 0.0, high, scope="host")


# Each metric is on one line.
# fmt: off
_CORE = (
    Metric("accelerator_info", "info", "", "Constant 1. The labels are the identity and rarely changing properties of a device. Join with on (cluster, job, instance, id).", 1, 1, core=True),
    _device_metric("up", "", "1 if a source reports the device, 0 if the device is lost. Missing if the presence is unknown.", 0, 1, core=True),
    _device_metric("unread", "", "1 if the device's sources fail, so that its presence is unknown.", 1, 1),
    _device_metric("temperature_celsius", "celsius", "Temperature at a sensor.", 0, 200, "sensor", _SENSORS, core=True),
    _device_metric("power_watts", "watts", "Power draw. The label power_kind of accelerator_info shows which kind of power the vendor reports.", 0, 20_000, core=True, card_level=True),
    _device_metric("power_cap_watts", "watts", "Current power limit.", 0, 20_000, core=True, card_level=True),
    _device_metric("memory_used_bytes", "bytes", "Device memory in use.", 0, _PETABYTE, core=True),
    _device_metric("memory_total_bytes", "bytes", "Total device memory.", 1, _PETABYTE, core=True),
    _device_metric("memory_used_ratio", "ratio", "Used device memory as a share of the total (0-1).", 0, 1, core=True),
    _device_metric("utilization_ratio", "ratio", "Share of time in which the device was computing (0-1), as the vendor counts it.", 0, 1, core=True),
)
_POWER = (
    _device_metric("power_average_watts", "watts", "Average power over the device's own averaging period.", 0, 20_000, card_level=True),
    _device_metric("power_instant_watts", "watts", "Instantaneous power.", 0, 20_000, card_level=True),
    _device_metric("power_module_watts", "watts", "Power of the module that contains the device and a CPU. All devices of a module report the same value.", 0, 20_000, card_level=True),
    _device_metric("power_memory_watts", "watts", "Power of the device's memory. Included in the device's power.", 0, 20_000, card_level=True),
    _device_metric("power_card_watts", "watts", "Power of the whole card, if it contains several devices. All devices of a card report the same value.", 0, 20_000, card_level=True),
    _device_metric("power_cap_default_watts", "watts", "Default power limit.", 0, 20_000, card_level=True),
    _device_metric("power_cap_min_watts", "watts", "Lowest power limit that can be set.", 0, 20_000, card_level=True),
    _device_metric("power_cap_max_watts", "watts", "Highest power limit that can be set.", 0, 20_000, card_level=True),
    _device_counter("energy_joules_total", "joules", "Energy used, as counted by the card.", card_level=True),
    _device_counter("energy_estimated_joules_total", "joules", "Energy used since the daemon started, estimated from power readings.", card_level=True),
    _device_counter("busy_seconds_total", "seconds", "Busy time since the daemon started: the integral of the utilization. The rate is the exact average utilization."),
    _device_metric("voltage_volts", "volts", "Voltage of a supply rail.", 0, 100, "rail", RAILS),
)
_TEMPERATURE = (
    _device_metric("temperature_slowdown_celsius", "celsius", "Temperature at which the device slows down.", 1, 250, "sensor", _SENSORS),
    _device_metric("temperature_shutdown_celsius", "celsius", "Temperature at which the device switches off.", 1, 250, "sensor", _SENSORS),
    _device_metric("temperature_critical_celsius", "celsius", "Temperature that the vendor calls critical.", 1, 250, "sensor", _SENSORS),
    _device_metric("temperature_margin_celsius", "celsius", "Degrees left before the device slows down.", -200, 200),
    _device_metric("temperature_margin_limit_celsius", "celsius", "Margin (temperature_margin_celsius) at which the device slows down, shuts down or leaves its operating range. Often negative.", -200, 200, "limit", _MARGIN_LIMITS),
    _device_metric("fan_ratio", "ratio", "Fan speed as a share of its maximum (0-1). Some fans exceed 1.", 0, 2, card_level=True),
    _device_metric("fan_rpm", "", "Revolutions per minute of the fastest fan.", 0, 60_000, card_level=True),
)
_MEMORY = (
    _device_metric("memory_free_bytes", "bytes", "Free device memory.", 0, _PETABYTE),
    _device_metric("memory_processes_bytes", "bytes", "Host memory that processes use on a device without its own memory (memory_kind unified). Included in the host's used memory.", 0, _PETABYTE),
    _device_metric("memory_reserved_bytes", "bytes", "Device memory that is reserved for the driver and the firmware.", 0, _PETABYTE),
    _device_metric("memory_gtt_used_bytes", "bytes", "Host memory in use as device memory (GTT, shared memory of an APU).", 0, _PETABYTE),
    _device_metric("memory_gtt_total_bytes", "bytes", "Host memory that can be used as device memory (GTT, shared memory of an APU).", 0, _PETABYTE),
    _device_metric("bar1_used_bytes", "bytes", "Device memory mapped for the host and other devices (BAR1).", 0, _PETABYTE, card_level=True),
    _device_metric("bar1_total_bytes", "bytes", "Device memory that can be mapped for the host and other devices (BAR1).", 1, _PETABYTE, card_level=True),
    _device_metric("memory_activity_ratio", "ratio", "Share of time in which device memory was read or written (0-1).", 0, 1),
    _device_metric("memory_bandwidth_ratio", "ratio", "Memory bandwidth in use as a share of the maximum (0-1).", 0, 1),
)
_ACTIVITY = (
    _device_metric("engine_utilization_ratio", "ratio", "Utilization of an engine (0-1). The highest value if a device has several engines of a kind.", 0, 1, "engine", _ENGINES),
    _device_metric("graphics_active_ratio", "ratio", "Share of time in which any compute or graphics work ran (0-1).", 0, 1),
    _device_metric("sm_active_ratio", "ratio", "Share of time in which a multiprocessor had at least one warp (0-1). Average of all multiprocessors.", 0, 1),
    _device_metric("sm_occupancy_ratio", "ratio", "Resident warps as a share of the maximum (0-1).", 0, 1),
    _device_metric("tensor_active_ratio", "ratio", "Share of time in which the tensor units worked (0-1).", 0, 1),
    _device_metric("pipe_active_ratio", "ratio", "Share of time in which this kind of arithmetic unit worked (0-1).", 0, 1, "pipe", PIPES),
)
# The merge adds peak rates from a table of models or from the configuration (merge/peaks.py).
_PEAKS = (
    _device_metric("peak_flops", "", "Peak rate of dense operations per second at the quoted clock. The label peak_origin of accelerator_info names the source.", 1, 1e20, "dtype", DTYPES),
    _device_metric("flops_per_cycle", "", "Dense operations per cycle of the whole device. Multiply by the current clock for the current peak rate.", 1, 1e12, "dtype", DTYPES),
    _device_metric("peak_memory_bytes_per_second", "", "Peak memory bandwidth in bytes per second.", 1, 1e16),
)
_CLOCKS = (
    _device_metric("clock_hertz", "hertz", "Clock of a domain.", 0, 5e10, "domain", _DOMAINS),
    _device_metric("clock_max_hertz", "hertz", "Highest clock of a domain.", 1, 5e10, "domain", _DOMAINS),
    _device_metric("throttled", "", "1 while the clocks are throttled for this reason.", 0, 1, "reason"),
    _device_counter("throttled_seconds_total", "seconds", "Seconds for which the clocks were throttled, as the device counts them.", "reason", _CENTURY_SECONDS),
    _device_metric("performance_state", "", "Performance state (P-number); 0 is the fastest.", 0, 31),
    _device_metric("performance_level", "", "1 for the current performance level.", 0, 1, "level", PERFORMANCE_LEVELS),
)
_PCIE = (
    _device_metric("pcie_link_generation", "", "Current PCIe generation of the link.", 1, 10, card_level=True),
    _device_metric("pcie_link_width", "", "Current number of PCIe lanes of the link.", 1, 64, card_level=True),
    _device_metric("pcie_link_generation_max", "", "Highest PCIe generation of the link.", 1, 10, card_level=True),
    _device_metric("pcie_link_width_max", "", "Maximum number of PCIe lanes of the link.", 1, 64, card_level=True),
    _device_counter("pcie_replays_total", "", "PCIe packets that were retransmitted.", card_level=True),
    _device_counter("pcie_errors_total", "", "Errors on the PCIe link by kind. Sums are meaningless, because an error may count as several kinds.", "kind", card_level=True),
    _device_counter("pcie_receive_bytes_total", "bytes", "Bytes received over PCIe.", card_level=True),
    _device_counter("pcie_transmit_bytes_total", "bytes", "Bytes sent over PCIe.", card_level=True),
    _device_metric("pcie_receive_bytes_per_second", "", "Bytes received over PCIe per second, as last measured by the device.", 0, 1e12, card_level=True),
    _device_metric("pcie_transmit_bytes_per_second", "", "Bytes sent over PCIe per second, as last measured by the device.", 0, 1e12, card_level=True),
    _device_metric("pcie_bandwidth_bytes_per_second", "", "Bytes sent and received over PCIe per second. Reported if the device measures only their sum.", 0, 1e12, card_level=True),
)
_LINKS = (
    _device_metric("link_up", "", "1 while the link between devices is up.", 0, 1, "link"),
    _device_counter("link_receive_bytes_total", "bytes", "Bytes received over a link between devices.", "link"),
    _device_counter("link_transmit_bytes_total", "bytes", "Bytes sent over a link between devices.", "link"),
    _device_counter("link_crc_errors_total", "", "Checksum errors of a link between devices.", "link"),
    _device_counter("link_replay_errors_total", "", "Packets retransmitted over a link between devices.", "link"),
    _device_counter("link_receive_errors_total", "", "Packets with errors received over a link between devices.", "link"),
    _device_counter("link_transmit_errors_total", "", "Packets with errors sent over a link between devices.", "link"),
    _device_counter("link_recovery_errors_total", "", "Recoveries of a link between devices.", "link"),
)
_FAULTS = (
    _device_metric("ecc_enabled", "", "1 while error correction is on.", 0, 1),
    _device_counter("ecc_corrected_total", "", "Corrected memory errors since the driver was loaded.", "location"),
    _device_counter("ecc_uncorrected_total", "", "Uncorrected memory errors since the driver was loaded.", "location"),
    _device_counter("ecc_corrected_lifetime_total", "", "Corrected memory errors in the lifetime of the device.", "location"),
    _device_counter("ecc_uncorrected_lifetime_total", "", "Uncorrected memory errors in the lifetime of the device.", "location"),
    _device_counter("ecc_deferred_total", "", "Deferred memory errors since the driver was loaded. An error is deferred if nothing has used the data yet.", "location"),
    _device_metric("retired_pages", "", "Retired memory pages.", 0, 1e7, "cause"),
    _device_metric("retired_pages_pending", "", "1 if a memory page will be retired at the next restart.", 0, 1),
    _device_metric("remapped_rows", "", "Memory rows that were replaced with spare rows.", 0, 1e7, "cause"),
    _device_metric("row_remap_pending", "", "1 if a memory row will be replaced at the next reset.", 0, 1),
    _device_metric("row_remap_failed", "", "1 if a memory row could not be replaced.", 0, 1),
    _device_counter("events_total", "", "Events of a device by code, counted since the daemon started.", "code"),
    _device_metric("event_last_timestamp_seconds", "seconds", "Unix time of the last event with this code.", 0, _CENTURY_SECONDS, "code"),
    _device_metric("event_open", "", "1 after an event until the device is reset, its driver is reloaded, the node is rebooted or telemetry forget is run. For an error code: 1 while the tool reports it.", 1, 1, "code"),
    _device_metric("event_watch", "", "1 if the driver reports the device's events as they occur. If 0, events may be missing.", 0, 1, card_level=True),
    _device_metric("health", "", "1 for the health state that the device reports.", 0, 1, "state", HEALTH_STATES),
    _device_metric("recovery_action", "", "1 for the action that the driver recommends.", 0, 1, "action", RECOVERY_ACTIONS),
    _device_metric("suspended", "", "1 while the device is suspended and not polled.", 0, 1),
    _device_metric("compute_units", "", "Compute units or multiprocessors.", 1, 1e6),
    _device_metric("processes", "", "Processes that use the device.", 0, 1e7),
    Metric("accelerator_rank_info", "info", "", "Constant 1. The label rank is the rank that runs on the device, from the job's rank table or a process's environment. The label server is the server's position or id in the rank table.", 1, 1, "rank"),
)
# Partitions have no series of owners, because the card's values include those of its partitions.
_OWNERS = (
    _owner_metric("allocation_ratio", "gauge", "ratio", "An owner's share of a card (0-1). The shares of a card add up to at most 1. Multiply a card's readings by the shares to split them among its owners.", 1),
    _owner_metric("allocation_seconds_total", "counter", "seconds", "Time for which an owner had a card, multiplied by the owner's share."),
    _owner_metric("allocation_busy_seconds_total", "counter", "seconds", "Time for which a card was computing while an owner had it, multiplied by the owner's share."),
    _owner_metric("allocation_energy_joules_total", "counter", "joules", "Energy that a card used while an owner had it, multiplied by the owner's share. Estimated from the power if the card has no energy counter."),
    _owner_metric("allocation_memory_used_bytes", "gauge", "bytes", "Device memory that the owner's processes use.", _PETABYTE),
    _device_metric("foreign_memory_bytes", "bytes", "Memory that processes of other owners use on an allocated device.", 0, _PETABYTE),
    _owner_metric("process_memory_bytes", "gauge", "bytes", "Device memory of a process. The 16 largest processes of a device have their own series. The others share a series.", _PETABYTE),
)
_HOST = (
    _host_metric("cpu_utilization_ratio", "ratio", "Share of CPU time that the host was busy since the previous poll (0-1).", 1),
    _host_metric("memory_used_bytes", "bytes", "Host memory that is not available to new programs.", _PETABYTE),
    _host_metric("memory_total_bytes", "bytes", "Total host memory.", _PETABYTE),
    _host_metric("load1", "", "Load average over one minute.", 1e7),
    _host_metric("load5", "", "Load average over five minutes.", 1e7),
    _host_metric("load15", "", "Load average over fifteen minutes.", 1e7),
    _host_metric("uptime_seconds", "seconds", "Seconds since the host was started.", _CENTURY_SECONDS),
)
_DAEMON = (
    _daemon_metric("build_info", "", "Constant 1. The labels are the versions of the daemon and of Python.", "info"),
    _daemon_metric("source_up", "", "1 if the last attempts of the source's fast and device-listing polls succeeded and their results have not expired.", high=1),
    _daemon_metric("source_poll_up", "", "1 if the last attempt of this poll succeeded and its result has not expired.", high=1),
    _daemon_metric("source_state", "", "1 for the state that the source is in.", high=1, words=STATES),
    _daemon_metric("source_info", "", "Constant 1. The label version is the version of the source's tool or library.", "info"),
    _daemon_metric("source_duration_seconds", "seconds", "Duration of the last attempt of a poll."),
    _daemon_metric("source_cpu_seconds_total", "seconds", "CPU time spent on a source, including child processes.", "counter"),
    _daemon_metric("source_last_success_timestamp_seconds", "seconds", "Unix time of the last success of a poll."),
    _daemon_metric("source_failures_total", "", "Failed attempts of a poll by reason.", "counter", words=REASONS),
    _daemon_metric("source_overruns_total", "", "Polls that were still running when they were due again.", "counter"),
    _daemon_metric("source_problems", "", "Problems in the source's newest outputs."),
    _daemon_metric("source_unknown_fields", "", "Unknown fields in the source's newest outputs."),
    _daemon_metric("plugin_load_failures", "", "1 for a plugin that could not be loaded.", high=1),
    _daemon_metric("devices", "", "Whole devices that are up, by vendor and model."),
    _daemon_metric("devices_refused", "", "Devices that were ignored or forgotten because the source reported too many."),
    _daemon_metric("devices_expected", "", "Devices that the configuration expects, by vendor."),
    _daemon_metric("pci_devices", "", "Accelerators on the PCI bus, by vendor."),
    _daemon_metric("compat_up", "", "1 if metrics under another exporter's names are served at the configured address.", high=1),
    _daemon_metric("config_last_reload_successful", "", "1 if the configuration had no error when it was last read.", high=1),
    _daemon_metric("remembers_since_timestamp_seconds", "seconds", "Unix time at which the daemon began to record the node's devices. Changes if the state directory is lost. 0 if an earlier version of the daemon created the state."),
    _daemon_metric("time_seconds", "seconds", "Unix time of the node's clock at the scrape. Only on /metrics."),
    _daemon_metric("maintenance", "", "1 during a maintenance that an operator announced.", high=1),
    _daemon_metric("claims_unresolved", "", "Names of allocated devices, by source, that match no device of the node or more than one."),
    _daemon_metric("steps_total", "", "Training steps that a rank of a job has completed, as the job counts them.", "counter"),
    _daemon_metric("steps_tokens_total", "", "Tokens, samples or other items that a rank has worked through, as the job counts them.", "counter"),
    _daemon_metric("steps_flops_total", "", "Floating-point operations of a rank's steps, as the job counts them.", "counter"),
    _daemon_metric("steps_seconds_total", "seconds", "Time that a rank spent in each part of its steps, as the job measures it.", "counter"),
    _daemon_metric("maintenance_ends_in_seconds", "seconds", "Seconds until the announced end of the maintenance. Negative after the end, for one day.", low=-math.inf),
)
# fmt: on

# Maps each of the daemon's own metrics to its labels, in order.
OWN_LABELS = MappingProxyType(
    {
        "telemetry_build_info": ("version", "python"),
        "telemetry_source_up": ("source",),
        "telemetry_source_poll_up": ("source", "poll"),
        "telemetry_source_state": ("source", "state"),
        "telemetry_source_info": ("source", "version"),
        "telemetry_source_duration_seconds": ("source", "poll"),
        "telemetry_source_cpu_seconds_total": ("source",),
        "telemetry_source_last_success_timestamp_seconds": ("source", "poll"),
        "telemetry_source_failures_total": ("source", "poll", "reason"),
        "telemetry_source_overruns_total": ("source", "poll"),
        "telemetry_source_problems": ("source",),
        "telemetry_source_unknown_fields": ("source",),
        "telemetry_plugin_load_failures": ("plugin",),
        "telemetry_devices": ("vendor", "model"),
        "telemetry_devices_refused": ("source",),
        "telemetry_devices_expected": ("vendor",),
        "telemetry_pci_devices": ("vendor",),
        "telemetry_compat_up": ("exporter",),
        "telemetry_config_last_reload_successful": (),
        "telemetry_remembers_since_timestamp_seconds": (),
        "telemetry_time_seconds": (),
        "telemetry_maintenance": (),
        "telemetry_maintenance_ends_in_seconds": (),
        "telemetry_claims_unresolved": ("source",),
        "telemetry_steps_total": ("id", "job_id", "rank"),
        "telemetry_steps_tokens_total": ("id", "job_id", "rank"),
        "telemetry_steps_flops_total": ("id", "job_id", "rank"),
        "telemetry_steps_seconds_total": ("id", "job_id", "rank", "part"),
    }
)

_OWNER_IDENTITY = (
    "owner_kind", "owner", "pod_namespace", "pod_name", "container_name", "job_id", "user", "account", "partition",
)  # fmt: skip
# Maps each metric of scope `owner` to the labels that follow those of the device.
OWNER_LABELS = MappingProxyType(
    {
        **{metric.name: _OWNER_IDENTITY for metric in _OWNERS if metric.scope == "owner"},
        "accelerator_allocation_ratio": (*_OWNER_IDENTITY, "basis"),
        "accelerator_process_memory_bytes": ("pid", "name", "user"),
    }
)

CATALOGUE: tuple[Metric, ...] = (
    *_CORE, *_POWER, *_TEMPERATURE, *_MEMORY, *_ACTIVITY, *_PEAKS, *_CLOCKS, *_PCIE, *_LINKS, *_FAULTS, *_OWNERS,
    *_HOST, *_DAEMON,
)  # fmt: skip
BY_NAME = MappingProxyType({metric.name: metric for metric in CATALOGUE})
BY_KEY = MappingProxyType({metric.key: metric for metric in CATALOGUE})
CORE_KEYS = frozenset(metric.key for metric in CATALOGUE if metric.core)


class Limits(NamedTuple):
    """The lowest and the highest valid number of a metric, and its sentinels."""

    low: float
    high: float
    sentinels: frozenset[float]


def limits(metric: Metric, vendor: str = "") -> Limits:
    """Return the limits of a metric, combined with the vendor's own limits in sentinels.py."""
    vendor_limits = sentinels.LIMITS_BY_VENDOR.get((vendor, metric.key), sentinels.VendorLimits(metric.low))
    return Limits(
        max(vendor_limits.low, -sys.float_info.max),
        min(metric.high, sys.float_info.max),
        frozenset(
            {
                *vendor_limits.sentinels,
                *sentinels.BY_UNIT.get(metric.unit, ()),
                *sentinels.BY_METRIC.get(metric.key, ()),
            }
        ),
    )


_LIMITS = {metric.key: limits(metric) for metric in CATALOGUE}
_LIMITS_BY_VENDOR = {
    vendor: _LIMITS | {key: limits(BY_KEY[key], vendor) for name, key in sentinels.LIMITS_BY_VENDOR if name == vendor}
    for vendor, _ in sentinels.LIMITS_BY_VENDOR
}


def in_range(metric: Metric, value: Value, vendor: str = "") -> Value:
    """Return the value, or `implausible` if it is NaN, outside the metric's range, or a sentinel."""
    is_in_catalogue = BY_KEY.get(metric.key) is metric
    return checked_value(
        _LIMITS_BY_VENDOR.get(vendor, _LIMITS)[metric.key] if is_in_catalogue else limits(metric, vendor), value
    )


def reading(device: int | None, key: str, value: Value, label: str = "", vendor: str = "") -> Reading:
    """Return a reading. Its value is `implausible` if it is outside the metric's limits."""
    return Reading(device, key, checked_value(_LIMITS_BY_VENDOR.get(vendor, _LIMITS)[key], value), label)


def checked_value(metric_limits: Limits, value: Value) -> Value:
    """Return the value, or `Absent.IMPLAUSIBLE` if it is a sentinel or a number outside the limits."""
    if isinstance(value, Absent):
        return value
    low, high, sentinel_values = metric_limits
    # Comparisons with NaN are false. Adding 0.0 converts -0.0 to 0.0, and an int to a float.
    return value + 0.0 if low <= value <= high and value not in sentinel_values else Absent.IMPLAUSIBLE


def state_readings(
    device: int | None, key: str, active_word: str, supported: Iterable[str] = ()
) -> tuple[Reading, ...]:
    """Return a reading for each supported word: 1 for `active_word`, 0 for the others."""
    words = tuple(supported) or BY_KEY[key].words
    return tuple(reading(device, key, 1.0 if word == active_word else 0.0, word) for word in words)


def is_main_sensor(sensor: str) -> bool:
    """Return whether this sensor can measure the device's main temperature. Memory and board sensors cannot."""
    return not sensor.startswith(OTHER_SENSORS)


# Patterns of throttling reasons, as NVIDIA, AMD (amdgpu's gpu_metrics) and MetaX name them.
POWER_LIMIT_REASONS = "sw_power_cap|ppt|power_limit|current_limit|over_power"
VAGUE_REASONS = "hw_slowdown|any|other|pcc"
is_power_limit_reason = re.compile(POWER_LIMIT_REASONS).fullmatch
is_vague_reason = re.compile(VAGUE_REASONS).fullmatch
