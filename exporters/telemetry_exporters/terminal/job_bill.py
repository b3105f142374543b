"""Adds up the use of cards from job records."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Literal

from telemetry_exporters import human
from telemetry_exporters.terminal.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import aligned, cut
from telemetry_parsers.codec.json_types import Count, NotNegative
from telemetry_parsers.dataclass import dataclass, field, fields, replace
from telemetry_parsers.job_record import NOBODY, JobRecord

_HOUR, _KWH = 3600.0, 3.6e6
_MAX_TEXT_LENGTH = 48
# Marks a key that is present only for some groupings.
_GROUPING_KEY = {"left_out": True}
# In CSV, unallocated use keeps its earlier name, because existing programs search for this name.
_UNALLOCATED, _UNALLOCATED_IN_CSV, _TOTAL = "(unallocated)", "(nobody)", "(total)"
_NUMBER_HEADINGS = ("CARDS", "NODES", "HOURS", "BUSY", "IDLE", "UNMEASURED", "KWH", "PEAK MEMORY")

Grouping = Callable[[JobRecord], tuple[str, ...]]
# Maps a grouping to its column names, and to a function that returns a record's values in these columns.
GROUPINGS: Mapping[str, tuple[tuple[str, ...], Grouping]] = {
    "owner": (
        ("kind", "owner", "user", "account"),
        lambda record: (record.owner.kind, record.owner.name, record.owner.user, record.owner.account),
    ),
    "user": (("user",), lambda record: (record.owner.user,)),
    "account": (("account",), lambda record: (record.owner.account,)),
    "namespace": (("namespace",), lambda record: (record.owner.pod_namespace,)),
}


@dataclass(frozen=True, slots=True)
class NumbersJson:
    """The totals of a group. Time without measurements is neither busy nor idle."""

    owners: Count
    running: Count
    """The number of job records without an end time."""
    nodes: Count
    cards: Count
    allocated_hours: NotNegative
    """Card hours. A shared card counts by its share."""
    busy_hours: NotNegative | None
    """Null if nothing was measured."""
    idle_hours: NotNegative | None
    """Measured card hours that were not busy."""
    unmeasured_hours: NotNegative
    """Card hours with unknown utilization."""
    energy_kwh: NotNegative | None
    memory_peak_bytes: NotNegative | None
    """The largest amount of memory that an owner's processes used on one card."""
    gap_hours: NotNegative
    """Hours in which no daemon ran, or no source reported the owner. The totals do not include these hours."""


@dataclass(frozen=True, slots=True)
class RowJson(NumbersJson):
    """The totals of a group. Only the names that `by` selects are present."""

    kind: str | None = field(metadata=_GROUPING_KEY)
    owner: str | None = field(metadata=_GROUPING_KEY)
    user: str | None = field(metadata=_GROUPING_KEY)
    account: str | None = field(metadata=_GROUPING_KEY)
    namespace: str | None = field(metadata=_GROUPING_KEY)


@dataclass(frozen=True, slots=True)
class JobsJson:
    """The output of `telemetry jobs --format json`: sums of job records. `total` includes unallocated use."""

    schema: Literal["telemetry.jobs/1"]
    by: Literal["owner", "user", "account", "namespace"]
    rows: tuple[RowJson, ...]
    """Each group has the key that `by` names, or the keys `kind`, `owner`, `user` and `account` if `by` is `owner`. Unknown names are null."""
    nobody: NumbersJson
    total: NumbersJson


@dataclass(slots=True)
class GroupSums:
    """A group's sums over its job records."""

    names: tuple[str, ...]
    owners: set[tuple[str, str]] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    cards: set[tuple[str, str]] = field(default_factory=set)
    running: int = 0
    seconds: float = 0.0
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0
    energy_joules: float | None = None
    gap_seconds: float = 0.0
    memory_peak_bytes: float | None = None

    def add(self, record: JobRecord) -> None:
        """Add a record to the sums."""
        self.owners.add((record.owner.kind, record.owner.name))
        self.nodes.add(record.hostname)
        self.cards.update((record.hostname, card.id) for card in record.cards)
        self.running += record.end is None
        self.seconds += record.seconds
        self.measured_seconds += record.measured_seconds
        self.busy_seconds += record.busy_seconds or 0.0
        self.gap_seconds += sum(gap.seconds for gap in record.gaps)
        if record.energy_joules is not None:
            self.energy_joules = (self.energy_joules or 0.0) + record.energy_joules
        peaks = [card.memory_peak_bytes for card in record.cards if card.memory_peak_bytes is not None]
        if peaks:
            self.memory_peak_bytes = max(*peaks, self.memory_peak_bytes or 0.0)

    def totals(self) -> NumbersJson:
        """Return the group's totals: counts, hours, energy and peak memory."""
        is_measured = self.measured_seconds > 0.0
        return NumbersJson(
            owners=len(self.owners),
            running=self.running,
            nodes=len(self.nodes),
            cards=len(self.cards),
            allocated_hours=self.seconds / _HOUR,
            busy_hours=self.busy_seconds / _HOUR if is_measured else None,
            idle_hours=max(0.0, self.measured_seconds - self.busy_seconds) / _HOUR if is_measured else None,
            unmeasured_hours=max(0.0, self.seconds - self.measured_seconds) / _HOUR,
            energy_kwh=None if self.energy_joules is None else self.energy_joules / _KWH,
            memory_peak_bytes=self.memory_peak_bytes,
            gap_hours=self.gap_seconds / _HOUR,
        )


