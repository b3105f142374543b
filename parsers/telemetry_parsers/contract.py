"""The Parser protocol, which every source of readings keeps, built in or from a plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Metric, Poll, Report

CONTRACT_VERSION = 1
# The name of a poll whose counters are expensive: it runs rarely, and additionally when exact values are needed.
COUNTERS = "counters"


@runtime_checkable
class Parser(Protocol):
    """One source. The law of `parse`:

    * pure: no clock, no files, no environment, no state kept from call to call;
    * total: no input makes it raise;
    * linear in its input: 1 MiB in under a second, no regular expression that backtracks;
    * no number that was not read, nothing derived, no unit guessed;
    * absence is an `Absent` with its reason, never 0, -1 or NaN;
    * unsupported is quiet, unrecognised is loud: it becomes a problem or an unknown field;
    * columns are found by their headings, never by offsets;
    * the shape (JSON, CSV, which table, text, error text) is recognised by content.
    """

    @property
    def contract_version(self) -> int:
        """Return the version of this protocol for which the parser was written."""
        ...

    @property
    def name(self) -> str:
        """Return the source's name, which is that of its tool: `[a-z0-9-]+`."""
        ...

    @property
    def vendor(self) -> str:
        """Return the vendor of its devices; empty for the host."""
        ...

    @property
    def gives(self) -> tuple[str, ...]:
        """Return the keys of the metrics that it can report."""
        ...

    @property
    def polls(self) -> tuple[Poll, ...]:
        """Return its requests with their intervals."""
        ...

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return its own metrics, named accelerator_<vendor>_…; usually none."""
        ...

    @property
    def parse(self) -> Callable[[Capture], Report]:
        """Return the function from a capture to a report."""
        ...


@dataclass(frozen=True, slots=True)
class SourceParser:
    """A parser as plain data with one function; the usual way to write one."""

    name: str
    vendor: str
    gives: tuple[str, ...]
    polls: tuple[Poll, ...]
    parse: Callable[[Capture], Report]
    metrics: tuple[Metric, ...] = ()
    contract_version: int = CONTRACT_VERSION
