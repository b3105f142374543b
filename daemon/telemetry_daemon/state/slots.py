"""The slots of one device: the last and the highest number of each kept metric, and why a slot has none."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from telemetry_parsers.model import Absent, MergedDevice, Value
from telemetry_parsers.past import KEPT, SLOTS, Gap, Series, kept_places, kept_values
from telemetry_parsers.readings import Origin, Readings

# A minute more than is shown, for those who take their time to read.
LENGTH = SLOTS + 12
# Why a line has no number before its first.
NOT_SEEN = "not seen yet"
_NUMBER = 0
_MOST_REASONS = 255
_RUN = re.compile(rb"([^\x00])\1*", re.DOTALL)

# The (source, poll) that gave a number.
Giver = tuple[str, str]
_Slots = TypeVar("_Slots", "array[float]", bytearray)


class Reasons:
    """Each reason why there is no number as one byte."""

    def __init__(self) -> None:
        self._texts = ["", "unknown"]
        self._codes = {"": _NUMBER, "unknown": 1}

    def code(self, text: str) -> int:
        """The byte of a reason; that of `unknown` when there are more reasons than bytes."""
        if text not in self._codes and len(self._texts) <= _MOST_REASONS:
            self._codes[text] = len(self._texts)
            self._texts.append(text)
        return self._codes.get(text, 1)

    def gaps(self, codes: bytes) -> tuple[Gap, ...]:
        """The gaps between numbers, one for each row of slots with the same reason."""
        found = _RUN.finditer(codes) if codes.count(_NUMBER) < len(codes) else ()
        return tuple(Gap(run.start(), run.end() - run.start(), self._texts[codes[run.start()]]) for run in found)


@dataclass(frozen=True, slots=True)
class Span:
    """The slots from the number `first` up to `end`, which is not among them."""

    first: int
    end: int


@dataclass(slots=True)
class Line:
    """One metric: its slots from the number `since` on, what the open slot has seen, the value in force, who gave the last number."""

    since: int
    last: array[float] = field(default_factory=lambda: array("f", [math.nan]) * LENGTH)
    # None while the last number of each slot was its highest, as for a limit that nobody changes.
    highest: array[float] | None = None
    reasons: bytearray | None = None
    newest: float = math.nan
    top: float = math.nan
    value: Value | None = None
    giver: Giver = ("", "")

    def take(self, value: float, giver: Giver) -> None:
        """Take a number that is in force from now on."""
        self.value, self.giver, self.newest = value, giver, value
        if not value <= self.top:
            self.top = value

    def end(self, slot: int) -> bool:
        """End the open slot; whether it had a number."""
        place, has_number = slot % LENGTH, self.newest == self.newest
        if self.highest is None and self.top > self.newest:
            self.highest = self.last[:]
        self.last[place] = self.newest
        if self.highest is not None:
            self.highest[place] = self.top
        if self.reasons is not None:
            self.reasons[place] = _NUMBER
        return has_number

    def lack(self, slot: int, reason: int) -> None:
        """Note why a slot that has ended had no number."""
        self.reasons = self.reasons or bytearray(LENGTH)
        self.reasons[slot % LENGTH] = reason

    def begin(self, *, in_force: bool) -> None:
        """Begin a slot, with the number that is still in force if it is."""
        self.newest = self.top = math.nan
        if in_force and self.value is not None and not isinstance(self.value, Absent):
            self.newest = self.top = self.value

    def series(self, span: Span, unclosed: Mapping[int, int], reasons: Reasons) -> Series:
        """These slots of the line; `unclosed` are slots of which nothing is kept, and why."""
        last = _cut(self.last, span)
        top = last if self.highest is None else _cut(self.highest, span)
        codes = bytearray(span.end - span.first) if self.reasons is None else _cut(self.reasons, span)
        before = max(0, min(self.since, span.end) - span.first)
        codes[:before] = bytes([reasons.code(NOT_SEEN)]) * before
        for slot, reason in unclosed.items():
            if span.first <= slot < span.end:
                place = slot - span.first
                codes[place], last[place], top[place] = reason, math.nan, math.nan
        return Series(last, top, reasons.gaps(bytes(codes)))


def _cut(slots: _Slots, span: Span) -> _Slots:
    """A copy of these slots, oldest first."""
    begin, count = span.first % LENGTH, span.end - span.first
    return slots[begin : begin + count] + slots[: max(0, begin + count - LENGTH)]


class Device:
    """The lines of one device, the newest slot with a number, and the device as it is shown now: None while nobody lists it."""

    __slots__ = ("lines", "newest", "shown")

    def __init__(self, slot: int) -> None:
        self.newest = slot
        self.lines: list[Line | None] = [None] * len(KEPT)
        self.shown: MergedDevice | None = None

    def take(self, device: MergedDevice, giver_of: Callable[[Origin], Giver], slot: int) -> None:
        """Take the numbers of the device as it is shown from now on; a line that is new begins with this slot."""
        self.shown, readings = device, Readings.of(device.readings)
        origins = readings.shape.origins
        for number, (value, chosen) in enumerate(zip(kept_values(device), kept_places(readings.shape), strict=True)):
            line = self.lines[number]
            if value is None or isinstance(value, Absent):
                if line is not None:
                    line.value = value
                continue
            if line is None:
                line = self.lines[number] = Line(slot)
            line.take(value, giver_of(readings.origins[origins[chosen[0]]]))

    def end(self, slot: int, why: Callable[[Device, Line], int]) -> None:
        """End the open slot; `why` tells the reason of a line that has no number in it."""
        for line in self.lines:
            if line is not None and line.end(slot):
                self.newest = slot
            elif line is not None:
                line.lack(slot, why(self, line))

    def begin(self, *, in_force: bool) -> None:
        """Begin a slot, with the numbers that are still in force if they are."""
        for line in self.lines:
            if line is not None:
                line.begin(in_force=in_force)

    def leave(self) -> None:
        """Nobody lists the device any more."""
        self.shown = None
        for line in self.lines:
            if line is not None:
                line.value = None