class Bill:
    """Adds up job records in any order. Records with the same id count only once."""

    def __init__(self, by: str) -> None:
        self.by = by
        self._columns, self._group_names_of = GROUPINGS[by]
        self._ended_ids: set[str] = set()
        self._running_by_id: dict[str, JobRecord] = {}
        self._groups: dict[tuple[str, ...], GroupSums] = {}
        self._unallocated = GroupSums(())
        self._total = GroupSums(self._names_starting_with(_TOTAL))

    def add(self, record: JobRecord) -> None:
        """Add a record to the sums."""
        if record.end is None:
            known_record = self._running_by_id.get(record.id)
            if known_record is None or known_record.seconds < record.seconds:
                self._running_by_id[record.id] = record
        elif record.id not in self._ended_ids:
            self._ended_ids.add(record.id)
            self._add_to_group(record)

    def rows(self) -> list[GroupSums]:
        """Return the sums of each group, the largest first. No record may be added afterwards."""
        running, self._running_by_id = self._running_by_id, {}
        for record in running.values():
            if record.id not in self._ended_ids:
                self._add_to_group(record)
        return sorted(self._groups.values(), key=lambda row: (-row.seconds, row.names))

    def _add_to_group(self, record: JobRecord) -> None:
        names = self._group_names_of(record)
        sums = self._unallocated if record.owner.kind == NOBODY else self._groups.setdefault(names, GroupSums(names))
        sums.add(record)
        self._total.add(record)

    def _unallocated_rows(self, name: str) -> list[GroupSums]:
        return [replace(self._unallocated, names=self._names_starting_with(name))] if self._unallocated.nodes else []

    def _names_starting_with(self, name: str) -> tuple[str, ...]:
        return tuple(name if index == 0 else "" for index in range(len(self._columns)))

    def json(self) -> str:
        """Return the document `telemetry.jobs/1`."""
        document = {
            "schema": "telemetry.jobs/1",
            "by": self.by,
            "rows": [{**self._names_by_column(row), **asdict(row.totals())} for row in self.rows()],
            "nobody": asdict(self._unallocated.totals()),
            "total": asdict(self._total.totals()),
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def csv(self) -> str:
        """Return a CSV line for each group, without the total."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow((*self._columns, *(column.name for column in fields(NumbersJson))))
        for row in (*self.rows(), *self._unallocated_rows(_UNALLOCATED_IN_CSV)):
            writer.writerow((*row.names, *("" if number is None else number for number in astuple(row.totals()))))
        return text.getvalue()

    def table(self, colour: Colour) -> str:
        """Return the groups as a text table with notes."""
        rows = [*self.rows(), *self._unallocated_rows(_UNALLOCATED), self._total]
        lines = [
            [*(name.upper() for name in self._columns), *_NUMBER_HEADINGS],
            *([*(cut(name or ABSENT, _MAX_TEXT_LENGTH) for name in row.names), *_number_cells(row)] for row in rows),
        ]
        texts = aligned(lines, range(len(self._columns), len(lines[0])))
        texts[0] = paint(texts[0], Style.BOLD, colour)
        return "\n".join([*texts, *_note_lines(self._total)]) + "\n"

    def _names_by_column(self, row: GroupSums) -> dict[str, str | None]:
        return {column: name or None for column, name in zip(self._columns, row.names, strict=True)}


def _number_cells(row: GroupSums) -> Sequence[str]:
    totals = row.totals()
    hours = (totals.allocated_hours, totals.busy_hours, totals.idle_hours, totals.unmeasured_hours)
    peak = row.memory_peak_bytes
    return [
        str(len(row.cards)),
        str(len(row.nodes)),
        *map(_number_or_dash, hours),
        _number_or_dash(totals.energy_kwh),
        ABSENT if peak is None else human.byte_size(peak),
    ]


def _number_or_dash(value: float | None) -> str:
    return ABSENT if value is None else human.number_text(value)


def _note_lines(total: GroupSums) -> list[str]:
    notes = []
    if total.running:
        notes.append(f"Still running: {total.running} (included up to the last entry in the ledger).")
    if total.gap_seconds >= 1.0:
        hours = human.number_text(total.gap_seconds / _HOUR)
        notes.append(f"Not included: {hours} h in which no daemon ran, or no source reported the owner.")
    return ["", *notes] if notes else []
