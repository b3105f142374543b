"""Renders a snapshot as Prometheus text 0.0.4 or OpenMetrics 1.0."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import itemgetter
from typing import Any

from telemetry_exporters.prometheus.daemon_samples import DaemonSamples
from telemetry_exporters.prometheus.families import (
    NO_OWNERS,
    Columns,
    Family,
    OwnerSeries,
    SeriesNames,
    SharedLabels,
    columns_of,
    families,
)
from telemetry_exporters.prometheus.labels import Labels
from telemetry_exporters.snapshot_filter import NO_METRICS, Metrics, clean_snapshot, family_name
from telemetry_parsers.model import Absent, Metric, Snapshot, Value

EOF = b"# EOF\n"

# Numbers of this size or more are written with an exponent, as Go's client library does.
_EXPONENT_FROM = 1e6
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Syntax(enum.Enum):
    """The syntax of a page: Prometheus' text format 0.0.4 or OpenMetrics 1.0."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"


def text_header(metric: Metric) -> str:
    """Return the HELP and TYPE lines in text format 0.0.4."""
    kind = "gauge" if metric.kind == "info" else metric.kind
    return f"# HELP {metric.name} {metric.help.translate(_HELP_ESCAPES)}\n# TYPE {metric.name} {kind}\n"


def openmetrics_header(metric: Metric) -> str:
    """Return the HELP, TYPE and UNIT lines in OpenMetrics."""
    name = family_name(metric)
    # An OpenMetrics counter must end with `_total`, so other counters become `unknown`.
    kind = "unknown" if metric.kind == "counter" and name == metric.name else metric.kind
    head = f"# HELP {name} {metric.help.translate(_LABEL_ESCAPES)}\n# TYPE {name} {kind}\n"
    has_unit = metric.unit and metric.kind != "info" and name.endswith("_" + metric.unit)
    return f"{head}# UNIT {name} {metric.unit}\n" if has_unit else head


HEADERS: Mapping[Syntax, Callable[[Metric], str]] = {Syntax.TEXT: text_header, Syntax.OPENMETRICS: openmetrics_header}


def _format_with_exponent(value: float) -> str:
    digits = repr(value)
    point = digits.find(".")
    if point <= 1:
        return digits  # these digits already have an exponent
    mantissa = f"{digits[0]}.{digits[1:point]}{digits[point + 1 :]}".rstrip("0.")
    return f"{mantissa}e+{point - 1:02d}"


class PageTemplate:
    """The lines of a page without their numbers, for snapshots with the same series."""

    def __init__(self, names: SeriesNames, families: Iterable[Family], value_count: int) -> None:
        """Prepare the lines of a page. `value_count` is the number of values in the columns."""
        families = tuple(families)
        positions = [position for family in families for _, _, position in family.series]
        info_series = [series for family in families if family.metric.kind == "info" for series in family.series]
        self._names = names
        self._pick_numbers = _make_picker(positions)
        self._pick_infos = _make_picker([position for _, _, position in info_series])
        self._pick_absences = _make_picker(sorted(set(range(value_count)).difference(positions)))
        self._last_numbers: tuple[float, ...] = (math.nan,) * len(positions)  # NaN differs from every number
        # Texts and numbers alternate. Each text ends a line and begins the next line, up to its number.
        self._pieces = [""] * 2 * len(positions)
        self._pieces[::2] = _line_prefixes(families)
        self._family_starts = {syntax: tuple(self._first_lines(families, header)) for syntax, header in HEADERS.items()}

    def _first_lines(self, families: Iterable[Family], header: Callable[[Metric], str]) -> Iterator[tuple[int, str]]:
        """Yield (index in `_pieces`, header and first line) for each family."""
        position = 0
        for family in families:
            yield position, f"\n{header(family.metric)}{self._pieces[position][1:]}"
            position += 2 * len(family.series)

    def is_valid_for(self, columns: Columns) -> bool:
        """Return whether the columns have the template's names and absent values, and only valid numbers."""
        if columns.names != self._names:
            return False
        numbers = self._pick_numbers(columns.values)
        return (
            _are_finite(numbers)
            and set(self._pick_infos(columns.values)) <= {1.0}
            and set(map(type, self._pick_absences(columns.values))) <= {Absent}
        )

    def page(self, values: tuple[Value, ...], syntax: Syntax) -> bytes:
        """Return the page with these values."""
        numbers = self._pick_numbers(values)
        texts = [
            text if new == old else repr(new + 0.0) if new < _EXPONENT_FROM else _format_with_exponent(new + 0.0)
            for new, old, text in zip(numbers, self._last_numbers, self._pieces[1::2], strict=True)
        ]
        self._last_numbers, self._pieces[1::2] = numbers, texts
        pieces = self._pieces[:]
        for position, line in self._family_starts[syntax]:
            pieces[position] = line
        return "".join(pieces)[1:].encode() + b"\n" if pieces else b""


