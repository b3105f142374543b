"""Every reading of every device, of the host and of the sources themselves, as blocks of lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from telemetry_exporters import human
from telemetry_exporters.labels import info_labels
from telemetry_exporters.overview import model_of, source_condition
from telemetry_exporters.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import display_width, pad_left, pad_right, wrapped
from telemetry_exporters.verdict import Finding, Verdict
from telemetry_parsers.model import Absent, Health, MergedDevice, MergedReading, Metric, Snapshot, SourceStatus

# A name, a value in words, and a note: the value's source, or why there is none.
Line = tuple[str, str, str]


def matches(metric: Metric, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns, such as `temp*`, names the metric; without patterns every metric is named."""
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
    """A block for each device, one for the host, one for the sources; with patterns only readings of these metrics."""
    if patterns:
        metrics = {key: metric for key, metric in metrics.items() if matches(metric, patterns)}
    all_blocks = []
    for device in snapshot.devices:
        heading = wrapped(_heading(device, verdict[device.id]), width, "  ")
        about = [] if patterns else _fact_lines(facts(device))
        lines = _reading_lines(device.readings, metrics) if patterns else readings(device, metrics)
        all_blocks.append([*(paint(line, Style.BOLD, colour) for line in heading), *about, *_aligned(lines, colour)])
    host = _reading_lines(snapshot.host, metrics)
    if host:
        all_blocks.append([paint("host", Style.BOLD, colour), *_aligned(host, colour)])
    if snapshot.sources and not patterns:
        all_blocks.append([paint("sources", Style.BOLD, colour), *_source_lines(snapshot, colour, width)])
    return all_blocks


def _heading(device: MergedDevice, findings: tuple[Finding, ...]) -> str:
    name = " ".join(filter(None, (device.vendor, device.device, model_of(device))))
    return f"{name} ({', '.join(finding.word for finding in findings)})"


def _reading_lines(readings: Iterable[MergedReading], metrics: Mapping[str, Metric]) -> list[Line]:
    return [_reading_line(reading, metrics) for reading in readings if reading.metric in metrics]


def facts(device: MergedDevice) -> list[Line]:
    """What the device is: its id and the labels of its info."""
    return [(fact.replace("_", " "), value, "") for fact, value in (("id", device.id), *info_labels(device))]


def readings(device: MergedDevice, metrics: Mapping[str, Metric]) -> list[Line]:
    """All its readings, with the reasons of those that are absent, its owners and its processes."""
    lines = _reading_lines(device.readings, metrics)
    if not device.allocations and not device.processes:
        return lines
    from telemetry_exporters import owner_words  # nobody else needs it

    for one in device.allocations:
        note = f"{owner_words.basis(one)}, {owner_words.standing(one)}"
        lines.append((f"owner {owner_words.who(one.owner)}", human.percent(one.share), note))
    for process in device.processes:
        memory = process.memory_used_bytes
        told = ABSENT if memory is None else human.byte_size(memory)
        lines.append((f"process {process.pid}", told, owner_words.about_process(process)))
    return lines


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


def _aligned(lines: list[Line], colour: Colour) -> Iterator[str]:
    widest_name = max((display_width(name) for name, _, _ in lines), default=0)
    widest_value = max((display_width(value) for _, value, _ in lines), default=0)
    for name, value, note in lines:
        text = f"  {pad_right(name, widest_name)}  {pad_left(value, widest_value)}  {note}".rstrip()
        yield paint(text, Style.DIM if value == ABSENT else Style.PLAIN, colour)


def _source_lines(snapshot: Snapshot, colour: Colour, width: int) -> Iterator[str]:
    widest = max(display_width(source.source) for source in snapshot.sources)
    indent = " " * (widest + 4)
    for source in snapshot.sources:
        words = f"  {pad_right(source.source, widest)}  {_source_words(source, snapshot.monotonic_time)}"
        first, *others = wrapped(words[len(indent) :], width and max(1, width - len(indent)))
        yield words[: len(indent)] + first
        yield from (indent + line for line in others)
        for problem in source.problems:
            for line in wrapped(f"{indent}{problem.where}: {problem.text}", width, indent):
                yield paint(line, Style.WARNING, colour)


def _source_words(source: SourceStatus, now: float) -> str:
    version = f" {source.version}" if source.version else ""
    polls = "; ".join(_poll_words(poll, now) for poll in source.polls if poll.attempted)
    return f"{source_condition(source).word}{version}" + (f", {polls}" if polls else "")


def _poll_words(poll: Health, now: float) -> str:
    age = human.seconds(max(0.0, round(now - poll.attempted_monotonic, 1)))
    return f"{poll.poll} took {human.seconds(poll.seconds)}, {age} ago"
