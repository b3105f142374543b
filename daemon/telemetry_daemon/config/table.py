"""The table of all settings, and configuration files that are generated from it."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from telemetry_daemon.config.inputs import VARIABLE_PREFIX, KeyPath
from telemetry_daemon.config.rules import PATH_RULES, SettingMetadata
from telemetry_daemon.config.settings import FLAGS, Settings
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.dataclass import dataclass, fields, is_dataclass

SettingKind = Literal["text", "path", "choice", "number", "switch", "list", "counts"]

# Placeholders for names in paths of settings and in variables.
NAME, POLL, MODEL, EXPORTER = "NAME", "POLL", "MODEL", "EXPORTER"
PLACEHOLDERS = (NAME, POLL, MODEL, EXPORTER)
_PLACEHOLDER_BY_SECTION = {"sources": NAME, "polls": POLL, "peaks": MODEL, "compat": EXPORTER}
# Settings of models and exporters have no environment variables, which cannot spell names such as `MTT S5000`.
_NOT_IN_VARIABLES = frozenset({MODEL, EXPORTER})

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_WIDTH = 110
_EXAMPLES: Mapping[str, str] = {NAME: "mthreads-gmi", POLL: "processes", MODEL: "MTT S5000", EXPORTER: "dcgm-exporter"}
# Maps a section to the description of its defaults, which are not fixed.
NO_DEFAULT: Mapping[str, str] = {"sources": "set by the parser for each poll"}
_FILE_HEAD = """\
## Configuration of the telemetry daemon, as printed by `telemetry config default`.
##
## Every setting is listed with its default. To change one, remove the single # before it and edit the value.
## Each line gives a setting's full name. If you add headings such as [web], put them below all lines in use.
## `telemetry config check` reports errors in a file; reloading the service (SIGHUP) applies the changes.
"""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """All properties of a setting. `path` has placeholders instead of names."""

    path: KeyPath
    kind: SettingKind
    default: object
    description: str
    words: tuple[str, ...] = ()
    example: object = None
    low: float | None = None
    high: float | None = None

    @property
    def dotted_path(self) -> str:
        """Return the full path with dots, such as `web.listen_address`."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """Return the setting's environment variable, or "" if it has none."""
        return "" if _NOT_IN_VARIABLES.intersection(self.path) else VARIABLE_PREFIX + "_".join(self.path).upper()

    @property
    def flag(self) -> str:
        """Return the setting's command line flag, or "" if it has none."""
        return FLAGS.get(self.dotted_path, "")


@dataclass(frozen=True, slots=True)
class SectionRow:
    """A section of the configuration file with its settings."""

    path: KeyPath
    description: str
    settings: tuple[SettingRow, ...]


def sections() -> tuple[SectionRow, ...]:
    """Return the sections that contain settings, in the order of the dataclasses."""
    return tuple(_section_rows(Settings, ()))


def settings_rows() -> tuple[SettingRow, ...]:
    """Return the settings, in the order of the dataclasses."""
    return tuple(row for section in sections() for row in section.settings)


def placeholder_path(path: KeyPath) -> KeyPath:
    """Replace the names in a path with placeholders."""
    return tuple(_PLACEHOLDER_BY_SECTION.get(parent, part) for parent, part in zip(("", *path), path, strict=False))


def _section_rows(settings_class: Any, path: KeyPath) -> Iterator[SectionRow]:
    hints, defaults = get_type_hints(settings_class), settings_class()
    nested = {field.name: _nested_section(hints[field.name], field.name) for field in fields(settings_class)}
    settings = tuple(
        _setting_row((*path, field.name), hints[field.name], field.metadata["about"], getattr(defaults, field.name))
        for field in fields(settings_class)
        if nested[field.name] is None
    )
    if settings:
        yield SectionRow(path, settings_class.__doc__, settings)
    for nested_class, subpath in filter(None, nested.values()):
        yield from _section_rows(nested_class, (*path, *subpath))


def _nested_section(hint: Any, name: str) -> tuple[Any, KeyPath] | None:
    if is_dataclass(hint):
        return hint, (name,)
    if get_origin(hint) is Mapping and is_dataclass(get_args(hint)[1]):
        return get_args(hint)[1], (name, _PLACEHOLDER_BY_SECTION[name])
    return None