def _make_picker(positions: Sequence[int]) -> Callable[[tuple[Value, ...]], tuple[Any, ...]]:
    # itemgetter returns a tuple only for two positions or more.
    return itemgetter(*positions) if len(positions) > 1 else partial(_pick_few, positions)


def _pick_few(positions: Sequence[int], values: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple([values[position] for position in positions])


def _are_finite(values: tuple[Any, ...]) -> bool:
    try:
        # A finite sum proves that all numbers are finite. An infinite sum may be an overflow.
        return math.isfinite(sum(values)) or all(map(math.isfinite, values))
    except TypeError:  # an absent reading
        return False


def _line_prefixes(families: Iterable[Family]) -> Iterator[str]:
    label_texts = cache(_label_texts)
    line_parts = cache(lambda shared, label: _line_parts(label_texts(shared), label))
    for family in families:
        name, label = family.metric.name, family.metric.label
        for shared, label_value, _ in family.series:
            before, after = line_parts(shared, label)
            yield f"\n{name}{before}{label_value.translate(_LABEL_ESCAPES)}{after}"


def _label_texts(shared: SharedLabels) -> Labels:
    """Return (name, `name="value"`) for each label, sorted by name."""
    return tuple([(name, f'{name}="{value.translate(_LABEL_ESCAPES)}"') for name, value in sorted(shared.labels)])


def _line_parts(label_texts: Labels, label: str) -> tuple[str, str]:
    """Return the parts of a line before and after the value of `label`. Without a label, the second part is empty."""
    before = [text for name, text in label_texts if name < label]
    after = [text for name, text in label_texts if name > label]
    if label:
        return "{" + ",".join([*before, f'{label}="']), ",".join(['"', *after]) + "} "
    return (f"{{{','.join(after)}}} " if after else " "), ""


class Renderer:
    """Renders successive pages of a node, and keeps the lines while its series stay the same."""

    def __init__(self, plugin_metrics: Metrics = NO_METRICS, owner_series: OwnerSeries = NO_OWNERS) -> None:
        self._plugin_metrics = plugin_metrics
        self._owner_series = owner_series
        self._daemon_samples = DaemonSamples()
        self._template = PageTemplate(SeriesNames(), (), 0)

    def text(self, snapshot: Snapshot) -> bytes:
        """Return the page in text format 0.0.4."""
        return self.page(snapshot, Syntax.TEXT)

    def page(self, snapshot: Snapshot, syntax: Syntax) -> bytes:
        """Return the page. OpenMetrics pages still need a final `# EOF`."""
        columns = columns_of(snapshot, self._daemon_samples, self._owner_series)
        if not self._template.is_valid_for(columns):
            snapshot = clean_snapshot(snapshot, self._plugin_metrics)
            columns = columns_of(snapshot, self._daemon_samples, self._owner_series)
            self._template = PageTemplate(
                columns.names, families(snapshot, columns, self._plugin_metrics), len(columns.values)
            )
        return self._template.page(columns.values, syntax)


def text_page(snapshot: Snapshot, plugin_metrics: Metrics = NO_METRICS, owner_series: OwnerSeries = NO_OWNERS) -> bytes:
    """Return a page in text format 0.0.4."""
    return Renderer(plugin_metrics, owner_series).text(snapshot)
