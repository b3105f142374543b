"""Every reading of every device, of the host and of the sources themselves, as blocks of lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from telemetry_exporters import human
from telemetry_exporters.families import info_labels
from telemetry_exporters.overview import model_of, source_condition
from telemetry_exporters.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import display_width, pad_left, pad_right
from telemetry_exporters.verdict import Finding, judge
from telemetry_parsers.model import Absent, Health, MergedDevice, MergedReading, Metric, Process, Snapshot, SourceStatus

# A name, a value in words, and a note: the value's source, or why there is none.
Line = tuple[str, str, str]


def blocks(snapshot: Snapshot, metrics: Mapping[str, Metric], colour: Colour) -> list[list[str]]:
    """A block for each device, one for the host, one for the sources."""
    verdict = judge(snapshot)
    all_blocks = [_device_block(device, verdict[device.id], metrics, colour) for device in snapshot.devices]
    host = [_reading_line(reading, metrics) for reading in snapshot.host]
    if host:
        all_blocks.append([paint("host", Style.BOLD, colour), *_aligned(host, colour)])
    if snapshot.sources:
        all_blocks.append([paint("sources", Style.BOLD, colour), *_source_lines(snapshot, colour)])
    return all_blocks


def _device_block(
    device: MergedDevice, findings: tuple[Finding, ...], metrics: Mapping[str, Metric], colour: Colour
) -> list[str]:
    name = " ".join(filter(None, (device.vendor, device.device, model_of(device))))
    heading = f"{name} ({', '.join(finding.word for finding in findings)})"
    known, read = facts(device), readings(device, metrics)
    return [paint(heading, Style.BOLD, colour), *_fact_lines(known), *_aligned(read, colour)]


def facts(device: MergedDevice) -> list[Line]:
    """What the device is: its id and the labels of its info."""
    return [(fact.replace("_", " "), value, "") for fact, value in (("id", device.id), *info_labels(device))]


def readings(device: MergedDevice, metrics: Mapping[str, Metric]) -> list[Line]:
    """All its readings, with the reasons of those that are absent, and its processes."""
    lines = [_reading_line(reading, metrics) for reading in device.readings]
    return [*lines, *map(_process_line, device.processes)]


def _fact_lines(facts: list[Line]) -> Iterator[str]:
    widest = max(display_width(name) for name, _, _ in facts)
    for name, value, _ in facts:
        yield f"  {pad_right(name, widest)}  {value}"


def _reading_line(reading: MergedReading, metrics: Mapping[str, Metric]) -> Line:
    metric = metrics[reading.metric]
    name = f"{human.name(metric)} {reading.label}".strip()
    if isinstance(reading.value, Absent):
        return name, ABSENT, f"{reading.value.value.replace('_', ' ')} ({reading.source})"
    return name, human.in_words(reading.value, metric), reading.source


def _process_line(process: Process) -> Line:
    memory = process.memory_used_bytes
    return f"process {process.pid}", ABSENT if memory is None else human.byte_size(memory), process.name


def _aligned(lines: list[Line], colour: Colour) -> Iterator[str]:
    widest_name = max((display_width(name) for name, _, _ in lines), default=0)
    widest_value = max((display_width(value) for _, value, _ in lines), default=0)
    for name, value, note in lines:
        text = f"  {pad_right(name, widest_name)}  {pad_left(value, widest_value)}  {note}".rstrip()
        yield paint(text, Style.DIM if value == ABSENT else Style.PLAIN, colour)


def _source_lines(snapshot: Snapshot, colour: Colour) -> Iterator[str]:
    widest = max(display_width(source.source) for source in snapshot.sources)
    for source in snapshot.sources:
        yield f"  {pad_right(source.source, widest)}  {_source_words(source, snapshot.monotonic_time)}"
        for problem in source.problems:
            yield paint(f"  {' ' * widest}  {problem.where}: {problem.text}", Style.WARNING, colour)


def _source_words(source: SourceStatus, now: float) -> str:
    version = f" {source.version}" if source.version else ""
    polls = "; ".join(_poll_words(poll, now) for poll in source.polls if poll.attempted)
    return f"{source_condition(source).word}{version}" + (f", {polls}" if polls else "")


def _poll_words(poll: Health, now: float) -> str:
    age = human.seconds(max(0.0, round(now - poll.attempted_monotonic, 1)))
    return f"{poll.poll} took {human.seconds(poll.seconds)}, {age} ago"
