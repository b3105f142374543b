"""The processes on devices, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from telemetry_exporters import human, owner_words
from telemetry_exporters.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import clean, cut, display_width, pad_left, pad_right
from telemetry_parsers.model import MergedDevice, Process

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
    _Column("OWNER", lambda use: owner_words.of_process(use.process), always=False),
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
