"""Columns of a framed table, with their value patterns and metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent
from telemetry_parsers.reports.targets import Target, fact, identity, metric

# A word without a digit may replace a number: N/A, ERR!, [Not Supported].
_PLACEHOLDER = r"\[?(?:N/A|Not Supported|[A-Za-z!?#*_\-]{1,24})\]?"
_BLANKS = r"[ \t]{1,80}"
_OPTIONAL_BLANKS = r"[ \t]{0,80}"


def _quantity_pattern(unit: str, placeholder: str = _PLACEHOLDER) -> str:
    number = rf"-?[0-9]{{1,12}}(?:\.[0-9]{{1,6}})?[ \t]{{0,4}}(?:{unit})"
    return rf"(?:{number}|{placeholder}(?:[ \t]{{0,4}}(?:{unit}))?)"


# Unknown words are not accepted as the first value of a pair, because they may belong to the previous column.
_KNOWN_PLACEHOLDER = r"\[?(?:N/?A|Not Supported|ERR!?|Unknown(?: Error)?|-{1,3})\]?"
_FIRST_BYTES = _quantity_pattern(r"[KMGT]i?B|B|", _KNOWN_PLACEHOLDER)
_FIRST_WATTS = _quantity_pattern(r"m?[Ww]", _KNOWN_PLACEHOLDER)
_BYTES = _quantity_pattern(r"[KMGT]i?B|B")
_WATTS = _quantity_pattern(r"m?[Ww]")

ID = r"([0-9]{1,4})"
WORD = r"(\S{1,60})"
NAME = r"(\S{1,60}(?: \S{1,60}){0,7}?)"
PERCENT = f"({_quantity_pattern('%')})"
CELSIUS = f"({_quantity_pattern('°C|℃|C|c')})"
# Also matches a number without a unit, because a conversion to ASCII may have removed `℃`.
BARE_CELSIUS = f"({_quantity_pattern('°C|℃|C|c|')})"
WATTS = f"({_WATTS})"
CLOCK = f"({_quantity_pattern('[MGKk]?[Hh]z')})"
BYTES = f"({_BYTES})"
COUNT = f"({_quantity_pattern('')})"
PERFORMANCE_STATE = rf"(P[0-9]{{1,2}}|{_PLACEHOLDER})"
BUS = r"([0-9a-fA-F:.]{6,20}|N/?A|-)"
# Power and limit: `29W / 225W`, `97W / NA`, `106 W/ 250 W`, `105W  300W`, or a single placeholder for both.
WATTS_PAIR = rf"(?:{_PLACEHOLDER}|({_FIRST_WATTS}){_OPTIONAL_BLANKS}(?:/|[ \t]){_OPTIONAL_BLANKS}({_WATTS}))"
# Memory such as `858/65536 MiB`: the unit may be printed only once, after the second number.
BYTES_PAIR = rf"(?:{_PLACEHOLDER}|({_FIRST_BYTES}){_OPTIONAL_BLANKS}/{_OPTIONAL_BLANKS}({_BYTES}))"
# `On` or `Off` after a name. Other words must be preceded by two blanks, because a name may contain single blanks.
SWITCH = r"((?:[Oo]n|[Oo]ff|[Ee]nabled?|[Dd]isabled?|N/?A|-)|(?<=[ \t][ \t])\S{1,60})"
_UNIT = re.compile(r"[A-Za-z]{1,3}\Z")


@dataclass(frozen=True, slots=True)
class Column:
    """The regex that a column's values match, and the targets for each of its groups."""

    pattern: str
    targets: tuple[tuple[Target, ...], ...] = ()


def column(pattern: str, *targets: Target | tuple[Target, ...]) -> Column:
    """Return a column. Pass a target, a tuple of targets or `()` for each group of the pattern."""
    return Column(pattern, tuple(item if isinstance(item, tuple) else (item,) for item in targets))


