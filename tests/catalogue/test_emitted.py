"""Every row of the catalogue is emitted by a capture or the simulator, or is in a list that can only get shorter."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_parsers.metrics import BY_KEY, CATALOGUE
from telemetry_parsers.vendors import VENDOR_WORDS

GOLDEN = Path(__file__).parent.parent / "golden"
# Metrics of merge, the accumulator and the daemon, which have their own tests.
MADE_BY_US = {
    "info",
    "up",
    "unread",
    "memory_used_ratio",
    "busy_seconds_total",
    "energy_estimated_joules_total",
    "events_total",
    "event_last_timestamp_seconds",
    "event_open",
    "rank_info",
    "foreign_memory_bytes",
    "peak_flops",
    "flops_per_cycle",
    "peak_memory_bytes_per_second",
    *(metric.key for metric in CATALOGUE if metric.scope in ("daemon", "owner")),
}
# Rows that only the simulator emits so far.
ONLY_SIMULATED: set[str] = set()
NEVER_EMITTED: set[str] = set()


def documents(text: str) -> Iterator[dict[str, Any]]:
    """Return the reports of a golden file: one of a text, several of a recording."""
    decoder, end = json.JSONDecoder(), 0
    while text[end:].strip():
        found, length = decoder.raw_decode(text[end:].lstrip())
        end = len(text) - len(text[end:].lstrip()) + length
        yield found


def from_captures() -> set[str]:
    reports = [report for path in GOLDEN.rglob("*.json") for report in documents(path.read_text())]
    return {reading["metric"] for report in reports for reading in report["readings"]}


def from_simulator() -> set[str]:
    node = tuple((vendor, 1) for vendor in VENDOR_WORDS)
    found = set()
    for source in simulated_sources(node):
        for poll in source.parser.polls:
            report = source.parser.parse(source.reader.read(poll, Targets()))
            found |= {reading.metric for reading in report.readings}
    return found


def test_what_is_emitted_is_in_the_catalogue():
    """Captures and the simulator give only metrics of the catalogue."""
    assert (from_captures() | from_simulator()) - set(BY_KEY) == set()


def test_every_row_is_emitted_or_listed():
    """The list must contain each row without a capture, and no row that a capture emits."""
    captured, simulated = from_captures(), from_simulator()
    rest = set(BY_KEY) - captured - MADE_BY_US
    assert (rest & simulated, rest - simulated) == (ONLY_SIMULATED, NEVER_EMITTED)
