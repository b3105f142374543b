"""The conditions of each device of a node, worst first."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterator, Mapping
from functools import partial

from telemetry_exporters.judgement import evidence
from telemetry_exporters.judgement.evidence import Detector, DeviceView, device_views
from telemetry_exporters.judgement.thresholds import seconds, threshold
from telemetry_exporters.text import clean, cut
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Snapshot


class Severity(enum.Enum):
    """The urgency of a condition."""

    GOOD = "good"
    QUIET = "quiet"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that a device or source has."""

    word: str
    severity: Severity
    remedy: str = ""
    meaning: str = ""
    rank: int = 0

    @property
    def urgency(self) -> int:
        """Return a sort key that puts the most urgent conditions first."""
        return self.rank if self.severity in (Severity.BAD, Severity.WARNING) else len(CONDITIONS)

    @property
    def headline(self) -> str:
        """Return the condition's word, or the number and meaning of an Xid."""
        xid = self.word.removeprefix("xid_")
        if xid == self.word:
            return self.word
        return ", ".join(filter(None, (f"Xid {xid}", _XID_MEANINGS.get(xid))))


@dataclass(frozen=True, slots=True)
class Condition:
    """A row of the table of conditions."""

    severity: Severity
    example: str  # a word that `detect` may return
    meaning: str
    metrics: tuple[str, ...]  # the metrics that `detect` reads
    detect: Detector
    remedy: str = ""
    alert: str = ""  # the name of the Prometheus alert with the same condition