_UNKNOWN_COLUMN = Column(WORD)
IGNORED = Column(WORD)
_IGNORED_SWITCH = Column(SWITCH)
_ECC_OFF_WORDS = {"disabled": Absent.NOT_SUPPORTED, "off": Absent.NOT_SUPPORTED}
# Headings that several tools share with nvidia-smi.
_NVIDIA_SMI_COLUMNS: Mapping[str, Column] = {
    "name": column(NAME, identity("model")),
    "persistence-m": _IGNORED_SWITCH,
    "bus-id": column(BUS, identity("bus_id")),
    "disp.a": IGNORED,
    "volatile uncorr. ecc": column(COUNT, metric("ecc_uncorrected_total", "all", words=_ECC_OFF_WORDS)),
    "fan": column(PERCENT, metric("fan_ratio")),
    "temp": column(CELSIUS, metric("temperature_celsius", "core")),
    "perf": column(PERFORMANCE_STATE, metric("performance_state")),
    "pwr:usage/cap": column(WATTS_PAIR, metric("power_watts"), metric("power_cap_watts")),
    "memory-usage": column(BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
    "gpu-util": column(PERCENT, metric("utilization_ratio")),
    "compute m.": column(NAME, fact("compute_mode")),
}


def nvidia_smi_columns(*headings: str) -> Mapping[str, Column]:
    """Return the columns that nvidia-smi prints below the given headings."""
    return {heading: _NVIDIA_SMI_COLUMNS[heading] for heading in headings}


# The text of each value in a cell, with its targets.
TargetTextPairs = list[tuple[tuple[Target, ...], str]]


@dataclass(frozen=True, slots=True)
class CellReader:
    """Reads the values in a table cell, which may contain the values of several columns."""

    columns: tuple[Column, ...]
    pattern: re.Pattern[str]
    group_counts: tuple[int, ...]

    def read(self, text: str) -> TargetTextPairs | None:
        """Return (targets, text) for each value in a cell, or None if the pattern does not match."""
        match = self.pattern.match(text)
        if match is None:
            return None
        pairs: TargetTextPairs = []
        group_texts = iter(match.groups(default=""))
        for column, group_count in zip(self.columns, self.group_counts, strict=True):
            texts = [*islice(group_texts, group_count)]
            texts = _with_shared_unit(texts) if column.pattern == BYTES_PAIR else texts
            pairs.extend(zip(column.targets, texts, strict=False))
        return pairs

    def read_start(self, text: str) -> TargetTextPairs:
        """Return the values of a truncated cell. The last word is ignored, because it may be incomplete."""
        complete_text = text[: max(text.rfind(separator) for separator in " \t()") + 1]
        for column_count in range(len(self.columns), 0, -1):
            pairs = _create_reader(self.columns[:column_count]).read(complete_text)
            last_column = self.columns[column_count - 1]
            if pairs is not None:
                return pairs[: len(pairs) - len(last_column.targets)] if last_column.pattern == NAME else pairs
        return []


def cell_reader(headings: Sequence[str], columns: Mapping[str, Column]) -> CellReader:
    """Return a reader for cells below these headings."""
    return _create_reader(tuple(columns.get(heading, _UNKNOWN_COLUMN) for heading in headings))


def _create_reader(columns: tuple[Column, ...]) -> CellReader:
    pattern = _BLANKS.join(column.pattern for column in columns)
    group_counts = tuple(re.compile(column.pattern).groups for column in columns)
    return CellReader(columns, re.compile(rf"{_OPTIONAL_BLANKS}{pattern}{_OPTIONAL_BLANKS}\Z"), group_counts)


def _with_shared_unit(texts: list[str]) -> list[str]:
    """Repeat a unit that is printed only once: `858` and `65536 MiB` become `858 MiB` and `65536 MiB`."""
    if len(texts) == 2 and units.integer(texts[0]) is not None:
        unit = _UNIT.search(texts[1])
        return [f"{texts[0]} {unit[0]}" if unit else texts[0], texts[1]]
    return texts
