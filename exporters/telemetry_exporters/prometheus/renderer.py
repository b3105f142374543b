"""Prometheus text 0.0.4 and OpenMetrics 1.0 from a snapshot, byte for byte as prometheus_client writes them.

A renderer plans a page: which lines it has, and where among a snapshot's values the number of each is. Then it fills the plan with
the numbers. The next page has the same plan, unless another name, label or absence changed its lines.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import itemgetter
from typing import Any

from telemetry_exporters.prometheus.families import (
    PLAIN,
    Columns,
    Family,
    Names,
    Owner,
    OwnerSeries,
    columns_of,
    families,
)
from telemetry_exporters.prometheus.labels import Labels
from telemetry_exporters.prometheus.own import OwnSamples
from telemetry_exporters.snapshot_filter import NO_METRICS, family_name, screen
from telemetry_parsers.model import Absent, Metric, Snapshot, Value

EOF = b"# EOF\n"

# From here on Go writes an exponent, and so do we.
_EXPONENT_FROM = 1e6
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Syntax(enum.Enum):
    """How a page is written."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"


def text_head(metric: Metric) -> str:
    """HELP and TYPE in text 0.0.4, which has no info type."""
    kind = "gauge" if metric.kind == "info" else metric.kind
    return f"# HELP {metric.name} {metric.help.translate(_HELP_ESCAPES)}\n# TYPE {metric.name} {kind}\n"


def openmetrics_head(metric: Metric) -> str:
    """HELP, TYPE and UNIT in OpenMetrics, where the unit must be the end of the family's name."""
    name = family_name(metric)
    # Other exporters have counters without `_total`, which OpenMetrics has not: their samples keep their names.
    kind = "unknown" if metric.kind == "counter" and name == metric.name else metric.kind
    head = f"# HELP {name} {metric.help.translate(_LABEL_ESCAPES)}\n# TYPE {name} {kind}\n"
    has_unit = metric.unit and metric.kind != "info" and name.endswith("_" + metric.unit)
    return f"{head}# UNIT {name} {metric.unit}\n" if has_unit else head


_HEADS: Mapping[Syntax, Callable[[Metric], str]] = {Syntax.TEXT: text_head, Syntax.OPENMETRICS: openmetrics_head}


def _with_exponent(value: float) -> str:
    digits = repr(value)
    point = digits.find(".")
    if point <= 1:
        return digits  # Python has written an exponent by itself
    mantissa = f"{digits[0]}.{digits[1:point]}{digits[point + 1 :]}".rstrip("0.")
    return f"{mantissa}e+{point - 1:02d}"


class Plan:
    """The lines of a page: what stands before each number, and which of a snapshot's values the number is.

    It holds for all snapshots with the same names of which the same values are numbers. A page of one more of them costs the
    texts of those numbers that changed.
    """

    def __init__(self, names: Names, found: Iterable[Family], count: int) -> None:
        """Plan the page of these families of a screened snapshot, which has so many values."""
        families = tuple(found)
        places = [place for family in families for _, _, place in family.series]
        infos = [place for family in families if family.metric.kind == "info" for _, _, place in family.series]
        self._names = names
        self._numbers_in = _picker(places)
        self._infos_in = _picker(infos)
        self._absences_in = _picker(sorted(set(range(count)).difference(places)))
        self._numbers: tuple[float, ...] = (math.nan,) * len(places)  # equal to no number
        # What stands before each number, and its text, in turns; the first lines of families get their heads later.
        self._pieces = [""] * 2 * len(places)
        self._pieces[::2] = _beginnings(families)
        self._firsts = {syntax: tuple(self._with_heads(families, head)) for syntax, head in _HEADS.items()}

    def _with_heads(self, families: Iterable[Family], head: Callable[[Metric], str]) -> Iterator[tuple[int, str]]:
        """The families' first lines with their heads, each with its place among the pieces."""
        place = 0
        for family in families:
            yield place, f"\n{head(family.metric)}{self._pieces[place][1:]}"
            place += 2 * len(family.series)

    def holds(self, columns: Columns) -> bool:
        """Whether the page of these columns has these lines and nothing in it is unfit."""
        if columns.names != self._names:
            return False
        numbers = self._numbers_in(columns.values)
        return (
            _are_finite(numbers)
            and set(self._infos_in(columns.values)) <= {1.0}
            and set(map(type, self._absences_in(columns.values))) <= {Absent}
        )

    def page(self, values: tuple[Value, ...], syntax: Syntax) -> bytes:
        """The page with these values in that syntax."""
        numbers = self._numbers_in(values)
        texts = [
            text if new == old else repr(new + 0.0) if new < _EXPONENT_FROM else _with_exponent(new + 0.0)
            for new, old, text in zip(numbers, self._numbers, self._pieces[1::2], strict=True)
        ]
        self._numbers, self._pieces[1::2] = numbers, texts
        pieces = self._pieces[:]
        for place, first in self._firsts[syntax]:
            pieces[place] = first
        return "".join(pieces)[1:].encode() + b"\n" if pieces else b""


