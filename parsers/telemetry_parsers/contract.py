"""The Parser protocol, which every built-in parser and every plugin implements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Metric, Poll, Report

CONTRACT_VERSION = 1
# The name of polls that read expensive counters and therefore run rarely.
COUNTERS = "counters"


@runtime_checkable
class Parser(Protocol):
    """The parser of one source. Rules for `parse`:

    * It is pure: it uses no clock, files, environment, or state of earlier calls.
    * It never raises an exception.
    * Its time is linear in its input: 1 MiB takes less than a second, and no regular expression backtracks.
    * It reports only numbers that are in the input, and does not derive numbers or guess units.
    * A missing value is an `Absent` with its reason, never 0, -1 or NaN.
    * Unsupported values are not problems. Unknown text is reported as a problem or an unknown field.
    * Columns are found by their headings, never by offsets.
    * The shape (JSON, CSV, a table, text, an error) is recognised by content.
    """

    @property
    def contract_version(self) -> int:
        """Return the version of this protocol that the parser implements."""
        ...

    @property
    def name(self) -> str:
        """Return the name of the source and its tool: `[a-z0-9-]+`."""
        ...

    @property
    def vendor(self) -> str:
        """Return the vendor of the devices; empty for the host."""
        ...

    @property
    def gives(self) -> tuple[str, ...]:
        """Return the keys of the metrics that the parser can report."""
        ...

    @property
    def polls(self) -> tuple[Poll, ...]:
        """Return the polls, which are periodic requests to the source."""
        ...

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return additional metrics, named `accelerator_<vendor>_…`. Most parsers have none."""
        ...

    @property
    def parse(self) -> Callable[[Capture], Report]:
        """Return the function that parses a capture into a report."""
        ...


@dataclass(frozen=True, slots=True)
class SourceParser:
    """A parser that consists of data and a `parse` function. Most parsers are of this type."""

    name: str
    vendor: str
    gives: tuple[str, ...]
    polls: tuple[Poll, ...]
    parse: Callable[[Capture], Report]
    metrics: tuple[Metric, ...] = ()
    contract_version: int = CONTRACT_VERSION
