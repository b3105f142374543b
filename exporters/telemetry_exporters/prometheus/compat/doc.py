"""Formats the tables of other exporters as text and Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from telemetry_exporters.prometheus.compat import EXPORTERS, VERSIONS, load_table, table
from telemetry_exporters.text import aligned
from telemetry_parsers.metrics import BY_KEY

_WORDS_IN_BRACES = re.compile(r"\{([\w*,]+)\}")
_EXACT, _NEAR, _MISSING = "exact", "near", "missing"
# Factors that are easier to read as divisions.
_FACTORS = {1 / (1 << 20): " / 1,048,576", 1 / (1 << 10): " / 1,024", 1e-6: " / 1,000,000"}


class MetricMatch(NamedTuple):
    """A metric of another exporter, our metric for it, and how closely they agree."""

    name: str
    ours: str
    fit: str
    why: str


def metric_matches(exporter: table.ExporterTable) -> tuple[MetricMatch, ...]:
    """Return a match for each metric name of the exporter."""
    rows: tuple[table.Row | table.NodeRow, ...] = (*exporter.rows, *exporter.node_rows)
    served = (_match_row(exporter, row) for row in rows)
    missing = (
        MetricMatch(name, "", _MISSING, entry.why)
        for entry in exporter.missing
        for pattern in entry.names.split(", ")
        for name in _expand_braces(pattern)
    )
    return tuple(dict.fromkeys((*served, *missing)))


def _expand_braces(pattern: str) -> tuple[str, ...]:
    """Expand the braces in a pattern: `a_{b,c}` becomes `a_b` and `a_c`."""
    match = _WORDS_IN_BRACES.search(pattern)
    if match is None:
        return (pattern,)
    return tuple(f"{pattern[: match.start()]}{name}{pattern[match.end() :]}" for name in match[1].split(","))


def names_list(exporter: table.ExporterTable) -> str:
    """Return a line for each metric name of the exporter, with our metric for it."""
    rows = [(match.name, match.ours or "-", match.fit, match.why) for match in metric_matches(exporter)]
    return "".join(f"{line}\n" for line in aligned(rows))


def tables() -> str:
    """Return the tables of all exporters as Markdown."""
    return "\n".join(_section(load_table(name, version)) for name in EXPORTERS for version in VERSIONS.get(name, ("",)))


def dashboard_list(exporter: table.ExporterTable, used_names: Iterable[str], names_on_page: Iterable[str]) -> str:
    """Return a line for each metric name of a dashboard: `served`, or the reason why the name is not served."""
    matches_by_name = {match.name: match for match in metric_matches(exporter)}
    served_names = frozenset(names_on_page)
    texts = [
        (name, "served" if name in served_names else _reason_not_served(name, exporter, matches_by_name))
        for name in sorted(set(used_names))
    ]
    return "".join(f"{line}\n" for line in aligned(texts))


def _reason_not_served(name: str, exporter: table.ExporterTable, matches_by_name: dict[str, MetricMatch]) -> str:
    pattern_matches = (match for match in matches_by_name.values() if fnmatchcase(name, match.name))
    match = matches_by_name.get(name) or next(pattern_matches, None)
    if match is None:
        return f"not served: no known metric of {exporter.name} has this name"
    if match.fit == _MISSING:
        return f"not served: {match.why}"
    return f"not served here: no {' or '.join(exporter.vendors)} device reports {match.ours}"


def _section(exporter: table.ExporterTable) -> str:
    vendors = ", ".join(exporter.vendors)
    labels = ", ".join(f"`{label.name}`" for label in exporter.labels)
    is_default = not exporter.version or exporter.version == VERSIONS[exporter.name][0]
    heading = (
        f"### {exporter.name}{'' if is_default else f' {exporter.version}'}\n\n"
        f"`/metrics/{exporter.name}{'' if is_default else f'?version={exporter.version}'}`: [{exporter.source}](https://github.com/{exporter.source}), vendor {vendors}, "
        f"usual port {exporter.port}. Labels: {labels}.{f' {exporter.note}' if exporter.note else ''}\n\n"
    )
    rows = (
        f"| {_format_code(match.name)} | {_format_code(match.ours)} | {match.fit} | {_escape_cell(match.why)} |\n"
        for match in metric_matches(exporter)
    )
    return f"{heading}| Theirs | Ours | Fit | |\n| --- | --- | --- | --- |\n{''.join(rows)}"


def _format_code(text: str) -> str:
    return f"`{_escape_cell(text)}`" if text else ""


def _escape_cell(text: str) -> str:
    return text.replace("|", r"\|")


def _match_row(exporter: table.ExporterTable, row: table.Row | table.NodeRow) -> MetricMatch:
    ours = _node_metric_text(row) if isinstance(row, table.NodeRow) else _formula_text(row)
    return MetricMatch(exporter.prefix + row.name, ours, _NEAR if row.deviation else _EXACT, row.deviation)


def _node_metric_text(row: table.NodeRow) -> str:
    if not row.metric:
        return "number of devices"
    return f'{row.metric}{{source="{row.source}"}}'


def _formula_text(row: table.Row) -> str:
    names = (" - " if isinstance(row.formula, table.Difference) else " or ").join(_reading_names(row))
    factor = "" if row.factor == 1.0 else _FACTORS.get(row.factor, f" × {row.factor:,.0f}")
    return f"({names}){factor}" if factor and " " in names else f"{names}{factor}"


def _reading_names(row: table.Row) -> Iterator[str]:
    formula = row.formula
    for reading in formula.readings[:1] if isinstance(formula, table.NewestEventCode) else formula.readings:
        metric, brace, value = reading.partition("{")
        name = BY_KEY[metric].name
        label = BY_KEY[metric].label
        if brace and not label:
            yield f"{name}{{{value}"
        elif brace:
            yield f'{name}{{{label}="{value.removesuffix("}")}"}}'
        elif label and isinstance(formula, table.PerLabelValue | table.NewestEventCode | table.PerIndex):
            yield f"{name}{{{label}}}"
        elif label and not isinstance(formula, table.Converted):
            yield f"sum({name})" if metric.endswith("_total") else f"{name}{{{label}}}"
        else:
            yield name


# The JSON keys that contain the query of a panel, a variable or an annotation.
_QUERY_KEYS = ("expr", "query", "definition")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$[A-Za-z_]\w*")
_SELECTOR = re.compile(r"\{[^{}]*\}")
_RANGE_SELECTOR = re.compile(r"\[[^\[\]]*\]")
# Matches a keyword that is followed by a list of labels, such as `by (device)`.
_LABEL_LIST = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)", re.IGNORECASE)
_LABEL_VALUES = re.compile(r"\blabel_values\s*\(\s*(?:(?P<metric>.*),)?\s*[A-Za-z_]\w*\s*\)\s*\Z", re.DOTALL)
_NAME_MATCHER = re.compile(r"__name__\s*=\s*\"([A-Za-z_:][\w:]*)\"")
# Does not match the names of functions, which are followed by a parenthesis.
_WORD = re.compile(r"(?<![\w:.])[A-Za-z_:][\w:]*(?![\w:]|\s*\()")
_KEYWORDS = frozenset(
    {
        "and", "or", "unless", "offset", "bool", "inf", "nan", "by", "without", "on", "ignoring", "group_left", "group_right",
        "start", "end", "atan2",
    }
)  # fmt: skip
_MIN_NAME_LENGTH = 3


def names_in_queries(dashboard: Any) -> tuple[str, ...]:
    """Return the metric names in the dashboard's queries, without duplicates."""
    names = (name for query in _queries(dashboard) for name in _names_in_query(query))
    return tuple(dict.fromkeys(names))


def _queries(document: Any) -> Iterator[str]:
    pending = [document]  # a list instead of recursion, which could exceed Python's limit
    while pending:
        element = pending.pop()
        if isinstance(element, dict):
            yield from (element[key] for key in _QUERY_KEYS if isinstance(element.get(key), str))
            pending.extend(reversed(list(element.values())))
        elif isinstance(element, list):
            pending.extend(reversed(element))


def _names_in_query(query: str) -> Iterator[str]:
    yield from _NAME_MATCHER.findall(query)
    match = _LABEL_VALUES.match(query.strip())
    text = (match["metric"] or "") if match else query
    for pattern in (_STRING, _SELECTOR, _RANGE_SELECTOR, _LABEL_LIST, _VARIABLE):
        text = pattern.sub(" ", text)
    for name in _WORD.findall(text):
        if name.lower() not in _KEYWORDS and len(name) >= _MIN_NAME_LENGTH and "_" in name:
            yield name
