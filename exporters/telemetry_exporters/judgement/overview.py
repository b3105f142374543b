"""Computes the overview of a node for the terminal and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from telemetry_exporters import human
from telemetry_exporters.judgement.verdict import Finding, Severity, Verdict, judge, remedy_of_several
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import is_main_sensor
from telemetry_parsers.model import Absent, MergedDevice, Reason, Snapshot, SourceStatus, Value
from telemetry_parsers.past import kept_value
from telemetry_parsers.readings import Readings
from telemetry_parsers.states import BUSY


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One row of the device table."""

    device: MergedDevice
    model: str
    findings: tuple[Finding, ...]
    temperature: Value | None
    power: Value | None
    power_cap: Value | None
    memory_used: Value | None
    memory_total: Value | None
    utilization: Value | None

    @property
    def condition(self) -> Finding:
        """Return the worst condition of the device."""
        return self.findings[0]


@dataclass(frozen=True, slots=True)
class Trouble:
    """A bad state of devices or of a source, with the reason and the remedy."""

    what: str
    why: str
    remedy: str
    severity: Severity
    age: str = ""

    @property
    def reason(self) -> str:
        """Return the cause, followed by the age of the last reading if that is known."""
        return ": ".join(filter(None, (self.why, self.age)))


@dataclass(frozen=True, slots=True)
class Tile:
    """A number with a label, such as the total power."""

    label: str
    value: str
    note: str = ""


_REMEDIES: Mapping[Reason, str] = {
    "timeout": "run the tool by hand; if it is only slow, raise this source's deadline",
    "exit_status": "run the tool by hand and read its error; `telemetry doctor` shows what it printed",
    "not_understood": "record what the tool prints (`telemetry record`), and send us the recording",
    "driver_gone": "load the driver or reset the device; `dmesg` shows the reason",
    "no_permission": "let the service's user read the device files (groups `render` and `video`)",
    "too_much_output": "run the tool by hand; it printed far more than it should",
    "library_mismatch": "the library and the loaded driver differ: reload the driver or reboot",
    "killed": "the tool was killed; check `dmesg` for the out-of-memory killer",
    "internal": "this is a bug in device telemetry; please report it with a recording (`telemetry record`)",
}
_RESTARTED_WORKER = "the worker process that reads the library is restarted automatically"
# Maps the source for a vendor's library to the vendor's tool. The library and the tool use the same driver.
_TOOLS_BY_LIBRARY = {"nvml": "`nvidia-smi`", "mtml": "`mthreads-gmi`"}
_LIBRARY_REMEDIES: Mapping[Reason, str] = {
    "timeout": f"{_RESTARTED_WORKER}; if {{tool}} hangs as well, the driver hangs: see `dmesg`, then reset the device or reboot",
    "exit_status": f"{_RESTARTED_WORKER}; see `dmesg`; `telemetry doctor` shows the library's error",
    "too_much_output": f"{_RESTARTED_WORKER}; `telemetry doctor` shows what the library returned",
    "killed": f"{_RESTARTED_WORKER}; check `dmesg` for the out-of-memory killer",
}
_STUCK_LIBRARY_REMEDY = (
    "a driver call does not return: see `dmesg` and check whether {tool} also hangs, then reset the device or reboot"
)
_STUCK_REMEDY = (
    "kill the tool's process; if its state is D, the driver hangs: see `dmesg`, then reset the device or reboot"
)
_BUSY_REMEDY = "another process is running the tool; find out which one, or wait for the next automatic poll"
_SOURCE_SEVERITIES: Mapping[str, Severity] = {"ok": Severity.GOOD, "failed": Severity.BAD, "stuck": Severity.BAD}


def rows(snapshot: Snapshot, verdict: Verdict | None = None) -> tuple[DeviceRow, ...]:
    """Return a row for each device. For a filtered snapshot, pass the `verdict` of the whole node."""
    verdict = judge(snapshot) if verdict is None else verdict
    return tuple(device_row(device, verdict[device.id]) for device in snapshot.devices)


def missing_text(device: MergedDevice) -> str:
    """Return the reason why a device has no reading of a metric, in words."""
    return "its source is not read" if device.up is None else "no source reports it"


def device_row(device: MergedDevice, findings: tuple[Finding, ...]) -> DeviceRow:
    """Return the table row of a device with its main readings."""
    return DeviceRow(
        device=device,
        model=current_model(device),
        findings=findings,
        temperature=temperature(device),
        power=reading_value(device, "power_watts"),
        power_cap=reading_value(device, "power_cap_watts"),
        memory_used=reading_value(device, "memory_used_bytes"),
        memory_total=reading_value(device, "memory_total_bytes"),
        utilization=reading_value(device, "utilization_ratio"),
    )


def current_model(device: MergedDevice) -> str:
    """Return the best known name of the device's model."""
    return device.current_model or device.model


def shares_host_memory(device: MergedDevice) -> bool:
    """Return whether the device uses the host's memory instead of its own."""
    return ("memory_kind", "unified") in device.facts


