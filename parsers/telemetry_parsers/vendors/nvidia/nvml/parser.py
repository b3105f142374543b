"""NVML's answers as the reader `nvml` records them: GPUs, MIG instances, their readings and events."""

from __future__ import annotations

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import (
    Absent,
    Capture,
    Device,
    Event,
    Library,
    Output,
    Plain,
    Poll,
    Problem,
    Process,
    Reading,
    Reason,
    Report,
    Tier,
)
from telemetry_parsers.recorded.answers import answer_in
from telemetry_parsers.recorded.plain import (
    error_in,
    items,
    mapping,
    number,
    part_of,
    text,
    whole,
)
from telemetry_parsers.recorded.readings import Notes, Readings
from telemetry_parsers.text.answers import capped
from telemetry_parsers.text.lines import quote
from telemetry_parsers.text.outputs import report_on
from telemetry_parsers.vendors.nvidia.nvml import devices, links, processes, readings, tables
from telemetry_parsers.vendors.nvidia.nvml.library import NVML

SOURCE = NVML.source
_NO_PERMISSION = 4
_LOST = {
    15: "the GPU is lost: it fell off the bus or its driver gave it up; it is looked for again",
    16: "the GPU must be reset before it can be used: nvidia-smi --gpu-reset",
}


def parse(capture: Capture) -> Report:
    """What NVML said: devices and readings, or the reason why there are none."""
    return report_on(capture, _one, "there is no output")


def _one(output: Output) -> Report:
    answer = answer_in(output, NVML)
    if isinstance(answer, Report):
        return answer
    return _Document(answer.node).read(answer.devices, answer.data.get("events"))


