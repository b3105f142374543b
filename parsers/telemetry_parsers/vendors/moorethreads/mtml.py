"""Parses the results of MTML's calls, which the reader `mtml` records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.library_answers import (
    DeviceDraft,
    LibrarySpec,
    Row,
    answer_in,
    device_in,
    error_in,
    instance_in,
    integer,
    mapping,
    objects,
    text,
)
from telemetry_parsers.model import Absent, Capture, Device, Library, Output, Plain, Poll, Report, Tier
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool_parser import report_on
from telemetry_parsers.text.lines import quote

_MHZ = 1_000_000


def _clock_rows(call: str, metric: str) -> dict[str, tuple[Row, ...]]:
    domains = (("Gpu", "graphics"), ("Memory", "memory"), ("Vpu", "video"))
    return {f"{prefix}{call}": (Row(metric, domain, times=_MHZ),) for prefix, domain in domains}


CALLS: Mapping[str, tuple[Row, ...]] = {
    "DevicePowerUsage": (Row("power_watts", over=1000),),
    "GpuUtilization": (Row("utilization_ratio", over=100),),
    "GpuTemperature": (Row("temperature_celsius", "core"),),
    "MemoryUsed": (Row("memory_used_bytes"),),
    "MemoryTotal": (Row("memory_total_bytes"),),
    **_clock_rows("Clock", "clock_hertz"),
    **_clock_rows("MaxClock", "clock_max_hertz"),
    "DevicePciInfo": (
        Row("pcie_link_generation", part="pciCurGen"),
        Row("pcie_link_generation_max", part="pciMaxGen"),
        Row("pcie_link_width", part="pciCurWidth"),
        Row("pcie_link_width_max", part="pciMaxWidth"),
    ),
    "VpuUtilization": (
        Row("engine_utilization_ratio", "encoder", over=100, part="encUtil"),
        Row("engine_utilization_ratio", "decoder", over=100, part="decUtil"),
    ),
    "MemoryEccMode": (Row("ecc_enabled", part=0),),
    "MemoryEccErrorCounter.0.0.1": (Row("ecc_corrected_total", "dram"),),
    "MemoryEccErrorCounter.1.0.1": (Row("ecc_uncorrected_total", "dram"),),
    "MemoryEccErrorCounter.0.1.1": (Row("ecc_corrected_lifetime_total", "dram"),),
    "MemoryEccErrorCounter.1.1.1": (Row("ecc_uncorrected_lifetime_total", "dram"),),
    "MemoryRetiredPagesCount": (
        Row("retired_pages", "single_bit_ecc", part="sbeCount"),
        Row("retired_pages", "double_bit_ecc", part="dbeCount"),
    ),
    "MemoryRetiredPagesPendingStatus": (Row("retired_pages_pending"),),
}
FAN_PREFIX = "DeviceFanSpeed."
_FAN_ROW = Row("fan_ratio", over=100)
LINK_PREFIX = "DeviceMtLinkState."
# In state 2, a link is up, but below its highest speed.
_UP_BY_LINK_STATE: Mapping[int, float] = {0: 0.0, 1: 1.0, 2: 1.0}
_LINK_DOWNGRADED = 2
_FACT_CALLS = frozenset({"DeviceMtBiosVersion", "DeviceProperty"})
GIVES = tuple(dict.fromkeys((*(row.metric for rows in CALLS.values() for row in rows), "fan_ratio", "link_up")))

_DEVICE_TYPES: Mapping[int, str] = {1: "MPC Parent", 2: "MPC Instance"}
_GUEST_ROLE = 2
_YES_NO: Mapping[int | None, str] = {0: "NO", 1: "YES"}
_ABSENCE_BY_CODE: Mapping[int, Absent] = {
    -1: Absent.NOT_UNDERSTOOD,  # the reader sets -1 if the library returned invalid text
    3: Absent.NOT_SUPPORTED,
    4: Absent.NOT_SUPPORTED,
    5: Absent.NOT_PERMITTED,
    7: Absent.NOT_REPORTED,
    11: Absent.NOT_REPORTED,
    12: Absent.NOT_REPORTED,
    667: Absent.NOT_SUPPORTED,
}
MTML = LibrarySpec("MTML", "mtml", "moorethreads", devices="cards", max_devices=1024, absence_by_code=_ABSENCE_BY_CODE)


def read_calls(calls: dict[str, Plain], device_draft: DeviceDraft) -> None:
    """Add the readings in the results of a device's calls, and report unknown calls."""
    for name, answer in calls.items():
        if name in CALLS:
            for row in CALLS[name]:
                device_draft.add_row(row, answer, quote(name))
        elif name.startswith(LINK_PREFIX):
            _read_link(quote(name.removeprefix(LINK_PREFIX)), answer, name, device_draft)
        elif not name.startswith(FAN_PREFIX) and name not in _FACT_CALLS:
            device_draft.draft.add_unknown(name)
    device_draft.add_highest(
        _FAN_ROW, {quote(name): answer for name, answer in calls.items() if name.startswith(FAN_PREFIX)}
    )


