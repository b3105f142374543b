"""The readings of one device out of a library's answers: a number in base units, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from telemetry_parsers.library_answers.answers import RecordedLibrary
from telemetry_parsers.library_answers.plain import error_in, number, part_of
from telemetry_parsers.metrics import BY_KEY, in_range, reading
from telemetry_parsers.model import Absent, Plain, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.lines import quote


@dataclass(frozen=True, slots=True)
class Row:
    """Where a number goes: its metric and label, the factor to its base unit, and which part of an answer it is."""

    metric: str
    label: str = ""
    times: int = 1
    over: int = 1
    part: str | int | None = None


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings of one device, which go into the draft."""

    library: RecordedLibrary
    draft: Draft
    device: int
    where: str

    def add(self, metric: str, value: Value, label: str = "", source: str = "") -> None:
        """Keep a value; one that is not plausible becomes a problem of its source."""
        item = reading(self.device, metric, value, label)
        if isinstance(item.value, Absent):
            self.draft.complain_of(item, source or metric, self.where)
        self.draft.keep(item)

    def complain(self, text: str) -> None:
        """Report a problem of the device."""
        self.draft.complain(self.where, text)

    def row(self, row: Row, answer: Plain, source: str) -> None:
        """Keep the reading that a row of a table makes of an answer."""
        self.add(row.metric, self._scaled(row, answer, source), row.label, source)

    def greatest(self, row: Row, answers: Mapping[str, Plain]) -> None:
        """Keep the greatest of several answers; nothing where one of them is none, since that one may be it."""
        values = [in_range(BY_KEY[row.metric], self._scaled(row, answer, name)) for name, answer in answers.items()]
        numbers = [value for value in values if not isinstance(value, Absent)]
        absent = [value for value in values if isinstance(value, Absent)]
        if values:
            self.add(row.metric, absent[0] if absent else max(numbers), row.label)

    def error(self, answer: Plain, source: str) -> Absent:
        """The reason that an error stands for; one without a known meaning becomes a problem."""
        code = error_in(answer)
        if code is not None and code in self.library.reasons:
            return self.library.reasons[code]
        self.complain(f"{source}: {self.library.name} error {quote(str(code))}")
        return Absent.NOT_REPORTED

    def value(self, answer: Plain, source: str) -> Value:
        """The number that an answer is, or why it is none."""
        return self.error(answer, source) if error_in(answer) is not None else number(answer)

    def _scaled(self, row: Row, answer: Plain, source: str) -> Value:
        if error_in(answer) is not None:
            return self.error(answer, source)
        value = number(part_of(answer, row.part))
        return value if isinstance(value, Absent) else value * row.times / row.over