_bad = partial(Condition, Severity.BAD)
_warning = partial(Condition, Severity.WARNING)
_quiet = partial(Condition, Severity.QUIET)
_IMPROVE_COOLING = "clean filters and coolers, and check fans and air flow; lower the power limit until then"
_LOOK_UP_CODE = "see `dmesg`, and look up the code in the vendor's table"
# A table with one condition per line, worst first.
# fmt: off
CONDITIONS = (
    _bad("lost", "the driver no longer lists the device", (), evidence.detect_lost, "drain and power-cycle the node, because a reboot often does not bring the device back; if the device was removed, run `telemetry forget {id}`", "AcceleratorLost"),
    _bad("needs reset", "the driver asks for this action", ("recovery_action",), evidence.detect_recovery_action, "take this action after the jobs have ended; before a reset, run `telemetry release`, which closes the device", "AcceleratorRecoveryNeeded"),
    _bad("alarm", "the device reports this health state", ("health",), evidence.health_detector("alarm", "critical"), "look up the error codes in the vendor's tool; a reset usually helps, otherwise replace the device", "AcceleratorUnhealthy"),
    _bad("uncorrected errors", "memory has returned wrong data since the driver was loaded", ("ecc_uncorrected_total",), evidence.detect_uncorrected_errors, "reset the device, so that bad rows are remapped; if the errors return after a reset, replace the device", "AcceleratorUncorrectedErrors"),
    _bad("row remap failed", "a bad memory row could not be replaced", ("row_remap_failed",), evidence.flag_detector("row_remap_failed", "row remap failed"), "replace the device; vendors accept returns for this error", "AcceleratorRowRemapFailed"),
    _bad("xid_79", "this error ends jobs; it is shown until the device is repaired", evidence.EVENTS, evidence.detect_critical_events, f"{_LOOK_UP_CODE}; drain the device, then reset it, reload its driver or power-cycle the node; replace the device if the error returns; run `telemetry forget {{id}}` if the repair does not clear the error", "AcceleratorEventCritical"),
    _bad("critical 110 °C", f"a sensor has reached its critical temperature, or {threshold('critical_celsius')} °C ({threshold('critical_junction_celsius')} °C at the junction) if the device reports none", evidence.TEMPERATURES, evidence.detect_critical_temperature, "stop the jobs on the device, because the device may switch itself off; check the cooling", "AcceleratorTemperatureCritical"),
    _warning("warning", "the device reports this health state", ("health",), evidence.health_detector("warning"), "see the vendor's tool for details"),
    _warning("row remap pending", "bad memory stays in use until a reset", ("row_remap_pending",), evidence.flag_detector("row_remap_pending", "row remap pending"), "end the jobs, run `telemetry release`, and reset the device", "AcceleratorResetNeededForMemory"),
    _warning("pages to retire", "bad memory stays in use until a restart", ("retired_pages_pending",), evidence.flag_detector("retired_pages_pending", "pages to retire"), "end the jobs, run `telemetry release`, and reset the device", "AcceleratorResetNeededForMemory"),
    _warning("ECC error storm", "this many corrected errors often precede uncorrected errors", ("ecc_corrected_total",), evidence.detect_error_storm, "plan a replacement", "AcceleratorCorrectedErrorStorm"),
    _warning("memory wearing out", f"more than {threshold('retired_pages')} memory pages, or at least {threshold('remapped_rows')} memory rows, are out of use", ("retired_pages", "remapped_rows"), evidence.detect_worn_memory, "plan a replacement", "AcceleratorMemoryWearingOut"),
    _warning("error_80e01801", "this event may precede worse events; it is shown while it is open", evidence.EVENTS, evidence.detect_lasting_events, f"{_LOOK_UP_CODE}; watch the device unless the application caused the event", "AcceleratorEvent"),
    _warning("xid_94", f"this event may precede worse events; it is shown for {seconds('event_window') / 60:.0f} min", evidence.EVENTS, evidence.detect_recent_events, f"{_LOOK_UP_CODE}; watch the device unless the application caused the event", "AcceleratorEvent"),
    _warning("2 links down", "the links were up before, or are up on most devices of the model", ("link_up", "event_open"), evidence.detect_links_down, "reseat or replace the bridge, cable or module; a reset of the device brings some links back", "AcceleratorLinkDown"),
    _warning("over 87 °C", "hotter than the limit at which the device slows down", evidence.TEMPERATURES, evidence.detect_over_limit, _IMPROVE_COOLING, "AcceleratorHot"),
    _warning("near 87 °C", f"less than {threshold('limit_margin_celsius')} K below the limit at which the device slows down", evidence.TEMPERATURES, evidence.detect_near_limit, _IMPROVE_COOLING, "AcceleratorHot"),
    _warning("over 85 °C", f"too hot for most devices; the device reports no limit ({threshold('hot_junction_celsius')} °C at the junction)", evidence.TEMPERATURES, evidence.detect_over_common_limit, _IMPROVE_COOLING, "AcceleratorHot"),
    _warning("throttled by heat", "the clocks are held down because of heat", ("throttled",), evidence.throttling_detector("heat_reasons", "throttled by heat"), _IMPROVE_COOLING, "AcceleratorThermalThrottling"),
    _warning("power brake", "the power supply or the board asks the device to slow down", ("throttled",), evidence.throttling_detector("brake_reasons", "power brake"), "check the power supplies of the node; spread the load", "AcceleratorPowerBrake"),
    _warning("fan stopped", f"the device is hotter than {threshold('fan_stopped_celsius')} °C, but its fan does not turn; the fan of another device of this model turns", ("fan_ratio",), evidence.detect_stopped_fan, "replace the fan, or give its control back to the device", "AcceleratorFanStopped"),
    _warning("PCIe x8 of x16", "the PCIe link has fewer lanes than it supports", ("pcie_link_width",), evidence.detect_narrow_pcie_link, "reseat the device; check the slot's setting in the BIOS", "AcceleratorPcieDegraded"),
    _quiet("unknown", "the device's presence is unknown because its source fails, or no reading shows its condition", (), evidence.detect_unknown),
    _quiet("asleep", "the device sleeps, so it is not read", ("suspended",), evidence.detect_asleep),
    _quiet("health unknown", "the device reports that its health is unknown", ("health",), evidence.detect_unknown_health),
    _quiet("xid_13", f"an application caused this event; it is shown for {seconds('application_window') / 60:.0f} min", evidence.EVENTS, evidence.detect_application_events),
    _quiet("2 links down", "other links are up; the links that are down may never have been connected", ("link_up",), evidence.detect_unconnected_links),
    _quiet("throttled", "the clocks are held down for an unknown reason", ("throttled",), evidence.throttling_detector("vague_reasons", "throttled")),
    _quiet("at power cap", "the device draws as much power as its limit allows, which is normal under load", ("power_watts", "throttled"), evidence.detect_power_cap),
)
# NVIDIA's Xid codes that operators are likely to see.
_XID_MEANINGS: Mapping[str, str] = {
    "13": "graphics engine exception",
    "31": "memory page fault",
    "43": "the GPU stopped processing",
    "45": "cleanup after earlier errors",
    "48": "uncorrectable memory error",
    "61": "microcontroller warning",
    "62": "microcontroller halted",
    "63": "memory row remapped",
    "64": "memory row remapping failed",
    "74": "NVLink error",
    "79": "fell off the bus",
    "92": "many corrected memory errors",
    "94": "contained memory error",
    "95": "uncontained memory error",
    "109": "context switch timeout",
    "119": "the GPU's firmware (GSP) did not answer",
    "120": "the GPU's firmware (GSP) failed",
    "121": "corrected error of the link to the CPU",
    "140": "unrecovered memory error",
    "143": "the GPU could not be initialised",
    "145": "NVLink error",
    "149": "NVLink error",
    "154": "the GPU needs a recovery action",
}
# fmt: on
_ID_PLACEHOLDER = "{id}"
# Codes come from tools and can have any length.
_MAX_WORD_LENGTH = 26
_OK_FINDINGS = (Finding("ok", Severity.GOOD, rank=len(CONDITIONS)),)
_READ_METRICS = frozenset(metric for condition in CONDITIONS for metric in condition.metrics) | frozenset(
    evidence.PROOF_OF_READING
)
# Maps device ids to findings.
Verdict = Mapping[str, tuple[Finding, ...]]


