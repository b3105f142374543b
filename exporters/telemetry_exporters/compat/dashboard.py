"""The names of metrics that a Grafana dashboard asks for: those in its queries, and in the queries of its variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

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
    names = (name for query in _queries(dashboard) for name in _names(query))
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


def _names(query: str) -> Iterator[str]:
    yield from _NAME_MATCHER.findall(query)
    match = _LABEL_VALUES.match(query.strip())
    text = (match["of"] or "") if match else query
    for pattern in (_STRING, _SELECTOR, _RANGE, _LABELS, _VARIABLE):
        text = pattern.sub(" ", text)
    for word in _WORD.findall(text):
        if word.lower() not in _KEYWORDS and len(word) >= _SHORTEST and "_" in word:
            yield word
