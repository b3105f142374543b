"""The configuration as text, made from the table of the settings: the default file and the settings in force."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from telemetry_daemon.config.errors import dotted
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.config.table import MODEL, NAME, PEER, PLACEHOLDERS, POLL, KeyPath, SettingRow, sections
from telemetry_parsers.codec.derived import to_plain

_WIDTH = 110
_EXAMPLES: Mapping[str, str] = {NAME: "mthreads-gmi", POLL: "processes", MODEL: "MTT S5000", PEER: "dcgm-exporter"}
# What holds where a setting without a default is not set, by the section.
NO_DEFAULT: Mapping[str, str] = {"sources": "the parser's own for each poll"}
_HEAD = """\
## Configuration of the telemetry daemon, as printed by `telemetry config default`.
##
## Every setting is listed with its default. To change one, remove the single # before it and edit the value.
## `telemetry config check` says what is wrong with a file; reloading the service (SIGHUP) applies the changes.
"""


def default_toml() -> str:
    """The full commented file: every setting with what it does and its default, as `# key = value`."""
    blocks = [_HEAD]
    for section in sections():
        if section.path:
            path = tuple(_EXAMPLES.get(part, part) for part in section.path)
            heading = f"# [{dotted(path)}]" if path != section.path else f"[{dotted(path)}]"
            blocks.append("\n".join((*_comment(section.description), heading)) + "\n")
        blocks += ["\n".join(_setting_lines(row)) + "\n" for row in section.settings]
    return "\n".join(blocks)


def _setting_lines(row: SettingRow) -> Iterator[str]:
    yield from _comment(f"{row.description} {limits(row)}".strip())
    if row.example is not None:
        yield from _comment(f"Example: {row.path[-1]} = {toml_value(row.example)}")
    if row.default is None:
        yield from _comment(f"Default: {NO_DEFAULT.get(row.path[0], 'none')}.")
    else:
        yield f"# {row.path[-1]} = {toml_value(row.default)}"


def limits(row: SettingRow) -> str:
    """Which values the setting takes, as a sentence; empty where its description says so."""
    if not all(f"`{word}`" in row.description for word in row.words):
        return f"One of: {', '.join(row.words)}."
    if row.low is not None and row.high is not None:
        return f"From {row.low:g} to {row.high:,.0f}."
    return ""


def _comment(text: str) -> list[str]:
    return ["## " + line for line in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)]


def show_toml(settings: Settings, origins: Mapping[str, str] | None = None) -> str:
    """The settings in force as a file that gives them again; `origins` says which were not set by the file."""
    lines: list[str] = []
    for heading, values in _tables(settings):
        lines += [""] if lines else []
        lines += [f"[{dotted(heading)}]"] if heading else []
        for name, value in values.items():
            origin = (origins or {}).get(dotted((*heading, name)))
            lines.append(f"{name} = {toml_value(value)}" + (f"  # {origin}" if origin else ""))
    return "\n".join(lines) + "\n"


def _tables(settings: Settings) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """The tables of the file with their values; what TOML cannot say (None) is left out."""
    document = to_plain(Settings, settings)
    for section in sections():
        names = {row.path[-1] for row in section.settings}
        for path, table in _tables_at(document, section.path):
            yield path, {name: value for name, value in table.items() if name in names and value is not None}


def _tables_at(table: dict[str, Any], path: KeyPath) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """The table at the path. A path with placeholders gives one table for each name."""
    if not path:
        yield (), table
        return
    for name in table if path[0] in PLACEHOLDERS else path[:1]:
        yield from (((name, *inner), values) for inner, values in _tables_at(table[name], path[1:]))


def toml_value(value: object) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = (f"{dotted((str(name),))} = {toml_value(item)}" for name, item in value.items())
        inside = ", ".join(pairs)
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(value)
