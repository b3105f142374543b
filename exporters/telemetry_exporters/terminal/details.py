"""Every reading of every device, of the host and of the sources themselves, as blocks of lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import model_of, source_condition
from telemetry_exporters.judgement.verdict import Finding, Verdict
from telemetry_exporters.prometheus.families import info_labels
from telemetry_exporters.terminal.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import clean, cut, display_width, pad_left, pad_right, wrapped
from telemetry_parsers.model import Absent, Health, MergedDevice, MergedReading, Metric, Process, Snapshot, SourceStatus

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

    for one in device.allocations:
        note = f"{human.basis(one)}, {human.standing(one)}"
        lines.append((f"owner {human.who(one.owner)}", human.percent(one.share), note))
    for process in device.processes:
        memory = process.memory_used_bytes
        told = ABSENT if memory is None else human.byte_size(memory)
        lines.append((f"process {process.pid}", told, human.about_process(process)))
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


_GAP = "  "


@dataclass(frozen=True, slots=True)
class _Use:
    """A process on a device, its command line if that was read, and the time at which it is looked at."""

    device: MergedDevice
    process: Process
    line: str
    now: float


@dataclass(frozen=True, slots=True)
class _Column:
    """A column; one that is not `always` there is left out where it has nothing to say."""

    heading: str
    text: Callable[[_Use], str]
    is_number: bool = False
    always: bool = True


def _memory(use: _Use) -> str:
    memory = use.process.memory_used_bytes
    return "" if memory is None else human.byte_size(memory)


def _utilization(use: _Use) -> str:
    ratio = use.process.utilization_ratio
    return "" if ratio is None else human.percent(ratio)


def _age(use: _Use) -> str:
    started = use.process.started
    if started is None or not human.is_moment(started):
        return ""
    return human.seconds(max(0.0, round(use.now - started)))


_COLUMNS = (
    _Column("DEVICE", lambda use: f"{use.device.vendor} {use.device.device}"),
    _Column("PID", lambda use: str(use.process.pid), is_number=True),
    _Column("USER", lambda use: cut(use.process.user, 32), always=False),
    _Column("MEMORY", _memory, is_number=True),
    _Column("UTIL", _utilization, is_number=True, always=False),
    _Column("RUNS FOR", _age, is_number=True, always=False),
    _Column("OWNER", lambda use: human.of_process(use.process), always=False),
    _Column("NAME", lambda use: use.process.name or use.process.command),
    _Column("COMMAND LINE", lambda use: use.line, always=False),
)


def lines(
    devices: Iterable[MergedDevice], command_lines: Mapping[int, str], now: float, width: int, colour: Colour
) -> list[str]:
    """A line for each process, cut to the width (0: none is cut)."""
    uses = [
        _Use(device, process, clean(command_lines.get(process.pid, "")), now)
        for device in devices
        for process in device.processes
    ]
    if not uses:
        return ["No source tells of a process."]
    columns = [(column, [column.text(use) for use in uses]) for column in _COLUMNS]
    shown = [(column, texts) for column, texts in columns if column.always or any(texts)]
    parts = [_padded(column, texts) for column, texts in shown]
    heading, *others = (
        cut(_GAP.join(line).rstrip(), width) if width else _GAP.join(line).rstrip() for line in zip(*parts, strict=True)
    )
    return [paint(heading, Style.BOLD, colour), *others]


def _padded(column: _Column, texts: Iterable[str]) -> list[str]:
    """The heading and the texts, all of one width."""
    cells = [column.heading, *(text or ABSENT for text in texts)]
    widest = max(map(display_width, cells))
    pad = pad_left if column.is_number else pad_right
    return [pad(cell, widest) for cell in cells]
