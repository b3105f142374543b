"""Functions that write and read Chrome traces in tests."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from kits.captures import in_ci, shared_folder
from telemetry_profile.files.trace import read_trace
from telemetry_profile.files.trace_events import BLOCK_BYTES
from telemetry_profile.format_contract import (
    HEAD_BYTES,
    Facts,
    FileSample,
    TraceEvent,
    TraceFormat,
    TraceReader,
    TraceSample,
)


def profile_captures() -> Path | None:
    """Return the folder of real profiles; None if it is missing, which CI does not accept."""
    folder = shared_folder()
    if folder is None:
        assert not in_ci(), "no shared captures although this is CI"
        return None
    return folder / "profiles"


@dataclass
class Collector:
    """A reader that keeps the events and keys of any trace."""

    kept: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[str, Any] = field(default_factory=dict)

    def read_key(self, name: str, value: Any) -> None:
        self.keys[name] = value

    def read_events(self, events: Sequence[TraceEvent]) -> None:
        self.kept += [
            {
                "ph": event.ph,
                "cat": event.cat,
                "name": event.name,
                "pid": event.pid,
                "tid": event.tid,
                "begin": event.begin_ns(),
                "length": event.length_ns(),
                "args": dict(event.args()),
            }
            for event in events
        ]

    def facts(self) -> Facts:
        return Facts("any", "any")


def collect(stream: BinaryIO | bytes, block_bytes: int = BLOCK_BYTES) -> tuple[Collector, Facts | None]:
    opened = io.BytesIO(stream) if isinstance(stream, bytes) else stream
    collector = Collector()
    return collector, read_trace(opened, FileSample("trace.json", (), b""), lambda _: collector, block_bytes)


def read_as(formats: Sequence[TraceFormat], trace: object, name: str = "trace.json") -> Facts | None:
    """Return the facts of a trace by the only format that recognises it; the trace is text, bytes or an object."""
    data = trace if isinstance(trace, bytes) else json.dumps(trace).encode()
    file = FileSample(name.rpartition("/")[2], tuple(name.split("/")[:-1]), data[:HEAD_BYTES])

    def choose(sample: TraceSample) -> TraceReader | None:
        found = [trace_format for trace_format in formats if trace_format.recognises(sample)]
        assert len(found) <= 1, [trace_format.name for trace_format in found]
        return found[0].reader(file) if found else None

    return read_trace(io.BytesIO(data), file, choose)


def event(category: str, name: str, begin: float | str, length: float | str, **more: Any) -> dict[str, Any]:
    """Return an event with a length; times are in microseconds."""
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": begin, "dur": length, "args": {}} | more