def slowdown_celsius(device: MergedDevice) -> float | None:
    """Return the lowest slowdown temperature of the main sensors."""
    readings = Readings.of(device.readings)
    limits = [
        value
        for (metric, label), value in zip(readings.shape.keys, readings.values, strict=True)
        if metric == "temperature_slowdown_celsius" and is_main_sensor(label) and not isinstance(value, Absent)
    ]
    return min(limits, default=None)


def reading_value(device: MergedDevice, metric: str) -> Value | None:
    """Return the value of a metric without labels, or None if the device has no such reading."""
    return Readings.of(device.readings).value(metric)


def as_number(value: Value | None) -> float | None:
    """Return the value if it is a number, or None if it is absent."""
    return None if isinstance(value, Absent) else value


def temperature(device: MergedDevice) -> Value | None:
    """Return the device's highest temperature or the reason why it is absent, or None if no source reports it."""
    return kept_value(device, "temperature_celsius")


def source_condition(source: SourceStatus) -> Finding:
    """Return the source's state as a finding, with a remedy if it is bad."""
    state_text = f"{source.state}: {source.reason}" if source.reason else source.state
    severity = _SOURCE_SEVERITIES.get(source.state, Severity.QUIET)
    return Finding(state_text.replace("_", " "), severity, _source_remedy(source) if severity is Severity.BAD else "")


def inventory(snapshot: Snapshot) -> str:
    """Return the number of cards of each model, such as `8 × H100, 2 × MTT S4000 unread`."""
    present = [device for device in snapshot.devices if device.parent is None and device.up is not False]
    counts = Counter((current_model(device) or f"{device.vendor} device", device.up is None) for device in present)
    texts = (f"{count} × {model}{' unread' if unread else ''}" for (model, unread), count in counts.items())
    return ", ".join(texts) or "no devices"


def title(snapshot: Snapshot) -> str:
    """Return the node's name, its devices and the time on one line."""
    return ", ".join(filter(None, (snapshot.hostname, inventory(snapshot), human.utc(snapshot.wall_time))))


def notes(snapshot: Snapshot) -> tuple[str, ...]:
    """Return warnings that concern the whole node: simulated or recorded devices, and maintenance."""
    all_notes = (simulation_note(snapshot), replay_note(snapshot), maintenance_note(snapshot))
    return tuple(note for note in all_notes if note)


def replay_note(snapshot: Snapshot) -> str:
    """Return a warning if a recording is being replayed, else an empty string."""
    recorded = snapshot.recorded
    if recorded is None:
        return ""
    host = recorded.hostname or "a host without a name"
    note = f"Replay: this is a recording of {human.utc(recorded.wall_time)} from {host}, not live data."
    shown = "" if recorded.shown_time is None else f"shown: {human.utc(recorded.shown_time)}"
    details = ", ".join(filter(None, (shown, recorded.player_state)))
    return f"{note} {details[0].upper()}{details[1:]}." if details else note


def maintenance_note(snapshot: Snapshot) -> str:
    """Return the end and the reason of the maintenance, or an empty string if none is announced."""
    maintenance = snapshot.maintenance
    if maintenance is None or maintenance.seconds_left is None:
        return ""
    until = f"In maintenance until {human.utc(snapshot.wall_time + maintenance.seconds_left)}"
    return f"{until}: {maintenance.reason}" if maintenance.reason else f"{until}."


def simulation_note(snapshot: Snapshot) -> str:
    """Return a warning if devices are simulated, else an empty string."""
    simulated_flags = [device.simulated for device in snapshot.devices]
    if not any(simulated_flags):
        return ""
    return f"Simulated: {'' if all(simulated_flags) else 'some of '}these devices do not exist."


def troubles(snapshot: Snapshot, verdict: Verdict | None = None) -> Iterator[Trouble]:
    """Yield the troubles of devices and sources, in the order in which users should look at them."""
    verdict = judge(snapshot) if verdict is None else verdict
    device_troubles = sorted(_device_troubles(snapshot, verdict), key=lambda item: item[0].rank)
    yield from (trouble for finding, trouble in device_troubles if finding.severity is Severity.BAD)
    for status in snapshot.sources:
        condition = source_condition(status)
        if condition.severity is Severity.BAD:
            why = f"{condition.word} ({status.detail})" if status.detail else condition.word
            yield Trouble(status.source, why, condition.remedy, Severity.BAD)
    yield from _unread_troubles(snapshot)
    yield from (trouble for finding, trouble in device_troubles if finding.severity is Severity.WARNING)


def _device_troubles(snapshot: Snapshot, verdict: Verdict) -> Iterator[tuple[Finding, Trouble]]:
    """Group the devices by bad condition or warning. Yield a finding and a trouble for each group."""
    groups: dict[tuple[int, str], list[tuple[MergedDevice, Finding]]] = {}
    for device in snapshot.devices:
        for finding in verdict[device.id]:
            if finding.severity in (Severity.BAD, Severity.WARNING):
                groups.setdefault((finding.rank, finding.word), []).append((device, finding))
    for group in groups.values():
        device, finding = group[0]
        remedy = finding.remedy if len(group) == 1 else remedy_of_several(finding.remedy, device.id)
        names = _device_names([device for device, _ in group])
        yield finding, Trouble(names, f"{finding.headline}: {finding.meaning}", remedy, finding.severity)


