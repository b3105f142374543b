"""The readings of one card: which of its texts counts for each metric."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from telemetry_parsers.metrics import reading, states
from telemetry_parsers.model import Absent, Reading
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, metric, switch
from telemetry_parsers.rocm.values import level_of
from telemetry_parsers.vendors.amd.amd_smi import links, processes
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block, Entry, Path, pattern
from telemetry_parsers.vendors.amd.amd_smi.keys import (
    BOARDS,
    ECC_COUNTS,
    FIELDS,
    SPARES,
    STACKS,
    VIOLATION_END,
    board_sensor,
    is_many,
    is_quiet,
    temperature,
)
from telemetry_parsers.vendors.amd.amd_smi.words import ACTIVE, known

# Where errors are counted that no block is named for.
_TOTAL = "all"
_WORD = re.compile(r"[a-z0-9_]{1,40}\Z")


def read_readings(draft: Draft, device: int, block: Block) -> None:
    """Put the readings of a card into the draft; total errors only where those of no block are printed."""
    choice = _Choice(draft, device, block.open_at)
    for entry in block.entries:
        choice.take(entry)
    items = [item for item, _ in choice.chosen.values()]
    by_location = {
        item.metric
        for item in items
        if item.metric in ECC_COUNTS.values() and item.label != _TOTAL and not isinstance(item.value, Absent)
    }
    for item in (*items, *choice.levels):
        if not (item.metric in by_location and item.label == _TOTAL):
            draft.keep(item)


class _Choice:
    """The number that counts for each metric of one card, where several keys have one.

    `chosen` are the readings, each with whether it is only a spare one.
    """

    def __init__(self, draft: Draft, device: int, open_at: Path | None) -> None:
        self._draft = draft
        self._device = device
        self._open_at = open_at
        self._stacks: Counter[Path] = Counter()
        self.chosen: dict[tuple[str, str], tuple[Reading, bool]] = {}
        self.levels: tuple[Reading, ...] = ()

    def take(self, entry: Entry) -> None:
        """Read the text of an entry for each metric that its path names."""
        path = pattern(entry.path)
        targets = FIELDS.get(path) or _of_a_family(entry.path) or self._stack(entry)
        for target in targets:
            self._add(target, entry, path)
        if path == ("perf_level",):
            self._take_level(entry)
        elif not targets and not (is_quiet(path) or _elsewhere(path)) and known(entry.text) is not None:
            self._draft.name_unknown("/".join(path[:4]))

    def _add(self, target: Target, entry: Entry, path: Path) -> None:
        value = self._draft.value_in(target, entry.text)
        if value is None:
            return
        item = reading(self._device, target.key, value, target.label)
        self._draft.complain_of(item, entry.text, entry.where)
        of_many = is_many(path)
        if of_many and not entry.text.strip():
            self._draft.complain(entry.where, f"{target.key}: nothing behind one of several")
        if of_many and len(path) > 2 and self._open_at is not None and path[:2] == self._open_at[:2]:
            # Of some of them the highest may not be the highest of all.
            item = replace(item, value=Absent.NOT_UNDERSTOOD)
        key, candidate = (target.key, target.label), (item, target in SPARES.get(path, ()))
        before = self.chosen.get(key)
        self.chosen[key] = candidate if before is None else _better(before, candidate, is_many=of_many)

    def _stack(self, entry: Entry) -> tuple[Target, ...]:
        """The target of the next stack or die; none of one whose temperature is not printed."""
        if entry.path not in STACKS:
            return ()
        self._stacks[entry.path] += 1
        sensor = f"{STACKS[entry.path]}{self._stacks[entry.path] - 1}"
        return (temperature(sensor),) if known(entry.text) is not None else ()

    def _take_level(self, entry: Entry) -> None:
        word = level_of(entry.text)
        if not isinstance(word, Absent):
            self.levels = states(self._device, "performance_level", word)
        else:
            self.levels = ()
            if known(entry.text) is not None or not entry.text.strip():
                item = reading(self._device, "performance_level", Absent.NOT_UNDERSTOOD)
                self._draft.complain_of(item, entry.text, entry.where)


def _better(one: tuple[Reading, bool], other: tuple[Reading, bool], *, is_many: bool) -> tuple[Reading, bool]:
    """A number before none, the main key before a spare one, the higher of many."""
    if isinstance(other[0].value, Absent):
        return one
    if isinstance(one[0].value, Absent) or (one[1] and not other[1]):
        return other
    return other if is_many and one[1] == other[1] and other[0].value > one[0].value else one


def _of_a_family(path: Path) -> tuple[Target, ...]:
    """The target of a key in which a name is the label: a RAS block, a reason to throttle, a sensor of a board."""
    if path[0] == "ecc_blocks" and len(path) == 3 and path[2] in ECC_COUNTS and _WORD.match(path[1]):
        return (metric(ECC_COUNTS[path[2]], path[1]),)
    if path[0] == "throttle" and 2 <= len(path) <= 4 and path[1].endswith(VIOLATION_END):
        reason = path[1].removesuffix(VIOLATION_END)
        if _WORD.match(reason):
            return (switch("throttled", ACTIVE, reason),)
    if len(path) == 3 and path[0] in BOARDS and path[1] == "temperature" and _WORD.match(path[2]):
        return (temperature(board_sensor(path[2])),)
    return ()


def _elsewhere(path: Path) -> bool:
    """Whether a path belongs to what links and processes read, or gives no reading below a family's name."""
    return (
        path[0] in ("ecc_blocks", "throttle", "csv", "partition_id") or processes.is_mine(path) or links.is_mine(path)
    )