def judge(snapshot: Snapshot) -> Verdict:
    """Return a mapping from device ids to findings. The findings of each device are in order, the worst first."""
    verdict = {}
    conditions_by_positions: dict[int, tuple[tuple[int, Condition], ...]] = {}
    for view in device_views(snapshot, _READ_METRICS):
        # Devices of the same model usually share a `positions` object, so conditions are selected once per object.
        key = id(view.positions)
        if key not in conditions_by_positions:
            conditions_by_positions[key] = tuple(
                (rank, condition)
                for rank, condition in enumerate(CONDITIONS)
                if not condition.metrics or view.positions.keys() & condition.metrics
            )
        verdict[view.device.id] = tuple(_findings(view, conditions_by_positions[key])) or _OK_FINDINGS
    return verdict


def _findings(view: DeviceView, conditions: tuple[tuple[int, Condition], ...]) -> Iterator[Finding]:
    for rank, condition in conditions:
        for word in condition.detect(view):
            remedy = _with_device_id(condition.remedy, view.device.id)
            yield Finding(cut(clean(word), _MAX_WORD_LENGTH), condition.severity, remedy, condition.meaning, rank)


def remedy_of_several(remedy: str, device_id: str) -> str:
    """Return the remedy for several devices, with `ID` in place of the device id."""
    return remedy.replace(_quote_for_shell(device_id), "ID")


def _with_device_id(remedy: str, device_id: str) -> str:
    return remedy.replace(_ID_PLACEHOLDER, _quote_for_shell(device_id)) if _ID_PLACEHOLDER in remedy else remedy


def _quote_for_shell(device_id: str) -> str:
    return clean(shlex.quote(device_id))  # ids of Ascend devices contain blanks
