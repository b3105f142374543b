"""Print each parser's report of each capture, for comparison with the texts: `make review`, `make review ARGS=rocm`."""

import sys
from collections.abc import Iterator
from pathlib import Path

from kits.captures import own_cases, registered_parsers, shared_files, shared_folder, shared_text, text_capture
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Absent, Capture, Device, Process, Reading, Report

# The folders of real outputs that are not named like their source.
SOURCES = {"hccn_tool": "hccn-tool", "sysfs": "amdgpu-sysfs", "xpu-smi-intel": "xpu-smi"}
# Core readings come first, with these abbreviations; the others follow by name.
SHORT = {
    "power_watts": "P",
    "power_cap_watts": "cap",
    "memory_used_bytes": "used",
    "memory_total_bytes": "total",
    "memory_used_ratio": "used%",
    "utilization_ratio": "util",
    "temperature_celsius": "T",
}
# Of these metrics the table contains only the states that are 1.
STATES = frozenset({"performance_level", "health", "recovery_action"})
_MEBIBYTE = 1 << 20
_WIDTH = 190


def review(wanted: str = "") -> Iterator[str]:
    """Yield the lines of each file: its outcome, then each device and each problem."""
    parsers = registered_parsers()
    for name, parser in sorted(parsers.items()):
        for path in of_source(name):
            if wanted in str(path):
                yield from file_lines(f"{path.parent.name}/{path.stem}", parser, [shared_capture(parser, path)])
    for case in own_cases():
        if wanted in f"own {case.id}":
            yield from file_lines(f"own {case.id}", parsers[case.tool], case.captures(parsers[case.tool]))


def of_source(name: str) -> list[Path]:
    """Return the shared files of this source."""
    return [path for path in shared_files("**") if SOURCES.get(path.parent.name, path.parent.name) == name]


def shared_expectations(parser: Parser) -> list[str]:
    """Return the lines of a source's shared files, with the positions of problems but without quoted words."""
    lines = [
        line
        for path in of_source(parser.name)
        for line in file_lines(path.stem, parser, [shared_capture(parser, path)])
    ]
    return [line.split(":")[0] if line.startswith("    ! ") else line for line in lines]


def shared_capture(parser: Parser, path: Path) -> Capture:
    """Return the capture of a shared file."""
    return text_capture(parser, shared_text(path))


def file_lines(name: str, parser: Parser, captures: list[Capture]) -> Iterator[str]:
    """Yield the lines of one file: its outcome, then each device and each problem."""
    for capture in captures:
        report = parser.parse(capture)
        reason = f" {report.reason}" if report.reason else ""
        readings = sum(not isinstance(reading.value, Absent) for reading in report.readings)
        counts = f"{len(report.devices)} devices, {readings} readings, {len(report.processes)} processes"
        yield f"{name}: {report.outcome}{reason}, {counts}"
        yield from _folded([f"{key}={text}" for key, text in report.facts])
        for position, device in enumerate(report.devices):
            yield f"    {_device(device)}"
            yield from _folded([_reading(reading) for reading in _of(report, position)])
            yield from _folded([_process(process) for process in report.processes if process.device == position])
        if report.unknown_fields:
            yield from _folded([f"unknown: {', '.join(report.unknown_fields)}"])
        yield from (f"    ! {problem.where}: {problem.text}"[:_WIDTH] for problem in report.problems)


def _device(device: Device) -> str:
    names = ("index", "model", "bus_id", "uuid", "serial", "driver", "partition", "parent")
    identity = [f"{name}={getattr(device, name)}" for name in names if getattr(device, name) is not None]
    facts = [f"{name}={text}" for name, text in device.facts]
    return " ".join([device.vendor, *identity, *facts, *([] if device.up else ["DOWN"])])


def _of(report: Report, position: int) -> list[Reading]:
    readings = [
        item for item in report.readings if item.device == position and not (item.metric in STATES and item.value == 0)
    ]
    order = list(SHORT)
    return sorted(readings, key=lambda reading: order.index(reading.metric) if reading.metric in SHORT else len(order))


def _reading(reading: Reading) -> str:
    name = SHORT.get(reading.metric, reading.metric) + (f".{reading.label}" if reading.label else "")
    if isinstance(reading.value, Absent):
        return f"{name}={reading.value.value}"
    if reading.metric.endswith("_bytes"):
        return f"{name}={reading.value / _MEBIBYTE:.12g}Mi"
    if reading.metric.endswith("_hertz"):
        return f"{name}={reading.value / 1e6:.12g}M"
    return f"{name}={reading.value:.12g}"


def _process(process: Process) -> str:
    memory = "?" if process.memory_used_bytes is None else f"{process.memory_used_bytes / _MEBIBYTE:.12g}Mi"
    return f"pid={process.pid},{process.name},{memory}"


def _folded(words: list[str]) -> Iterator[str]:
    line = "       "
    for word in words:
        if len(line) + len(word) >= _WIDTH:
            yield line
            line = "       "
        line += f" {word}"
    if line.strip():
        yield line


if __name__ == "__main__":
    if shared_folder() is None:
        sys.exit("no real outputs: set TELEMETRY_SHARED, or put the folder 'shared' beside the repository")
    for text in review(*sys.argv[1:2]):
        print(text)
