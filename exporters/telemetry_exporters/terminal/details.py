"""Formats all readings of the devices and the host as blocks of lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import current_model, source_condition
from telemetry_exporters.judgement.verdict import Finding, Verdict
from telemetry_exporters.prometheus.labels import info_labels
from telemetry_exporters.terminal.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import aligned, clean, cut, display_width, pad_right, wrapped
from telemetry_parsers.model import Absent, Health, MergedDevice, MergedReading, Metric, Process, Snapshot, SourceStatus

# (name, formatted value, note). A note is the value's source, or the reason why the value is absent.
Line = tuple[str, str, str]
_PROCESS_HEADINGS = ("DEVICE", "PID", "USER", "MEMORY", "UTIL", "RUNS FOR", "OWNER", "NAME", "COMMAND LINE")
_NUMBER_HEADINGS = frozenset({"PID", "MEMORY", "UTIL", "RUNS FOR"})
# These columns are omitted if all cells are empty.
_OPTIONAL_HEADINGS = frozenset({"USER", "UTIL", "RUNS FOR", "OWNER", "COMMAND LINE"})


def matches(metric: Metric, patterns: Iterable[str]) -> bool:
    """Return whether a metric's name or key matches a pattern such as `temp*`. Without patterns, all metrics match."""
    names = (metric.name, metric.key)
    return not patterns or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def blocks(
    snapshot: Snapshot,
    verdict: Verdict,
    metrics: Mapping[str, Metric],
    colour: Colour,
    width: int,
    patterns: Collection[str],
) -> list[list[str]]:
    """Return a block for each device, the host and the sources. Given `patterns`, only show matching readings."""
    if patterns:
        metrics = {key: metric for key, metric in metrics.items() if matches(metric, patterns)}
    result = []
    for device in snapshot.devices:
        heading = wrapped(_device_heading(device, verdict[device.id]), width, "  ")
        identity = [] if patterns else aligned([("", *fact) for fact in identity_lines(device)])
        lines = _reading_lines(device.readings, metrics) if patterns else device_lines(device, metrics)
        result.append([*(paint(line, Style.BOLD, colour) for line in heading), *identity, *_paint_lines(lines, colour)])
    host_lines = _reading_lines(snapshot.host, metrics)
    if host_lines:
        result.append([paint("host", Style.BOLD, colour), *_paint_lines(host_lines, colour)])
    if snapshot.sources and not patterns:
        result.append([paint("sources", Style.BOLD, colour), *_source_lines(snapshot, colour, width)])
    return result


def _device_heading(device: MergedDevice, findings: tuple[Finding, ...]) -> str:
    name = " ".join(filter(None, (device.vendor, device.device, current_model(device))))
    return f"{name} ({', '.join(finding.word for finding in findings)})"


def _reading_lines(readings: Iterable[MergedReading], metrics: Mapping[str, Metric]) -> list[Line]:
    return [_reading_line(reading, metrics) for reading in readings if reading.metric in metrics]


def identity_lines(device: MergedDevice) -> list[Line]:
    """Return the device's id and labels as lines."""
    return [(fact.replace("_", " "), value, "") for fact, value in (("id", device.id), *info_labels(device))]


def device_lines(device: MergedDevice, metrics: Mapping[str, Metric]) -> list[Line]:
    """Return the device's readings, owners and processes as lines."""
    lines = _reading_lines(device.readings, metrics)
    for allocation in device.allocations:
        note = f"{human.share_basis(allocation)}, {human.allocation_details(allocation)}"
        lines.append((f"owner {human.owner_text(allocation.owner)}", human.percent(allocation.share), note))
    for process in device.processes:
        memory = process.memory_used_bytes
        memory_text = ABSENT if memory is None else human.byte_size(memory)
        lines.append((f"process {process.pid}", memory_text, human.process_details(process)))
    return lines


def reading_name(reading: MergedReading, metrics: Mapping[str, Metric]) -> str:
    """Return the name of a reading in words, with its label."""
    return f"{human.metric_name(metrics[reading.metric])} {reading.label}".strip()


def _reading_line(reading: MergedReading, metrics: Mapping[str, Metric]) -> Line:
    metric, name = metrics[reading.metric], reading_name(reading, metrics)
    if isinstance(reading.value, Absent):
        return name, ABSENT, f"{reading.value.value.replace('_', ' ')} ({reading.source})"
    return name, human.value_text(reading.value, metric), reading.source


def _paint_lines(lines: list[Line], colour: Colour) -> Iterator[str]:
    for (_, value, _), text in zip(lines, aligned([("", *line) for line in lines], {2}), strict=True):
        yield paint(text, Style.DIM if value == ABSENT else Style.PLAIN, colour)


def _source_lines(snapshot: Snapshot, colour: Colour, width: int) -> Iterator[str]:
    name_width = max(display_width(status.source) for status in snapshot.sources)
    indent = " " * (name_width + 4)
    for status in snapshot.sources:
        text = f"  {pad_right(status.source, name_width)}  {_source_text(status, snapshot.monotonic_time)}"
        first_line, *other_lines = wrapped(text[len(indent) :], width and max(1, width - len(indent)))
        yield text[: len(indent)] + first_line
        yield from (indent + line for line in other_lines)
        for problem in status.problems:
            for line in wrapped(f"{indent}{problem.where}: {problem.text}", width, indent):
                yield paint(line, Style.WARNING, colour)


def _source_text(source: SourceStatus, now: float) -> str:
    version = f" {source.version}" if source.version else ""
    polls = "; ".join(_poll_text(poll, now) for poll in source.polls if poll.attempted)
    return f"{source_condition(source).word}{version}" + (f", {polls}" if polls else "")


def _poll_text(health: Health, now: float) -> str:
    age = human.seconds(max(0.0, round(now - health.attempted_monotonic, 1)))
    return f"{health.poll} took {human.seconds(health.seconds)}, {age} ago"


def process_lines(
    devices: Iterable[MergedDevice], command_lines: Mapping[int, str], now: float, width: int, colour: Colour
) -> list[str]:
    """Return a heading and a line for each process."""
    process_rows = [
        _process_cells(device, process, clean(command_lines.get(process.pid, "")), now)
        for device in devices
        for process in device.processes
    ]
    if not process_rows:
        return ["No processes reported."]
    empty = {heading for heading, *texts in zip(_PROCESS_HEADINGS, *process_rows, strict=True) if not any(texts)}
    hidden_headings = empty & _OPTIONAL_HEADINGS
    shown_indices = [index for index, heading in enumerate(_PROCESS_HEADINGS) if heading not in hidden_headings]
    headings = [_PROCESS_HEADINGS[index] for index in shown_indices]
    rows = [headings, *([row[index] or ABSENT for index in shown_indices] for row in process_rows)]
    lines = aligned(rows, [index for index, heading in enumerate(headings) if heading in _NUMBER_HEADINGS])
    heading, *other_lines = (cut(line, width) if width else line for line in lines)
    return [paint(heading, Style.BOLD, colour), *other_lines]


def _process_cells(device: MergedDevice, process: Process, command_line: str, now: float) -> tuple[str, ...]:
    memory, ratio, started = process.memory_used_bytes, process.utilization_ratio, process.started
    return (
        f"{device.vendor} {device.device}",
        str(process.pid),
        cut(process.user, 32),
        "" if memory is None else human.byte_size(memory),
        "" if ratio is None else human.percent(ratio),
        "" if started is None or not human.is_valid_time(started) else human.seconds(max(0.0, round(now - started))),
        human.process_owner_text(process),
        process.name or process.command,
        command_line,
    )
