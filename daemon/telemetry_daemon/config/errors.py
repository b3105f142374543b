"""One line for each thing that is wrong with a document: where it is, the setting's full path, what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from telemetry_daemon.config.inputs import ConfigInputs
from telemetry_daemon.config.layers import Document
from telemetry_daemon.config.lines import line_of
from telemetry_daemon.config.names import did_you_mean, nearest, nearest_or_all
from telemetry_daemon.config.rules import shown
from telemetry_daemon.config.table import KeyPath, general_path, settings_rows

if TYPE_CHECKING:  # a command whose configuration sets nothing does without pydantic
    from pydantic import ValidationError

_MOST_LINES = 50
COUNTS: KeyPath = ("expect", "devices")
_COUNTS_FORM = "must be a count for each vendor: { nvidia = 8, hygon = 4 } in the file, nvidia=8,hygon=4 in a variable"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")

# What must stand there, by pydantic's error type.
_EXPECTED: Mapping[str, str] = {
    "string_type": "must be a string in quotes",
    "string_unicode": "must be a string of valid UTF-8",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "list_type": 'must be a list of strings, as in ["…", "…"]',
    "too_short": "must not be empty; leave it out for the default",
    "dict_type": "must be a section with an entry for each name",
    "model_type": "must be a section with settings of its own",
}


def explained(error: ValidationError, document: Document) -> list[str]:
    """One line for each thing that pydantic refused, in the order of the file's lines."""
    refused = error.errors(include_url=False)
    lines = sorted((_line_of_refused(item, document) for item in refused[:_MOST_LINES]), key=lambda line: line[0])
    more = len(refused) - len(lines)
    return [text for _, text in lines] + ([f"and {more} more errors"] if more else [])


def _line_of_refused(item: Mapping[str, Any], document: Document) -> tuple[int, str]:
    path = _path(item)
    return _line(path, document), f"{_where(path, document)}: {dotted(path)}: {_what(path, item)}"


def unknown_names(document: Document, inputs: ConfigInputs) -> list[str]:
    """One line for each source and vendor of a valid document that nobody knows."""
    checks: tuple[tuple[KeyPath, str, Iterable[str] | None], ...] = (
        (("sources",), "no such source", inputs.known_sources),
        (("expect", "devices"), "no such vendor", inputs.known_vendors),
        *((("sources", name, "polls"), "no such poll", polls) for name, polls in inputs.known_polls.items()),
    )
    lines = []
    for section, complaint, known in checks:
        if known is None:
            continue
        for name in _names(document.data, section):
            path = (*section, name)
            if name not in known:
                lines.append(f"{_where(path, document)}: {dotted(path)}: {complaint}{nearest_or_all(name, known)}")
    return lines


def dotted(path: Iterable[str]) -> str:
    """The path as TOML would write it, on one line."""
    return ".".join(part if _BARE_KEY.match(part) else json.dumps(part) for part in path)


def _names(data: Mapping[str, Any], section: KeyPath) -> list[str]:
    inner: Any = data
    for part in section:
        inner = inner.get(part, {})
    return list(inner)


def _path(item: Mapping[str, Any]) -> KeyPath:
    """Where pydantic found it, without positions in lists and its own markers."""
    return tuple(part for part in item["loc"] if isinstance(part, str) and part != "[key]")


def _origin(path: KeyPath, document: Document) -> str | None:
    """The variable or flag that set it or a part of it, None when the file did."""
    for known, origin in document.origins.items():
        is_part = known == path[: len(known)]
        is_whole = path == known[: len(path)] and not document.file_has(path)
        if is_part or is_whole:
            return origin
    return None


def _line(path: KeyPath, document: Document) -> int:
    """The line of the file; 0 when a variable or flag set it, or no line was found."""
    return 0 if _origin(path, document) else line_of(document.text, path) or 0


def _where(path: KeyPath, document: Document) -> str:
    """The variable or flag that set it, else the file with the line."""
    line = _line(path, document)
    return _origin(path, document) or (f"{document.file}: line {line}" if line else f"{document.file}")


def _what(path: KeyPath, item: Mapping[str, Any]) -> str:
    kind = item["type"]
    if kind == "dict_type" and path == COUNTS:
        return f"{_COUNTS_FORM}, not {shown(item['input'])}"
    special: Mapping[str, Callable[[KeyPath, Mapping[str, Any]], str]] = {
        "extra_forbidden": _unknown_setting,
        "literal_error": _not_a_word,
        "value_error": _broken_rule,
        "greater_than_equal": _out_of_range,
        "less_than_equal": _out_of_range,
    }
    if kind in special:
        return special[kind](path, item)
    text = "the string " if isinstance(item["input"], str) else ""
    return f"{_EXPECTED.get(kind, item['msg'])}, not {text}{shown(item['input'])}"


def _unknown_setting(path: KeyPath, item: Mapping[str, Any]) -> str:
    """The nearest settings of the same section, else those of that name anywhere, else all of the section."""
    *section, name = path
    siblings = _siblings(path)
    elsewhere = [row.dotted for row in settings_rows() if row.path[-1] == name]
    near = [dotted((*section, sibling)) for sibling in nearest(name, siblings)]
    hint = did_you_mean(near or elsewhere) or nearest_or_all(name, siblings)
    return ("no such section" if isinstance(item["input"], dict) else "no such setting") + hint


def _siblings(path: KeyPath) -> list[str]:
    """The names of the settings and sections that could have stood at the path."""
    section = general_path(path)[:-1]
    paths = {part for row in settings_rows() for part in _beginnings(row.path)}
    return sorted(known[-1] for known in paths if known[:-1] == section)


def _beginnings(path: KeyPath) -> Iterable[KeyPath]:
    return (path[:length] for length in range(1, len(path) + 1))


def _not_a_word(path: KeyPath, item: Mapping[str, Any]) -> str:
    words = next(row.words for row in settings_rows() if row.path == general_path(path))
    hint = did_you_mean(nearest(str(item["input"]), words))
    return f"must be one of {', '.join(words)}, not {shown(item['input'])}{hint}"


def _broken_rule(_path: KeyPath, item: Mapping[str, Any]) -> str:
    return str(item["ctx"]["error"])


def _out_of_range(_path: KeyPath, item: Mapping[str, Any]) -> str:
    limits = item["ctx"]
    limit = f"at least {limits['ge']:g}" if "ge" in limits else f"at most {limits['le']:g}"
    return f"must be {limit}, not {shown(item['input'])}"
