"""Leads a Chrome trace to the reader that knows it, and says what could not be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from telemetry_parsers.model import Problem
from telemetry_profile.contract import Clue, TraceReader, TraceSample
from telemetry_profile.facts.damage import lower_bounds
from telemetry_profile.facts.file_facts import Facts
from telemetry_profile.files.events import BLOCK_BYTES, Damage, Event, Window
from telemetry_profile.files.members import Key, members

MOST_KEYS = 1000

Choose = Callable[[TraceSample], TraceReader | None]


def read_trace(stream: BinaryIO, clue: Clue, choose: Choose, block_bytes: int = BLOCK_BYTES) -> Facts | None:
    """What the reader says that `choose` gives for the first events; None where it gives none, or where this is no trace.

    The stream holds unpacked JSON; it is read once, forwards. Where it raises, what came before counts.
    """
    damage = Damage()
    reading = _Reading(clue, choose)
    for member in members(Window(stream, damage, block_bytes), damage):
        if isinstance(member, Key):
            reading.key(member.name, member.value)
        elif not reading.events(member):
            return None
    facts = reading.facts()
    return lower_bounds(facts, _problems(damage)) if facts else None


class _Reading:
    """Holds the keys back until the first events have shown who reads them."""

    def __init__(self, clue: Clue, choose: Choose) -> None:
        self._clue = clue
        self._choose = choose
        self._keys: dict[str, Any] = {}
        self._has_list = False
        self._reader: TraceReader | None = None

    def key(self, name: str, value: Any) -> None:
        """Take a key beside the events."""
        if self._reader is not None:
            self._reader.key(name, value)
        elif len(self._keys) < MOST_KEYS:
            self._keys[name] = value

    def events(self, events: list[Event]) -> bool:
        """Take events; whether somebody reads them."""
        self._has_list = True
        if events and (self._reader is not None or self._find(events)):
            self._reader.events(events)  # type: ignore[union-attr]  # _find has set it
        return not events or self._reader is not None

    def facts(self) -> Facts | None:
        """What the trace says. An empty one is known by its keys."""
        if self._reader is not None or (self._has_list and self._find([])):
            return self._reader.facts()  # type: ignore[union-attr]  # _find has set it
        return None

    def _find(self, events: list[Event]) -> bool:
        self._reader = self._choose(TraceSample(self._clue, self._keys, events))
        if self._reader is None:
            return False
        for name, value in self._keys.items():
            self._reader.key(name, value)
        return True


def _problems(damage: Damage) -> tuple[Problem, ...]:
    problems = []
    if damage.events:
        problems.append(Problem("events", f"{damage.events} cannot be read, and are left out"))
    if damage.is_cut:
        problems.append(Problem("end", "the file is cut or damaged: what follows is missing"))
    return tuple(problems)
