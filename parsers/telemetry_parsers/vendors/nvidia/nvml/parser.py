"""NVML's answers as the reader `nvml` records them: GPUs, MIG instances, their readings and events."""

from __future__ import annotations

from telemetry_parsers.contract import COUNTERS, SourceParser
from telemetry_parsers.library_answers import Readings, answer_in, error_in, items, mapping, part_of, text, whole
from telemetry_parsers.model import Capture, Device, Library, Output, Plain, Poll, Problem, Reason, Report, Tier
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.frame import report_on
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.nvidia.nvml import devices, readings, tables
from telemetry_parsers.vendors.nvidia.nvml.tables import NVML

SOURCE = NVML.source
_NO_PERMISSION = 4
_LOST = {
    15: "the GPU is lost: it fell off the bus or its driver gave it up; the daemon looks for it again",
    16: "the GPU must be reset before it can be used: nvidia-smi --gpu-reset",
}
# The readings of both may be wrong while both use the counters (Syllo/nvtop #483).
_DCGM = (
    "a DCGM host engine runs (process {}), which uses the same counters of the GPU if it collects profiling metrics; "
    'switch those off there, or here: sources.nvml.polls.gpm.mode = "never"'
)


def parse(capture: Capture) -> Report:
    """Return the report of NVML's answers: devices and readings, or the reason why there are none."""
    return report_on(capture, _one, "there is no output")


def _one(output: Output) -> Report:
    answer = answer_in(output, NVML)
    if isinstance(answer, Report):
        return answer
    draft = NVML.draft()
    draft.tool_version = text(answer.node.get("library"))
    driver = text(answer.node.get("driver"))
    draft.facts = {} if driver is None else {"driver_version": driver}
    for gpu in answer.devices:
        if isinstance(gpu, dict):
            _take_gpu(gpu, answer.node, draft)
        else:
            draft.complain("gpus", "an entry is not an object")
    engine = whole(answer.node.get("host_engine"))
    if engine is not None and any(_has_gpm(gpu) for gpu in answer.devices):
        draft.complain("gpm", _DCGM.format(engine))
    unseen = items(answer.node.get("unseen"))
    _complain_of_unseen(unseen, draft)
    if not draft.device_count():
        return _nothing(unseen, draft.report())
    readings.read_events(answer.data.get("events"), draft)
    return draft.report("data")


def _has_gpm(gpu: Plain) -> bool:
    """Return whether anything was read by GPM, of the GPU or an instance of it."""
    recorded = mapping(gpu)
    readings_of = (recorded, *map(mapping, items(recorded.get("instances"))))
    return any(mapping(source.get("gpm")) and error_in(source["gpm"]) is None for source in readings_of)


def _take_gpu(gpu: dict[str, Plain], node: dict[str, Plain], draft: Draft) -> None:
    device = devices.gpu(gpu, node)
    readings_of = Readings(NVML, draft, draft.add(device), f"GPU {device.bus_id or device.index}")
    if not device.up:
        code = error_in(gpu["lost"])
        why = _LOST.get(code or 0, "the GPU does not answer any more; the daemon looks for it again")
        readings_of.complain(f"{why} (NVML error {quote(str(code))})")
    readings.of_gpu(gpu, readings_of)
    if isinstance(gpu.get("watched"), bool):
        readings_of.add("event_watch", float(gpu["watched"]))
    _take_common(gpu, readings_of)
    for instance in items(gpu.get("instances")):
        _take_instance(mapping(instance), device, readings_of)


def _take_instance(instance: dict[str, Plain], parent: Device, readings_of_parent: Readings) -> None:
    device = devices.instance(instance, parent, readings_of_parent.device)
    if device is None:
        readings_of_parent.complain("a MIG instance without a number")
        return
    draft = readings_of_parent.draft
    where = f"GPU {device.bus_id or device.index} MIG {device.partition}"
    readings_of = Readings(NVML, draft, draft.add(device), where)
    readings.of_instance(instance, readings_of)
    _take_common(instance, readings_of)


def _take_common(recorded: dict[str, Plain], readings_of: Readings) -> None:
    if "links" in recorded:
        readings.read_links(recorded["links"], readings_of)
    if "processes" in recorded:
        use = recorded.get("process_utilization")
        is_unified = devices.is_integrated(recorded)
        found = devices.read_processes(recorded["processes"], use, readings_of, is_unified=is_unified)
        readings_of.draft.processes += found


def _complain_of_unseen(unseen: list[Plain], draft: Draft) -> None:
    """Report GPUs that NVML counts and that could not be opened. A GPU without permission belongs to another user."""
    for entry in unseen:
        index, code = whole(part_of(entry, 0)), whole(part_of(entry, 1))
        if code != _NO_PERMISSION:
            draft.complain(f"GPU {index}", f"cannot be opened (NVML error {code})")


def _nothing(unseen: list[Plain], report: Report) -> Report:
    """Return the report on a node without a readable GPU."""
    if not unseen and not report.problems:
        return Report("no_devices", facts=report.facts)
    codes = [part_of(entry, 1) for entry in unseen]
    hidden = bool(codes) and all(code == _NO_PERMISSION for code in codes)
    reason: Reason = "no_permission" if hidden else "driver_gone" if codes else "not_understood"
    why = f"none of {len(unseen)} GPUs can be opened: allow /dev/nvidia* to the service's user"
    return Report("failed", reason, problems=report.problems or (Problem("gpus", why),), facts=report.facts)


def _poll(name: str, tier: Tier, interval: float, deadline: float, *, lists_devices: bool) -> Poll:
    """Return a poll. Opening a sleeping GPU wakes it."""
    return Poll(name, Library(SOURCE, (name,)), tier, interval, deadline, lists_devices, wakes=True)


# The deadlines are long: initialisation takes seconds without a persistence daemon, and killing a process in the middle of a
# call has left GPUs that had to be reset.
PARSER = SourceParser(
    name=SOURCE,
    vendor=NVML.vendor,
    gives=tables.GIVES,
    polls=(
        _poll("fast", "fast", 2.0, 10.0, lists_devices=True),
        _poll(COUNTERS, "fast", 10.0, 10.0, lists_devices=False),
        # A poll of its own, which can be disabled if DCGM uses the same units of the GPU.
        _poll("gpm", "fast", 10.0, 10.0, lists_devices=False),
        _poll("slow", "slow", 60.0, 20.0, lists_devices=False),
        _poll("links", "slow", 60.0, 20.0, lists_devices=False),
        _poll("processes", "slow", 60.0, 20.0, lists_devices=False),
        _poll("inventory", "inventory", 300.0, 30.0, lists_devices=True),
    ),
    parse=parse,
)
