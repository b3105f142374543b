"""What a format is: how it knows its files, and how it reads them. Each is an entry point of the group `telemetry.profiles`.

The daemon's package opens, unpacks and bounds; a format sees a clue and then lines, events or tables, and gives `Facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from telemetry_profile.facts.file_facts import Facts

HEAD_BYTES = 65_536
Schema = Mapping[str, tuple[str, ...]]
"""The names of a database's tables, each with its stored columns. Views are left out: they are programs of the file."""


class NotReadError(ValueError):
    """A file was recognised and cannot be read; the text says why, in one line, and what to do."""


@dataclass(frozen=True, slots=True)
class Clue:
    """What is known of a file before it is read; `folders` are the names above it, the nearest last, `head` its unpacked beginning."""

    name: str
    folders: tuple[str, ...]
    head: bytes

    @property
    def text(self) -> str:
        """The beginning as text, without a byte order mark."""
        return self.head.decode("utf-8-sig", "replace")


class TraceEvent(Protocol):
    """One event of a Chrome trace."""

    @property
    def ph(self) -> str:
        """The kind of event: X has a length, i is a moment, M names a lane."""

    @property
    def cat(self) -> str:
        """The category, "" where there is none."""

    @property
    def name(self) -> str:
        """What happened."""

    @property
    def pid(self) -> int | str:
        """The lane's process."""

    @property
    def tid(self) -> int | str:
        """The lane."""

    def begin_ns(self) -> int | None:
        """When it began, in the trace's own clock; None where that is no number."""

    def length_ns(self) -> int | None:
        """How long it took; None where that is no number."""

    def args(self) -> Mapping[str, Any]:
        """The arguments; empty where there are none."""


@dataclass(frozen=True, slots=True)
class TraceSample:
    """The beginning of a Chrome trace: its first events, and the keys beside them that came before."""

    clue: Clue
    keys: Mapping[str, Any]
    events: Sequence[TraceEvent]


class TraceReader(Protocol):
    """Takes the events of one trace in the order of the file."""

    def key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Take a key beside the events; it may come before or after them."""

    def events(self, events: Sequence[TraceEvent]) -> None:
        """Take the next events."""

    def facts(self) -> Facts:
        """What the whole trace says."""


class Tables(Protocol):
    """A database that is open for reading."""

    @property
    def schema(self) -> Schema:
        """What there is to ask."""

    def rows(self, query: str, parameters: Sequence[int | float | str] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, as far as they can be read; NotReadError where the time is over."""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format of lines."""

    name: str
    tool: str
    recognises: Callable[[Clue], bool]
    read: Callable[[Clue, Iterable[str]], Facts]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A format of Chrome trace events."""

    name: str
    tool: str
    recognises: Callable[[TraceSample], bool]
    reader: Callable[[Clue], TraceReader]


@dataclass(frozen=True, slots=True)
class DatabaseFormat:
    """A format in a sqlite database."""

    name: str
    tool: str
    recognises: Callable[[Schema], bool]
    read: Callable[[Tables], Facts]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A closed format: recognised, never read; `remedy` says which export to make."""

    name: str
    tool: str
    recognises: Callable[[Clue], bool]
    remedy: str


ProfileFormat = TextFormat | TraceFormat | DatabaseFormat | Refusal