def _read_link(link: str, answer: Plain, name: str, device_draft: DeviceDraft) -> None:
    state = device_draft.value(answer, quote(name))
    if state == _LINK_DOWNGRADED:
        device_draft.add_problem(f"MTLink {link} runs below its highest speed")
    if not isinstance(state, Absent):
        state = _UP_BY_LINK_STATE.get(int(state), Absent.NOT_UNDERSTOOD)
    device_draft.add("link_up", state, link, quote(name))


def _device_facts(record: dict[str, Plain]) -> tuple[tuple[str, str], ...]:
    calls = mapping(record.get("calls"))
    properties = mapping(calls.get("DeviceProperty"))
    guest_type = "Virtual" if integer(properties.get("virtRole")) == _GUEST_ROLE else None
    facts = {
        "device_type": _DEVICE_TYPES.get(integer(properties.get("mpcType")) or 0, guest_type),
        "mpc_capable": _YES_NO.get(integer(properties.get("mpcCap"))),
        "firmware": text(calls.get("DeviceMtBiosVersion")),
    }
    return tuple((name, fact) for name, fact in facts.items() if fact is not None)


SOURCE = MTML.source


def parse(capture: Capture) -> Report:
    """Return the report on the results of MTML's calls."""
    return report_on(capture, _report_on_output, "there is no output")


def _report_on_output(output: Output) -> Report:
    answer = answer_in(output, MTML)
    if isinstance(answer, Report):
        return answer
    draft = MTML.create_draft()
    draft.tool_version = text(answer.node.get("library"))
    for record in objects(answer.devices):
        _read_card(record, answer.node.get("driver"), draft)
    if len(objects(answer.devices)) < len(answer.devices):
        draft.add_problem("cards", "an entry is not an object")
    report = draft.report("data")
    if report.devices:
        return report
    if report.problems:
        return Report("failed", "not_understood", problems=report.problems, facts=report.facts)
    return replace(report, outcome="no_devices")


def _read_card(record: dict[str, Plain], driver: Plain, draft: Draft) -> None:
    device = device_in(record, MTML.vendor, driver, _device_facts(record))
    where = f"GPU {device.bus_id or device.index}"
    position = _read_device(device, record, where, draft)
    if not device.up:
        problem = f"the card does not answer; the daemon looks for it again (MTML error {error_in(record['lost'])})"
        draft.add_problem(where, problem)
    for instance_record in objects(record.get("instances")):
        instance = instance_in(instance_record, device, position, _device_facts(instance_record))
        if instance is None:
            draft.add_problem(where, "an MPC instance has no index")
        else:
            _read_device(instance, instance_record, f"{where} MPC {instance.partition}", draft)


def _read_device(device: Device, record: dict[str, Plain], where: str, draft: Draft) -> int:
    position = draft.add_device(device)
    read_calls(mapping(record.get("calls")), DeviceDraft(MTML, draft, position, where))
    return position


def _poll(name: str, tier: Tier, interval: float, deadline: float, *, lists_devices: bool) -> Poll:
    """Return a poll of MTML. No process is started if `pymtml` is missing."""
    request = Library(SOURCE, (name,), module="pymtml", package="device-telemetry[moorethreads]")
    return Poll(name, request, tier, interval, deadline, lists_devices)


PARSER = SourceParser(
    name=SOURCE,
    vendor=MTML.vendor,
    gives=GIVES,
    polls=(
        _poll("fast", "fast", 2.0, 10.0, lists_devices=True),
        _poll("slow", "slow", 60.0, 20.0, lists_devices=False),
        _poll("inventory", "inventory", 300.0, 30.0, lists_devices=False),
    ),
    parse=parse,
)