def _picker(places: Sequence[int]) -> Callable[[tuple[Value, ...]], tuple[Any, ...]]:
    """What picks the values at these places; `itemgetter` gives a tuple where there are several."""
    return itemgetter(*places) if len(places) > 1 else partial(_pick_few, places)


def _pick_few(places: Sequence[int], values: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple([values[place] for place in places])


def _are_finite(values: tuple[Any, ...]) -> bool:
    """Whether all are finite numbers."""
    try:
        # One sum tells it nearly always; the sum of finite numbers may be infinite, too.
        return math.isfinite(sum(values)) or all(map(math.isfinite, values))
    except TypeError:  # an absence is among them
        return False


def _beginnings(families: Iterable[Family]) -> Iterator[str]:
    """The end of the line before, and the name and labels of each series; labels are sorted by name, as in prometheus_client."""
    pairs_of = cache(_pairs)
    halves = cache(lambda owner, label: _halves(pairs_of(owner), label))
    for family in families:
        name, label = family.metric.name, family.metric.label
        for owner, word, _ in family.series:
            before, after = halves(owner, label)
            yield f"\n{name}{before}{word.translate(_LABEL_ESCAPES)}{after}"


def _pairs(owner: Owner) -> Labels:
    """The names of the owner's labels in order, each with the label as text."""
    return tuple([(name, f'{name}="{value.translate(_LABEL_ESCAPES)}"') for name, value in sorted(owner.labels)])


def _halves(pairs: Labels, label: str) -> tuple[str, str]:
    """The labels of a line as text: what comes before and after the word of the metric's own label, if it has one."""
    before = [text for name, text in pairs if name < label]
    after = [text for name, text in pairs if name > label]
    if label:
        return "{" + ",".join([*before, f'{label}="']), ",".join(['"', *after]) + "} "
    return (f"{{{','.join(after)}}} " if after else " "), ""


class Renderer:
    """Makes page after page of one node; it keeps the plan of its last page, and no other."""

    def __init__(self, extra: Mapping[str, Metric] = NO_METRICS, of_owners: OwnerSeries = PLAIN) -> None:
        self._extra = extra
        self._of_owners = of_owners
        self._own = OwnSamples()
        self._plan = Plan(Names(), (), 0)

    def text(self, snapshot: Snapshot) -> bytes:
        """The page in text 0.0.4."""
        return self.page(snapshot, Syntax.TEXT)

    def page(self, snapshot: Snapshot, syntax: Syntax) -> bytes:
        """The page in that syntax; OpenMetrics without its end (`EOF`), so that other families can follow."""
        columns = columns_of(snapshot, self._own, self._of_owners)
        if not self._plan.holds(columns):
            shown = screen(snapshot, self._extra).snapshot
            columns = columns_of(shown, self._own, self._of_owners)
            self._plan = Plan(columns.names, families(shown, columns, self._extra), len(columns.values))
        return self._plan.page(columns.values, syntax)


def text_page(snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS, of_owners: OwnerSeries = PLAIN) -> bytes:
    """One whole page in text 0.0.4."""
    return Renderer(extra, of_owners).text(snapshot)
