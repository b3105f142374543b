"""Prometheus text 0.0.4 and OpenMetrics 1.0 from a snapshot, byte for byte as prometheus_client writes them.

The renderer plans the lines of a page and fills in the numbers. The plan stays valid until a name, label or absence changes.
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

# From this number on, Go writes an exponent, and so does this module.
_EXPONENT_FROM = 1e6
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Syntax(enum.Enum):
    """The syntax of a page."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"


def text_head(metric: Metric) -> str:
    """Return HELP and TYPE in text 0.0.4, which has no info type."""
    kind = "gauge" if metric.kind == "info" else metric.kind
    return f"# HELP {metric.name} {metric.help.translate(_HELP_ESCAPES)}\n# TYPE {metric.name} {kind}\n"


def openmetrics_head(metric: Metric) -> str:
    """Return HELP, TYPE and UNIT in OpenMetrics, in which the family's name must end with the unit."""
    name = family_name(metric)
    # OpenMetrics has no counters without `_total`. Those of other exporters are `unknown`, so that samples keep their names.
    kind = "unknown" if metric.kind == "counter" and name == metric.name else metric.kind
    head = f"# HELP {name} {metric.help.translate(_LABEL_ESCAPES)}\n# TYPE {name} {kind}\n"
    has_unit = metric.unit and metric.kind != "info" and name.endswith("_" + metric.unit)
    return f"{head}# UNIT {name} {metric.unit}\n" if has_unit else head


HEADS: Mapping[Syntax, Callable[[Metric], str]] = {Syntax.TEXT: text_head, Syntax.OPENMETRICS: openmetrics_head}


def _with_exponent(value: float) -> str:
    digits = repr(value)
    point = digits.find(".")
    if point <= 1:
        return digits  # with an exponent by Python
    mantissa = f"{digits[0]}.{digits[1:point]}{digits[point + 1 :]}".rstrip("0.")
    return f"{mantissa}e+{point - 1:02d}"


class Plan:
    """The lines of a page: the text before each number, and the position of the number among a snapshot's values."""

    def __init__(self, names: Names, found: Iterable[Family], count: int) -> None:
        """Plan the page of these families of a screened snapshot with `count` values."""
        families = tuple(found)
        positions = [position for family in families for _, _, position in family.series]
        infos = [position for family in families if family.metric.kind == "info" for _, _, position in family.series]
        self._names = names
        self._numbers_in = _picker(positions)
        self._infos_in = _picker(infos)
        self._absences_in = _picker(sorted(set(range(count)).difference(positions)))
        self._numbers: tuple[float, ...] = (math.nan,) * len(positions)  # NaN equals no number
        # Alternately the text before a number and the number's text. The heads of families are added later.
        self._pieces = [""] * 2 * len(positions)
        self._pieces[::2] = _beginnings(families)
        self._firsts = {syntax: tuple(self._with_heads(families, head)) for syntax, head in HEADS.items()}

    def _with_heads(self, families: Iterable[Family], head: Callable[[Metric], str]) -> Iterator[tuple[int, str]]:
        """Yield the families' first lines with their heads, each with its position among the pieces."""
        position = 0
        for family in families:
            yield position, f"\n{head(family.metric)}{self._pieces[position][1:]}"
            position += 2 * len(family.series)

    def holds(self, columns: Columns) -> bool:
        """Return whether the page of these columns has these lines and only valid values."""
        if columns.names != self._names:
            return False
        numbers = self._numbers_in(columns.values)
        return (
            _are_finite(numbers)
            and set(self._infos_in(columns.values)) <= {1.0}
            and set(map(type, self._absences_in(columns.values))) <= {Absent}
        )

    def page(self, values: tuple[Value, ...], syntax: Syntax) -> bytes:
        """Return the page with these values in that syntax."""
        numbers = self._numbers_in(values)
        texts = [
            text if new == old else repr(new + 0.0) if new < _EXPONENT_FROM else _with_exponent(new + 0.0)
            for new, old, text in zip(numbers, self._numbers, self._pieces[1::2], strict=True)
        ]
        self._numbers, self._pieces[1::2] = numbers, texts
        pieces = self._pieces[:]
        for position, first in self._firsts[syntax]:
            pieces[position] = first
        return "".join(pieces)[1:].encode() + b"\n" if pieces else b""


def _picker(positions: Sequence[int]) -> Callable[[tuple[Value, ...]], tuple[Any, ...]]:
    """Return a function that picks the values at these positions."""
    # itemgetter returns a tuple only for two positions or more.
    return itemgetter(*positions) if len(positions) > 1 else partial(_pick_few, positions)


def _pick_few(positions: Sequence[int], values: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple([values[position] for position in positions])


def _are_finite(values: tuple[Any, ...]) -> bool:
    """Return whether all values are finite numbers."""
    try:
        # One sum is almost always enough, but the sum of finite numbers may be infinite.
        return math.isfinite(sum(values)) or all(map(math.isfinite, values))
    except TypeError:  # an absent reading
        return False


def _beginnings(families: Iterable[Family]) -> Iterator[str]:
    """Yield the end of the line before, with name and labels of each series. Labels are sorted by name, as in prometheus_client."""
    pairs_of = cache(_pairs)
    halves = cache(lambda owner, label: _halves(pairs_of(owner), label))
    for family in families:
        name, label = family.metric.name, family.metric.label
        for owner, word, _ in family.series:
            before, after = halves(owner, label)
            yield f"\n{name}{before}{word.translate(_LABEL_ESCAPES)}{after}"


def _pairs(owner: Owner) -> Labels:
    """Return the owner's labels in order, each with its name and as text."""
    return tuple([(name, f'{name}="{value.translate(_LABEL_ESCAPES)}"') for name, value in sorted(owner.labels)])


def _halves(pairs: Labels, label: str) -> tuple[str, str]:
    """Return the labels of a line before and after the word of the metric's own label."""
    before = [text for name, text in pairs if name < label]
    after = [text for name, text in pairs if name > label]
    if label:
        return "{" + ",".join([*before, f'{label}="']), ",".join(['"', *after]) + "} "
    return (f"{{{','.join(after)}}} " if after else " "), ""


class Renderer:
    """Renders successive pages of one node. It keeps the plan of its last page."""

    def __init__(self, extra: Mapping[str, Metric] = NO_METRICS, of_owners: OwnerSeries = PLAIN) -> None:
        self._extra = extra
        self._of_owners = of_owners
        self._own = OwnSamples()
        self._plan = Plan(Names(), (), 0)

    def text(self, snapshot: Snapshot) -> bytes:
        """Return the page in text 0.0.4."""
        return self.page(snapshot, Syntax.TEXT)

    def page(self, snapshot: Snapshot, syntax: Syntax) -> bytes:
        """Return the page in that syntax; OpenMetrics without its end (`EOF`), so that other families can follow."""
        columns = columns_of(snapshot, self._own, self._of_owners)
        if not self._plan.holds(columns):
            shown = screen(snapshot, self._extra)
            columns = columns_of(shown, self._own, self._of_owners)
            self._plan = Plan(columns.names, families(shown, columns, self._extra), len(columns.values))
        return self._plan.page(columns.values, syntax)


def text_page(snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS, of_owners: OwnerSeries = PLAIN) -> bytes:
    """Return one page in text 0.0.4."""
    return Renderer(extra, of_owners).text(snapshot)