def _setting_row(path: KeyPath, hint: Any, metadata: SettingMetadata, default: object) -> SettingRow:
    kind = _setting_kind(hint, metadata)
    return SettingRow(
        path=path,
        kind=kind,
        default=default,
        description=metadata.text,
        words=get_args(hint) if kind == "choice" else (),
        example=metadata.example,
        low=metadata.low if kind == "number" else None,
        high=metadata.high if kind == "number" else None,
    )


def _setting_kind(hint: Any, metadata: SettingMetadata) -> SettingKind:
    kinds: dict[Any, SettingKind] = {
        bool: "switch", float: "number", float | None: "number", Mapping: "counts", tuple: "list", Literal: "choice",
    }  # fmt: skip
    return kinds.get(get_origin(hint)) or kinds.get(hint) or ("path" if metadata.rule in PATH_RULES else "text")


def toml_key(path: Iterable[str]) -> str:
    """Return the path as a dotted TOML key on one line."""
    return ".".join(part if _BARE_KEY.match(part) else json.dumps(part) for part in path)


def default_toml() -> str:
    """Return a file that describes every setting, with all defaults commented out."""
    blocks = [_FILE_HEAD]
    for section in sections():
        if section.path:
            heading = (*_comment_lines(section.description), f"## [{toml_key(_example_path(section.path))}]")
            blocks.append("\n".join(heading) + "\n")
        blocks += ["\n".join(_setting_lines(row)) + "\n" for row in section.settings]
    return "\n".join(blocks)


def _example_path(path: KeyPath) -> KeyPath:
    return tuple(_EXAMPLES.get(part, part) for part in path)


def example_line(section: KeyPath) -> str:
    """Return an example line for the first setting of a section."""
    path = placeholder_path(section)
    row = next(row for row in settings_rows() if row.path[: len(path)] == path)
    value = row.default if row.example is None else row.example
    return f"{toml_key(_example_path(row.path))} = {toml_value(value)}"


def _setting_lines(row: SettingRow) -> Iterator[str]:
    name = toml_key(_example_path(row.path))
    yield from _comment_lines(f"{row.description} {limits_sentence(row)}".strip())
    if row.example is not None:
        yield from _comment_lines(f"Example: {name} = {toml_value(row.example)}")
    if row.default is None:
        yield from _comment_lines(f"Default: {NO_DEFAULT.get(row.path[0], 'none')}.")
    else:
        yield f"# {name} = {toml_value(row.default)}"


def limits_sentence(row: SettingRow) -> str:
    """Return a sentence with the valid values, or "" if the description already lists them or all are valid."""
    if not all(f"`{word}`" in row.description for word in row.words if word):
        return f"One of: {joined_words(row.words)}."
    if row.low is not None and row.high is not None:
        return f"From {row.low:g} to {row.high:,.0f}."
    return ""


def joined_words(words: tuple[str, ...]) -> str:
    """Join words with commas. An empty word becomes "or empty" at the end."""
    return ", ".join(filter(None, words)) + (", or empty" if "" in words else "")


def _comment_lines(text: str) -> list[str]:
    return ["## " + line for line in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)]


def effective_toml(settings: Settings, origins: Mapping[str, str] | None = None) -> str:
    """Return a file with the effective settings. Comments name the variable or flag that sets them."""
    lines: list[str] = []
    for heading, values in _toml_tables(settings):
        lines += [""] if lines else []
        lines += [f"[{toml_key(heading)}]"] if heading else []
        for name, value in values.items():
            origin = (origins or {}).get(toml_key((*heading, name)))
            lines.append(f"{name} = {toml_value(value)}" + (f"  # {origin}" if origin else ""))
    return "\n".join(lines) + "\n"


def _toml_tables(settings: Settings) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    document = to_plain(Settings, settings)
    for section in sections():
        names = {row.path[-1] for row in section.settings}
        for path, table in _tables_at(document, section.path):
            yield path, {name: value for name, value in table.items() if name in names and value is not None}


def _tables_at(table: dict[str, Any], path: KeyPath) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    if not path:
        yield (), table
        return
    for name in table if path[0] in PLACEHOLDERS else path[:1]:
        yield from (((name, *subpath), values) for subpath, values in _tables_at(table[name], path[1:]))


def toml_value(value: object) -> str:
    """Return the value as TOML, on one line."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = (f"{toml_key((str(name),))} = {toml_value(item)}" for name, item in value.items())
        content = ", ".join(pairs)
        return f"{{ {content} }}" if content else "{}"
    return json.dumps(value)
