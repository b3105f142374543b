"""The tables of other exporters as text and Markdown, and the metric names in a Grafana dashboard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from telemetry_exporters.prometheus.compat import EXPORTERS, VERSIONS, peer
from telemetry_exporters.prometheus.compat.table import Each, NewestCode, NodeRow, Numbered, Peer, Rest, Row, Turned
from telemetry_exporters.text import aligned
from telemetry_parsers.metrics import BY_KEY

_WORDS_IN_BRACES = re.compile(r"\{([\w*,]+)\}")
_EXACT, _NEAR, _MISSING = "exact", "near", "missing"
# Factors that are easier to read as a division.
_FACTORS = {1 / (1 << 20): " / 1,048,576", 1 / (1 << 10): " / 1,024", 1e-6: " / 1,000,000"}


class Line(NamedTuple):
    """A name of another exporter, our metric, and how well it fits."""

    name: str
    ours: str
    fit: str
    why: str


def lines(exporter: Peer) -> tuple[Line, ...]:
    """Return a line for each name of the exporter, including missing names."""
    rows: tuple[Row | NodeRow, ...] = (*exporter.rows, *exporter.node_rows)
    of_rows = (_line(exporter, row) for row in rows)
    missing = (
        Line(name, "", _MISSING, entry.why)
        for entry in exporter.missing
        for pattern in entry.names.split(", ")
        for name in _names_of(pattern)
    )
    return tuple(dict.fromkeys((*of_rows, *missing)))


def _names_of(pattern: str) -> tuple[str, ...]:
    """Return the names, one for each word in the braces of a pattern."""
    match = _WORDS_IN_BRACES.search(pattern)
    if match is None:
        return (pattern,)
    return tuple(f"{pattern[: match.start()]}{word}{pattern[match.end() :]}" for word in match[1].split(","))


def names_list(exporter: Peer) -> str:
    """Return the lines in columns."""
    rows = [(line.name, line.ours or "-", line.fit, line.why) for line in lines(exporter)]
    return "".join(f"{line}\n" for line in aligned(rows))


def tables() -> str:
    """Return the tables of all exporters as Markdown."""
    return "\n".join(_section(peer(name, version)) for name in EXPORTERS for version in VERSIONS.get(name, ("",)))


def dashboard_list(exporter: Peer, used_names: Iterable[str], names_on_page: Iterable[str]) -> str:
    """Return the names that a dashboard uses: whether the page has them, or the reason why not."""
    table = {line.name: line for line in lines(exporter)}
    on_page = frozenset(names_on_page)
    texts = [
        (name, "served" if name in on_page else _why_not(name, exporter, table)) for name in sorted(set(used_names))
    ]
    return "".join(f"{line}\n" for line in aligned(texts))


def _why_not(name: str, exporter: Peer, table: dict[str, Line]) -> str:
    line = table.get(name) or next((line for line in table.values() if fnmatchcase(name, line.name)), None)
    if line is None:
        return f"not served: {exporter.name} has no such metric, as far as is known"
    return f"not served: {line.why}" if line.fit == _MISSING else f"not served here: no device has {line.ours}"


def _section(exporter: Peer) -> str:
    vendors = ", ".join(exporter.vendors)
    labels = ", ".join(f"`{label.name}`" for label in exporter.labels)
    default = not exporter.version or exporter.version == VERSIONS[exporter.name][0]
    head = (
        f"### {exporter.name}{'' if default else f' {exporter.version}'}\n\n"
        f"`/metrics/{exporter.name}{'' if default else f'?version={exporter.version}'}`: [{exporter.source}](https://github.com/{exporter.source}), vendors {vendors}, "
        f"usual port {exporter.port}. Labels: {labels}.{f' {exporter.note}' if exporter.note else ''}\n\n"
    )
    rows = (
        f"| {_code(line.name)} | {_code(line.ours)} | {line.fit} | {_cell(line.why)} |\n" for line in lines(exporter)
    )
    return f"{head}| Theirs | Ours | Fit | |\n| --- | --- | --- | --- |\n{''.join(rows)}"


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _line(exporter: Peer, row: Row | NodeRow) -> Line:
    ours = _of_node(row) if isinstance(row, NodeRow) else _of_device(row)
    return Line(exporter.prefix + row.name, ours, _NEAR if row.near else _EXACT, row.near)


def _of_node(row: NodeRow) -> str:
    if not row.metric:
        return "number of devices"
    return f'{row.metric}{{source="{row.source}"}}'


def _of_device(row: Row) -> str:
    names = (" - " if isinstance(row.way, Rest) else " or ").join(_names(row))
    factor = "" if row.times == 1.0 else _FACTORS.get(row.times, f" × {row.times:,.0f}")
    return f"({names}){factor}" if factor and " " in names else f"{names}{factor}"


def _names(row: Row) -> Iterator[str]:
    way = row.way
    for reading in way.readings[:1] if isinstance(way, NewestCode) else way.readings:
        metric, brace, word = reading.partition("{")
        name = BY_KEY[metric].name
        label = BY_KEY[metric].label
        if brace and not label:
            yield f"{name}{{{word}"
        elif brace:
            yield f'{name}{{{label}="{word.removesuffix("}")}"}}'
        elif label and isinstance(way, Each | NewestCode | Numbered):
            yield f"{name}{{{label}}}"
        elif label and not isinstance(way, Turned):
            yield f"sum({name})" if metric.endswith("_total") else f"{name}{{{label}}}"
        else:
            yield name


# The keys of queries in panels, variables and annotations.
_QUERY_KEYS = ("expr", "query", "definition")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$[A-Za-z_]\w*")
_SELECTOR = re.compile(r"\{[^{}]*\}")
_RANGE = re.compile(r"\[[^\[\]]*\]")
# Keywords before a list of labels.
_LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)", re.IGNORECASE)
_LABEL_VALUES = re.compile(r"\blabel_values\s*\(\s*(?:(?P<of>.*),)?\s*[A-Za-z_]\w*\s*\)\s*\Z", re.DOTALL)
_NAME_MATCHER = re.compile(r"__name__\s*=\s*\"([A-Za-z_:][\w:]*)\"")
# A name without a bracket behind it: with one it is a function.
_WORD = re.compile(r"(?<![\w:.])[A-Za-z_:][\w:]*(?![\w:]|\s*\()")
_KEYWORDS = frozenset(
    {
        "and", "or", "unless", "offset", "bool", "inf", "nan", "by", "without", "on", "ignoring", "group_left", "group_right",
        "start", "end", "atan2",
    }
)  # fmt: skip
_SHORTEST = 3


def asked_names(dashboard: Any) -> tuple[str, ...]:
    """Return each metric name in the dashboard's queries once, in order."""
    names = (name for query in _queries(dashboard) for name in _names_in(query))
    return tuple(dict.fromkeys(names))


def _queries(part: Any) -> Iterator[str]:
    """Yield the queries anywhere in the document. A loop, because a deep document would exceed the recursion limit."""
    waiting = [part]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            yield from (here[key] for key in _QUERY_KEYS if isinstance(here.get(key), str))
            waiting.extend(reversed(list(here.values())))
        elif isinstance(here, list):
            waiting.extend(reversed(here))


def _names_in(query: str) -> Iterator[str]:
    yield from _NAME_MATCHER.findall(query)
    match = _LABEL_VALUES.match(query.strip())
    text = (match["of"] or "") if match else query
    for pattern in (_STRING, _SELECTOR, _RANGE, _LABELS, _VARIABLE):
        text = pattern.sub(" ", text)
    for word in _WORD.findall(text):
        if word.lower() not in _KEYWORDS and len(word) >= _SHORTEST and "_" in word:
            yield word
