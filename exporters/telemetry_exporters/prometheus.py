"""Prometheus text 0.0.4 and OpenMetrics 1.0 from a snapshot, byte for byte as prometheus_client writes them.

For 128 devices with 60 readings each, prometheus_client takes some 70 ms and this some 10 ms: the name and labels of a
series hardly ever change, so they are made once and kept as long as the series is there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import lru_cache

from telemetry_exporters.families import Family, Labels, Owner, Series, families
from telemetry_exporters.screen import NO_METRICS, family_name
from telemetry_parsers.model import Metric, Snapshot

EOF = b"# EOF\n"

# From here on Go writes an exponent, and so do we.
_EXPONENT_FROM = 1e6
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})

# By owner and word of the metric's own label.
_Prefixes = dict[tuple[Owner, str], str]


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
    head = f"# HELP {name} {metric.help.translate(_LABEL_ESCAPES)}\n# TYPE {name} {metric.kind}\n"
    has_unit = metric.unit and metric.kind != "info" and name.endswith("_" + metric.unit)
    return f"{head}# UNIT {name} {metric.unit}\n" if has_unit else head


_HEADS: Mapping[Syntax, Callable[[Metric], str]] = {Syntax.TEXT: text_head, Syntax.OPENMETRICS: openmetrics_head}


@lru_cache(maxsize=512)  # clocks and memory sizes are a few numbers told again and again
def _with_exponent(value: float) -> str:
    digits = repr(value)
    point = digits.find(".")
    if point <= 1:
        return digits  # Python has written an exponent by itself
    mantissa = f"{digits[0]}.{digits[1:point]}{digits[point + 1 :]}".rstrip("0.")
    return f"{mantissa}e+{point - 1:02d}"


def _prefix(family: Family, series: Series) -> str:
    """A line without its value; the labels are sorted by name, as in prometheus_client."""
    labels = sorted(family.labels(series))
    pairs = ",".join(f'{label}="{value.translate(_LABEL_ESCAPES)}"' for label, value in labels)
    return f"{family.metric.name}{{{pairs}}} " if pairs else f"{family.metric.name} "


class Renderer:
    """Makes page after page of one node; it keeps the beginnings of its last page's lines, and no others."""

    def __init__(self, extra: Mapping[str, Metric] = NO_METRICS) -> None:
        self._extra = extra
        self._owners: dict[Labels, Owner] = {}
        self._prefixes: dict[str, _Prefixes] = {}

    def text(self, snapshot: Snapshot) -> bytes:
        """The page in text 0.0.4."""
        return self.page(snapshot, Syntax.TEXT)

    def page(self, snapshot: Snapshot, syntax: Syntax) -> bytes:
        """The page in that syntax; OpenMetrics without its end (`EOF`), so that other families can follow."""
        owners: dict[Labels, Owner] = {}
        prefixes: dict[str, _Prefixes] = {}
        parts: list[str] = []

        def owner_of(labels: Labels) -> Owner:
            return owners.setdefault(labels, self._owners.get(labels) or Owner(labels))

        for family in families(snapshot, self._extra, owner_of):
            name = family.metric.name
            parts.append(_HEADS[syntax](family.metric))
            prefixes[name] = _add_lines(family, self._prefixes.get(name, {}), parts)
        self._owners, self._prefixes = owners, prefixes
        return "".join(parts).encode()


def _add_lines(family: Family, prefixes: _Prefixes, lines: list[str]) -> _Prefixes:
    """Adds a line for each series; returns the beginnings of these lines and no others."""
    for series in family.series:
        owner, word, value = series
        prefix = prefixes.get((owner, word))
        if prefix is None:
            prefix = prefixes[(owner, word)] = _prefix(family, series)
        lines.append(f"{prefix}{value!r}\n" if value < _EXPONENT_FROM else f"{prefix}{_with_exponent(value)}\n")
    if len(prefixes) == len(family.series):
        return prefixes
    return {(owner, word): prefixes[(owner, word)] for owner, word, _ in family.series}


def text_page(snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS) -> bytes:
    """One whole page in text 0.0.4."""
    return Renderer(extra).text(snapshot)
