"""The tables of other exporters in words, and the names that a Grafana dashboard asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from telemetry_exporters.prometheus.compat import PLACES, VERSIONS, peer
from telemetry_exporters.prometheus.compat.table import Each, NewestCode, NodeRow, Numbered, Peer, Rest, Row, Turned
from telemetry_exporters.text import aligned
from telemetry_parsers.metrics import BY_KEY

_WORDS_IN_BRACES = re.compile(r"\{([\w*,]+)\}")
_EXACT, _NEAR, _MISSING = "exact", "near", "missing"
# Factors as people say them.
_FACTORS = {1 / (1 << 20): " / 1,048,576", 1 / (1 << 10): " / 1,024", 1e-6: " / 1,000,000"}


class Line(NamedTuple):
    """A name of another exporter, what of ours it is, and how well it fits."""

    name: str
    ours: str
    fit: str
    why: str


def lines(of: Peer) -> tuple[Line, ...]:
    """A line for each of its names, and for those that nothing gives."""
    rows: tuple[Row | NodeRow, ...] = (*of.rows, *of.node_rows)
    of_rows = (_line(of, row) for row in rows)
    missing = (
        Line(name, "", _MISSING, entry.why)
        for entry in of.missing
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


def names_list(of: Peer) -> str:
    """The lines in columns."""
    rows = [(line.name, line.ours or "-", line.fit, line.why) for line in lines(of)]
    return "".join(f"{line}\n" for line in aligned(rows))


def tables() -> str:
    """All of them as Markdown, each under its name."""
    return "\n".join(_section(peer(name, version)) for name in PLACES for version in VERSIONS.get(name, ("",)))


def dashboard_list(of: Peer, asked: Iterable[str], names_on_page: Iterable[str]) -> str:
    """Which of the names that a dashboard asks for a page tells, and why it does not tell the others."""
    known = {line.name: line for line in lines(of)}
    on_page = frozenset(names_on_page)
    texts = [(name, "told" if name in on_page else _why_not(name, of, known)) for name in sorted(set(asked))]
    return "".join(f"{line}\n" for line in aligned(texts))


def _why_not(name: str, of: Peer, known: dict[str, Line]) -> str:
    line = known.get(name) or next((line for line in known.values() if fnmatchcase(name, line.name)), None)
    if line is None:
        return f"not told: {of.name} has no such metric, as far as is known"
    return f"not told: {line.why}" if line.fit == _MISSING else f"not told here: no device has {line.ours}"


def _section(of: Peer) -> str:
    vendors = ", ".join(of.vendors)
    labels = ", ".join(f"`{label.name}`" for label in of.labels)
    default = not of.version or of.version == VERSIONS[of.name][0]
    head = (
        f"### {of.name}{'' if default else f' {of.version}'}\n\n"
        f"`/metrics/{of.name}{'' if default else f'?version={of.version}'}`: [{of.source}](https://github.com/{of.source}), vendors {vendors}, "
        f"usual port {of.port}. Labels: {labels}.{f' {of.note}' if of.note else ''}\n\n"
    )
    rows = (f"| {_code(line.name)} | {_code(line.ours)} | {line.fit} | {_cell(line.why)} |\n" for line in lines(of))
    return f"{head}| Theirs | Ours | Fit | |\n| --- | --- | --- | --- |\n{''.join(rows)}"


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _line(of: Peer, row: Row | NodeRow) -> Line:
    ours = _of_node(row) if isinstance(row, NodeRow) else _of_device(row)
    return Line(of.prefix + row.name, ours, _NEAR if row.near else _EXACT, row.near)


def _of_node(row: NodeRow) -> str:
    if not row.metric:
        return "number of devices"
    return f'{row.metric}{{source="{row.source}"}}'


def _of_device(row: Row) -> str:
    names = (" - " if isinstance(row.way, Rest) else " or ").join(_names(row))
    factor = "" if row.times == 1.0 else _FACTORS.get(row.times, f" × {row.times:,.0f}")
    return f"{names}{factor}"


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


# Where queries stand in a dashboard: in panels, and in variables and annotations.
_QUERY_KEYS = ("expr", "query", "definition")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$[A-Za-z_]\w*")
_SELECTOR = re.compile(r"\{[^{}]*\}")
_RANGE = re.compile(r"\[[^\[\]]*\]")
# After these comes a list of labels.
_LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)", re.IGNORECASE)
_LABEL_VALUES = re.compile(r"\blabel_values\s*\(\s*(?:(?P<of>.*),)?\s*[A-Za-z_]\w*\s*\)\s*\Z", re.DOTALL)
_NAME_MATCHER = re.compile(r"__name__\s*=\s*\"([A-Za-z_:][\w:]*)\"")
# A name that no bracket follows, which would make it a function.
_WORD = re.compile(r"(?<![\w:.])[A-Za-z_:][\w:]*(?![\w:]|\s*\()")
_KEYWORDS = frozenset(
    {
        "and", "or", "unless", "offset", "bool", "inf", "nan", "by", "without", "on", "ignoring", "group_left", "group_right",
        "start", "end", "atan2",
    }
)  # fmt: skip
_SHORTEST = 3


def asked_names(dashboard: Any) -> tuple[str, ...]:
    """Each name once, in order."""
    names = (name for query in _queries(dashboard) for name in _names_in(query))
    return tuple(dict.fromkeys(names))


def _queries(part: Any) -> Iterator[str]:
    """The queries anywhere in the document, however deep: it is looked through without recursion."""
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
