"""Parses the results of NVML calls, which the reader `nvml` records."""

from __future__ import annotations

from telemetry_parsers.contract import COUNTERS, SourceParser
from telemetry_parsers.library_answers import (
    DeviceDraft,
    answer_in,
    device_in,
    error_in,
    instance_in,
    integer,
    items,
    mapping,
    part_of,
    text,
)
from telemetry_parsers.model import Capture, Device, Library, Output, Plain, Poll, Problem, Reason, Report, Tier
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool_parser import report_on
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.nvidia.nvml import devices, readings, tables
from telemetry_parsers.vendors.nvidia.nvml.tables import NVML

SOURCE = NVML.source
_NO_PERMISSION = 4
_LOST_REASON_BY_ERROR = {
    15: "the GPU is lost (it fell off the bus, or its driver no longer uses it); the daemon looks for it again",
    16: "the GPU must be reset before it can be used: nvidia-smi --gpu-reset",
}
# If DCGM and GPM use the same counters, the readings of both may be wrong (Syllo/nvtop #483).
_DCGM_PROBLEM = (
    "a DCGM host engine (process {}) may use the same GPU counters. Disable its profiling metrics, "
    'or set sources.nvml.polls.gpm.mode = "never"'
)


def parse(capture: Capture) -> Report:
    """Return the report on the results of NVML calls."""
    return report_on(capture, _report_on_output, "there is no output")


def _report_on_output(output: Output) -> Report:
    answer = answer_in(output, NVML)
    if isinstance(answer, Report):
        return answer
    draft = NVML.create_draft()
    draft.tool_version = text(answer.node.get("library"))
    driver = text(answer.node.get("driver"))
    draft.facts = {} if driver is None else {"driver_version": driver}
    for gpu in answer.devices:
        if isinstance(gpu, dict):
            _read_gpu(gpu, answer.node, draft)
        else:
            draft.add_problem("gpus", "an entry is not an object")
    host_engine_pid = integer(answer.node.get("host_engine"))
    if host_engine_pid is not None and any(_has_gpm(gpu) for gpu in answer.devices):
        draft.add_problem("gpm", _DCGM_PROBLEM.format(host_engine_pid))
    unopened_gpus = items(answer.node.get("unseen"))
    _report_unopened(unopened_gpus, draft)
    if not draft.device_count():
        return _report_on_no_gpus(unopened_gpus, draft.report())
    readings.read_events(answer.data.get("events"), draft)
    return draft.report("data")


def _has_gpm(gpu: Plain) -> bool:
    """Return whether the GPU or one of its instances has results of GPM (performance counters)."""
    gpu_record = mapping(gpu)
    records = (gpu_record, *map(mapping, items(gpu_record.get("instances"))))
    return any(mapping(record.get("gpm")) and error_in(record["gpm"]) is None for record in records)


def _read_gpu(gpu: dict[str, Plain], node: dict[str, Plain], draft: Draft) -> None:
    device = device_in(gpu, NVML.vendor, node.get("driver"), tuple(sorted(devices.gpu_facts(gpu, node))))
    device_draft = DeviceDraft(NVML, draft, draft.add_device(device), f"GPU {device.bus_id or device.index}")
    if not device.up:
        code = error_in(gpu["lost"])
        reason = _LOST_REASON_BY_ERROR.get(code or 0, "the GPU no longer answers; the daemon looks for it again")
        device_draft.add_problem(f"{reason} (NVML error {quote(str(code))})")
    readings.read_gpu(gpu, device_draft)
    if isinstance(gpu.get("watched"), bool):
        device_draft.add("event_watch", float(gpu["watched"]))
    _read_links_and_processes(gpu, device_draft)
    for instance in items(gpu.get("instances")):
        _read_instance(mapping(instance), device, device_draft)


def _read_instance(instance: dict[str, Plain], parent: Device, parent_draft: DeviceDraft) -> None:
    facts = tuple(sorted(devices.instance_facts(instance)))
    device = instance_in(instance, parent, parent_draft.device, facts)
    if device is None:
        parent_draft.add_problem("a MIG instance has no index")
        return
    draft = parent_draft.draft
    where = f"GPU {device.bus_id or device.index} MIG {device.partition}"
    device_draft = DeviceDraft(NVML, draft, draft.add_device(device), where)
    readings.read_instance(instance, device_draft)
    _read_links_and_processes(instance, device_draft)


def _read_links_and_processes(record: dict[str, Plain], device_draft: DeviceDraft) -> None:
    if "links" in record:
        readings.read_links(record["links"], device_draft)
    if "processes" in record:
        utilization = record.get("process_utilization")
        is_unified = devices.is_integrated(record)
        processes = devices.read_processes(record["processes"], utilization, device_draft, is_unified=is_unified)
        device_draft.draft.processes += processes


def _report_unopened(unopened_gpus: list[Plain], draft: Draft) -> None:
    """Report the GPUs that NVML counts but cannot open, except those that this user may not open."""
    for entry in unopened_gpus:
        index, code = integer(part_of(entry, 0)), integer(part_of(entry, 1))
        if code != _NO_PERMISSION:
            draft.add_problem(f"GPU {index}", f"the GPU cannot be opened (NVML error {code})")


def _report_on_no_gpus(unopened_gpus: list[Plain], report: Report) -> Report:
    if not unopened_gpus and not report.problems:
        return Report("no_devices", facts=report.facts)
    codes = [part_of(entry, 1) for entry in unopened_gpus]
    is_hidden = bool(codes) and all(code == _NO_PERMISSION for code in codes)
    reason: Reason = "no_permission" if is_hidden else "driver_gone" if codes else "not_understood"
    problem = f"none of {len(unopened_gpus)} GPUs can be opened: give the service's user access to /dev/nvidia*"
    return Report("failed", reason, problems=report.problems or (Problem("gpus", problem),), facts=report.facts)


# The usual scrape interval. With 10 s, a third of GPM's averages would never be scraped.
_EXPENSIVE_POLL_SECONDS = 15.0


def _poll(name: str, tier: Tier, interval: float, deadline: float, *, lists_devices: bool) -> Poll:
    """Return a poll of NVML. Each poll opens all GPUs, which wakes sleeping GPUs."""
    return Poll(name, Library(SOURCE, (name,)), tier, interval, deadline, lists_devices, wakes=True)


# The deadlines are long, because GPUs had to be reset after a process was killed in the middle of a call.
PARSER = SourceParser(
    name=SOURCE,
    vendor=NVML.vendor,
    gives=tables.GIVES,
    polls=(
        _poll("fast", "fast", 2.0, 10.0, lists_devices=True),
        _poll(COUNTERS, "fast", _EXPENSIVE_POLL_SECONDS, 10.0, lists_devices=False),
        # GPM and DCGM may use the same counters. With a separate poll, users of DCGM can disable only GPM.
        _poll("gpm", "fast", _EXPENSIVE_POLL_SECONDS, 10.0, lists_devices=False),
        _poll("slow", "slow", 60.0, 20.0, lists_devices=False),
        _poll("links", "slow", 60.0, 20.0, lists_devices=False),
        _poll("processes", "slow", 60.0, 20.0, lists_devices=False),
        _poll("inventory", "inventory", 300.0, 30.0, lists_devices=True),
    ),
    parse=parse,
)