class _Document:
    """One answer on its way to a report."""

    def __init__(self, node: dict[str, Plain]) -> None:
        self._node = node
        self._notes = Notes()
        self._devices: list[Device] = []
        self._readings: list[Reading] = []
        self._processes: list[Process] = []
        # Where each GPU, and each MIG instance by its ids, stands among the devices.
        self._places: dict[tuple[str, int | None, int | None], int] = {}

    def read(self, gpus: list[Plain], events: Plain) -> Report:
        """The report on all GPUs."""
        for told_of in gpus:
            if isinstance(told_of, dict):
                self._gpu(told_of)
            else:
                self._notes.problem("gpus", "one of them is no object")
        self._unseen()
        if not self._devices:
            return self._nothing()
        return Report(
            devices=tuple(self._devices),
            readings=tuple(self._readings),
            events=tuple(event for given in items(events) if (event := self._event(mapping(given))) is not None),
            processes=tuple(self._processes),
            problems=capped(list(self._notes.problems)),
            unknown_fields=tuple(self._notes.unknown),
            facts=self._facts(),
            index_space=SOURCE,
            form="data",
        )

    def _gpu(self, told_of: dict[str, Plain]) -> None:
        device = devices.gpu(told_of, self._node)
        position = self._place(device, None, None)
        readings_of = Readings(NVML, position, f"GPU {device.bus_id or device.index}", self._notes)
        if not device.up:
            self._lost(readings_of.where, told_of["lost"])
        readings.of_gpu(told_of, readings_of)
        self._common(told_of, readings_of)
        for given in items(told_of.get("instances")):
            self._instance(mapping(given), device, position)

    def _instance(self, told_of: dict[str, Plain], parent: Device, parent_position: int) -> None:
        device = devices.instance(told_of, parent, parent_position)
        if device is None:
            self._notes.problem(f"GPU {parent.bus_id or parent.index}", "a MIG instance without a number")
            return
        ids = whole(told_of.get("gpu_instance")), whole(told_of.get("compute_instance"))
        position = self._place(device, *ids)
        readings_of = Readings(
            NVML, position, f"GPU {device.bus_id or device.index} MIG {device.partition}", self._notes
        )
        readings.of_instance(told_of, readings_of)
        self._common(told_of, readings_of)

    def _place(self, device: Device, gpu_instance: int | None, compute_instance: int | None) -> int:
        self._devices.append(device)
        position = len(self._devices) - 1
        if device.bus_id is not None:
            self._places.setdefault((device.bus_id, gpu_instance, compute_instance), position)
        return position

    def _common(self, told_of: dict[str, Plain], readings_of: Readings) -> None:
        if "links" in told_of:
            links.read(told_of["links"], readings_of)
        if "processes" in told_of:
            self._processes += processes.read(told_of["processes"], readings_of)
        self._readings += readings_of.told()

    def _lost(self, where: str, lost: Plain) -> None:
        code = error_in(lost)
        text_of = _LOST.get(code or 0, "the GPU does not answer any more; it is looked for again")
        self._notes.problem(where, f"{text_of} (NVML error {quote(str(code))})")

    def _unseen(self) -> None:
        """GPUs that NVML counts and that could not be opened; one that we may not see is another user's."""
        for given in items(self._node.get("unseen")):
            index, code = whole(part_of(given, 0)), whole(part_of(given, 1))
            if code != _NO_PERMISSION:
                self._notes.problem(f"GPU {index}", f"cannot be opened (NVML error {code})")

    def _nothing(self) -> Report:
        unseen = items(self._node.get("unseen"))
        if not unseen and not self._notes.problems:
            return Report("no_devices", facts=self._facts())
        codes = [part_of(given, 1) for given in unseen]
        hidden = bool(codes) and all(code == _NO_PERMISSION for code in codes)
        reason: Reason = "no_permission" if hidden else "driver_gone" if codes else "not_understood"
        text_of = f"none of {len(unseen)} GPUs can be opened: allow /dev/nvidia* to the service's user"
        problems = tuple(self._notes.problems) or (Problem("gpus", text_of),)
        return Report("failed", reason, problems=capped(problems), facts=self._facts())

    def _event(self, given: dict[str, Plain]) -> Event | None:
        bus_id = text(given.get("bus_id")) or ""
        ids = whole(given.get("gpu_instance"), 1 << 32), whole(given.get("compute_instance"), 1 << 32)
        position = self._places.get((bus_id, *ids), self._places.get((bus_id, None, None)))
        wall_time = number(given.get("wall_time"))
        when = wall_time if not isinstance(wall_time, Absent) and 0 < wall_time < 1e11 else None
        xid, lost = whole(given.get("xid")), whole(given.get("lost"))
        if xid is not None:
            return Event(position, f"xid_{xid}", f"Xid {xid} on {quote(bus_id)}", when)
        if lost is not None:
            return Event(position, "gpu_lost", f"NVML error {lost} on {quote(bus_id)}", when)
        dropped = whole(given.get("dropped"))
        text_of = (
            "an event that is none" if dropped is None else f"{dropped} came too fast to be kept and are not counted"
        )
        self._notes.problem("events", text_of)
        return None

    def _facts(self) -> tuple[tuple[str, str], ...]:
        known = (("tool_version", self._node.get("library")), ("driver_version", self._node.get("driver")))
        return tuple((name, found) for name, given in known if (found := text(given)) is not None)


def _poll(name: str, tier: Tier, interval: float, deadline: float, *, lists_devices: bool) -> Poll:
    """To open a sleeping GPU wakes it."""
    return Poll(name, Library(SOURCE, (name,)), tier, interval, deadline, lists_devices, wakes=True)


# The deadlines are long: to initialise takes seconds where no persistence daemon keeps the GPUs ready, and to end a process
# in the middle of a call has left GPUs that had to be reset.
PARSER = SourceParser(
    name=SOURCE,
    vendor=devices.VENDOR,
    gives=tables.GIVES,
    polls=(
        _poll("fast", "fast", 2.0, 10.0, lists_devices=True),
        _poll("slow", "slow", 60.0, 20.0, lists_devices=False),
        _poll("links", "slow", 60.0, 20.0, lists_devices=False),
        _poll("processes", "slow", 60.0, 20.0, lists_devices=False),
        _poll("inventory", "inventory", 300.0, 30.0, lists_devices=True),
    ),
    parse=parse,
)