def _unread_troubles(snapshot: Snapshot) -> Iterator[Trouble]:
    released_sources = {source.vendor: source.source for source in snapshot.sources if source.state == "released"}
    devices_by_trouble: dict[tuple[str, str], list[MergedDevice]] = {}
    for device in snapshot.devices:
        if device.up is None and device.parent is None:
            age = "not read since the daemon started"
            if device.last_read is not None:
                age = f"last read {human.seconds(round(max(0.0, snapshot.wall_time - device.last_read)))} ago"
            source = released_sources.get(device.vendor)
            remedy = (
                f"the source {source} is released: run `telemetry resume {source}`"
                if source
                else "find out why the device's source fails"
            )
            devices_by_trouble.setdefault((age, remedy), []).append(device)
    for (age, remedy), devices in devices_by_trouble.items():
        yield Trouble(_device_names(devices), "unknown", remedy, Severity.QUIET, age)


def _device_names(devices: list[MergedDevice]) -> str:
    if len(devices) > 1:
        return device_list(devices)
    (device,) = devices
    name = " ".join(filter(None, (device.vendor, device.device, current_model(device))))
    return f"{name} ({device.id})"


def _source_remedy(status: SourceStatus) -> str:
    library_tool = _TOOLS_BY_LIBRARY.get(status.source)  # None if the source is not a library
    if status.state == "stuck":
        if BUSY in status.detail:  # nothing hangs: another process is running the tool
            return _BUSY_REMEDY
        return _STUCK_LIBRARY_REMEDY.format(tool=library_tool) if library_tool else _STUCK_REMEDY
    reason = status.reason or "internal"
    remedy = _LIBRARY_REMEDIES.get(reason) if library_tool else None
    return (remedy or _REMEDIES.get(reason, "see `telemetry doctor`")).format(tool=library_tool)


def device_list(devices: Iterable[MergedDevice]) -> str:
    """Return the vendors with their device labels, such as `nvidia 0-7, 9; amd 0, 1`."""
    labels_by_vendor: dict[str, list[str]] = {}
    for device in devices:
        labels_by_vendor.setdefault(device.vendor, []).append(device.device)
    return "; ".join(f"{vendor} {', '.join(_label_ranges(labels))}" for vendor, labels in labels_by_vendor.items())


def _label_ranges(labels: Sequence[str]) -> Iterator[str]:
    """Yield the labels. Three or more consecutive numbers become a range such as `0-7`."""
    start = 0
    for end in range(1, len(labels) + 1):
        if end < len(labels) and labels[end] == _next_label(labels[end - 1]):
            continue
        run = labels[start:end]
        yield from (f"{run[0]}-{run[-1]}",) if len(run) > 2 else run
        start = end


def _next_label(label: str) -> str:
    return str(int(label) + 1) if label.isascii() and label.isdigit() else ""


# Each tile's label, the function that reads a device's value, and the function that formats the values of all devices.
_FIGURES: tuple[tuple[str, Callable[[DeviceRow], Value | None], Callable[[Sequence[float]], str]], ...] = (
    ("Hottest", lambda row: row.temperature, lambda values: human.celsius(max(values))),
    ("Power", lambda row: row.power, lambda values: human.watts(sum(values))),
    ("Memory used", lambda row: row.memory_used, lambda values: human.byte_size(sum(values))),
    ("Mean utilization", lambda row: row.utilization, lambda values: human.percent(sum(values) / len(values))),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """A node's device counts, and the values from which tiles are computed."""

    whole_count: int
    up_count: int
    values: tuple[tuple[float, ...], ...]  # for each row of _FIGURES, the readings of all devices


def node_figures(all_rows: Iterable[DeviceRow]) -> Figures:
    """Return the figures of a node's whole devices, without partitions."""
    whole_rows = [row for row in all_rows if row.device.parent is None]
    up_rows = [row for row in whole_rows if row.device.up]
    values = (
        tuple(value for row in up_rows if (value := read_value(row)) is not None and not isinstance(value, Absent))
        for _, read_value, _ in _FIGURES
    )
    return Figures(len(whole_rows), len(up_rows), tuple(values))


def node_tiles(nodes: Sequence[Figures]) -> tuple[Tile, ...]:
    """Return tiles that combine the values of all nodes."""
    whole_count, up_count = sum(node.whole_count for node in nodes), sum(node.up_count for node in nodes)
    note = "" if up_count == whole_count else f"of {whole_count}"
    tiles = [Tile("Devices up", str(up_count), note)] if whole_count else []
    for index, (label, _, combine) in enumerate(_FIGURES):
        values = [value for node in nodes for value in node.values[index]]
        if values:
            note = "" if len(values) == up_count else f"from {len(values)} of {up_count} devices"
            tiles.append(Tile(label, combine(values), note))
    return tuple(tiles)
