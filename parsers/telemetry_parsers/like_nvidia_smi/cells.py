"""Columns of a framed table: the pattern of the values below a heading, and their targets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent
from telemetry_parsers.reports.targets import Target, fact, identity, metric

# A word without a digit is no number: N/A, ERR!, [Not Supported]; units.py has its meaning.
_NOTHING = r"\[?(?:N/A|Not Supported|[A-Za-z!?#*_\-]{1,24})\]?"
_BLANK = r"[ \t]{1,80}"
_MAYBE_BLANK = r"[ \t]{0,80}"


def _quantity(unit: str) -> str:
    number = rf"-?[0-9]{{1,12}}(?:\.[0-9]{{1,6}})?[ \t]{{0,4}}(?:{unit})"
    return rf"(?:{number}|{_NOTHING}(?:[ \t]{{0,4}}(?:{unit}))?)"


# A first half that is no number must be one of these words, because any other may belong to the previous column.
_NO_HALF = r"\[?(?:N/?A|Not Supported|ERR!?|Unknown(?: Error)?|-{1,3})\]?"


def _first_half(unit: str) -> str:
    return rf"(?:-?[0-9]{{1,12}}(?:\.[0-9]{{1,6}})?[ \t]{{0,4}}(?:{unit})|{_NO_HALF}(?:[ \t]{{0,4}}(?:{unit}))?)"


_BYTES = _quantity(r"[KMGT]i?B|B")
_WATTS = _quantity(r"m?[Ww]")

ID = r"([0-9]{1,4})"
WORD = r"(\S{1,60})"
NAME = r"(\S{1,60}(?: \S{1,60}){0,7}?)"
PERCENT = f"({_quantity('%')})"
CELSIUS = f"({_quantity('°C|℃|C|c')})"
# A tool that supports ASCII only has removed the degree sign.
BARE_CELSIUS = f"({_quantity('°C|℃|C|c|')})"
WATTS = f"({_WATTS})"
CLOCK = f"({_quantity('[MGKk]?[Hh]z')})"
BYTES = f"({_BYTES})"
COUNT = f"({_quantity('')})"
STATE = rf"(P[0-9]{{1,2}}|{_NOTHING})"
BUS = r"([0-9a-fA-F:.]{6,20}|N/?A|-)"
# `29W / 225W`, `97W / NA`, `106 W/ 250 W`, `105W  300W`, or one placeholder for both.
WATTS_PAIR = rf"(?:{_NOTHING}|({_first_half('m?[Ww]')}){_MAYBE_BLANK}(?:/|[ \t]){_MAYBE_BLANK}({_WATTS}))"
# `858/65536 MiB`: the unit of both may follow the second only.
BYTES_PAIR = rf"(?:{_NOTHING}|({_first_half('[KMGT]i?B|B|')}){_MAYBE_BLANK}/{_MAYBE_BLANK}({_BYTES}))"
# `On` or `Off` after a name. Another word counts only after two blanks, else it is the end of the name.
SWITCH = r"((?:[Oo]n|[Oo]ff|[Ee]nabled?|[Dd]isabled?|N/?A|-)|(?<=[ \t][ \t])\S{1,60})"
_UNIT = re.compile(r"[A-Za-z]{1,3}\Z")


@dataclass(frozen=True, slots=True)
class Column:
    """The pattern of a column's values; each group has its targets."""

    pattern: str
    gives: tuple[tuple[Target, ...], ...] = ()


def column(pattern: str, *gives: Target | tuple[Target, ...]) -> Column:
    """Return a column whose groups have these targets; nothing for groups without targets."""
    return Column(pattern, tuple(targets if isinstance(targets, tuple) else (targets,) for targets in gives))


UNKNOWN = Column(WORD)
QUIET = Column(WORD)
_QUIET_SWITCH = Column(SWITCH)
_NO_ECC = {"disabled": Absent.NOT_SUPPORTED, "off": Absent.NOT_SUPPORTED}
# Headings that tools took over from nvidia-smi with the values below them.
_USUAL: Mapping[str, Column] = {
    "name": column(NAME, identity("model")),
    "persistence-m": _QUIET_SWITCH,
    "bus-id": column(BUS, identity("bus_id")),
    "disp.a": QUIET,
    "volatile uncorr. ecc": column(COUNT, metric("ecc_uncorrected_total", "all", words=_NO_ECC)),
    "fan": column(PERCENT, metric("fan_ratio")),
    "temp": column(CELSIUS, metric("temperature_celsius", "core")),
    "perf": column(STATE, metric("performance_state")),
    "pwr:usage/cap": column(WATTS_PAIR, metric("power_watts"), metric("power_cap_watts")),
    "memory-usage": column(BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
    "gpu-util": column(PERCENT, metric("utilization_ratio")),
    "compute m.": column(NAME, fact("compute_mode")),
}


def usual(*headings: str) -> Mapping[str, Column]:
    """Return the columns of these headings with nvidia-smi's meaning."""
    return {heading: _USUAL[heading] for heading in headings}


Pairs = list[tuple[tuple[Target, ...], str]]


@dataclass(frozen=True, slots=True)
class CellReader:
    """A reader of the cells below these columns, from left to right."""

    columns: tuple[Column, ...]
    pattern: re.Pattern[str]
    counts: tuple[int, ...]

    def read(self, text: str) -> Pairs | None:
        """Return the texts with their targets, or None if the cell does not match its columns."""
        match = self.pattern.match(text)
        if match is None:
            return None
        pairs: Pairs = []
        group = 1
        for cell, count in zip(self.columns, self.counts, strict=True):
            texts = [match[group + at] or "" for at in range(count)]
            pairs.extend(zip(cell.gives, _with_units(texts) if cell.pattern == BYTES_PAIR else texts, strict=False))
            group += count
        return pairs

    def read_start(self, text: str) -> Pairs:
        """Return the texts with their targets in a cell inside which the text ends, without the last word, which may be a fragment."""
        words = text[: max(text.rfind(sign) for sign in " \t()") + 1]
        for count in range(len(self.columns), 0, -1):
            texts = _reader_of(self.columns[:count]).read(words)
            last = self.columns[count - 1]
            if texts is not None:
                return texts[: len(texts) - len(last.gives)] if last.pattern == NAME else texts
        return []


def cell_reader(names: Sequence[str], columns: Mapping[str, Column]) -> CellReader:
    """Return the reader of the cells below these headings."""
    return _reader_of(tuple(columns.get(name, UNKNOWN) for name in names))


def _reader_of(columns: tuple[Column, ...]) -> CellReader:
    pattern = _BLANK.join(cell.pattern for cell in columns)
    counts = tuple(re.compile(cell.pattern).groups for cell in columns)
    return CellReader(columns, re.compile(rf"{_MAYBE_BLANK}{pattern}{_MAYBE_BLANK}\Z"), counts)


def _with_units(texts: list[str]) -> list[str]:
    """Return a pair of texts; if the first number has no unit, it gets the unit of the second."""
    if len(texts) == 2 and units.whole(texts[0]) is not None:
        unit = _UNIT.search(texts[1])
        return [f"{texts[0]} {unit[0]}" if unit else texts[0], texts[1]]
    return texts
