"""The table of all settings, made from their dataclasses: path, kind, default, limits, variable and flag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from telemetry_daemon.config.glance import VARIABLE_PREFIX
from telemetry_daemon.config.rules import PATH_RULES
from telemetry_daemon.config.settings import FLAGS, About, Settings

Kind = Literal["text", "path", "choice", "number", "switch", "list", "counts"]
KeyPath = tuple[str, ...]

# Stand for the names of a source, of one of its polls, of a model and of another exporter in paths and variables.
NAME, POLL, MODEL, PEER = "NAME", "POLL", "MODEL", "EXPORTER"
PLACEHOLDERS = (NAME, POLL, MODEL, PEER)
_PLACEHOLDER_OF = {"sources": NAME, "polls": POLL, "peaks": MODEL, "compat": PEER}
# No variable can spell these.
_NOT_IN_VARIABLES = frozenset({MODEL, PEER})


@dataclass(frozen=True, slots=True)
class SettingRow:
    """All that is known of one setting; `path` has placeholders where names go."""

    path: KeyPath
    kind: Kind
    default: object
    description: str
    words: tuple[str, ...] = ()
    example: object = None
    low: float | None = None
    high: float | None = None

    @property
    def dotted(self) -> str:
        """The full path as the file and the messages write it."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """The environment variable that sets it; empty where there is none, since no variable can spell the name of a model."""
        return "" if _NOT_IN_VARIABLES.intersection(self.path) else VARIABLE_PREFIX + "_".join(self.path).upper()

    @property
    def flag(self) -> str:
        """The flag that sets it, empty where there is none."""
        return FLAGS.get(self.dotted, "")


@dataclass(frozen=True, slots=True)
class SectionRow:
    """A section of the file with its settings."""

    path: KeyPath
    description: str
    settings: tuple[SettingRow, ...]


def sections() -> tuple[SectionRow, ...]:
    """Every section that has settings of its own, in the order of the dataclasses."""
    return tuple(_sections(Settings, ()))


def settings_rows() -> tuple[SettingRow, ...]:
    """Every setting, in the order of the dataclasses."""
    return tuple(row for section in sections() for row in section.settings)


def general_path(path: KeyPath) -> KeyPath:
    """The path as the table has it, with placeholders for the names."""
    if path[0] in ("peaks", "compat") and len(path) > 1:
        return (path[0], _PLACEHOLDER_OF[path[0]], *path[2:3])
    if path[0] != "sources" or len(path) < 2:
        return path
    poll = (POLL, *path[4:]) if path[2:3] == ("polls",) and len(path) > 3 else path[3:]
    return (path[0], NAME, *path[2:3], *poll)


def _sections(kind: Any, path: KeyPath) -> Iterator[SectionRow]:
    hints, defaults = get_type_hints(kind), kind()
    inner = {item.name: _inner(hints[item.name], item.name) for item in fields(kind)}
    own = tuple(
        _row((*path, item.name), hints[item.name], item.metadata["about"], getattr(defaults, item.name))
        for item in fields(kind)
        if inner[item.name] is None
    )
    if own:
        yield SectionRow(path, kind.__doc__, own)
    for section in filter(None, inner.values()):
        yield from _sections(section[0], (*path, *section[1]))


def _inner(hint: Any, name: str) -> tuple[Any, KeyPath] | None:
    """The dataclass of a section and its path, None for a setting."""
    if is_dataclass(hint):
        return hint, (name,)
    if get_origin(hint) is Mapping and is_dataclass(get_args(hint)[1]):
        return get_args(hint)[1], (name, _PLACEHOLDER_OF[name])
    return None


def _row(path: KeyPath, hint: Any, about: About, default: object) -> SettingRow:
    kind = _kind(hint, about)
    return SettingRow(
        path=path,
        kind=kind,
        default=default,
        description=about.text,
        words=get_args(hint) if kind == "choice" else (),
        example=about.example,
        low=about.low if kind == "number" else None,
        high=about.high if kind == "number" else None,
    )


def _kind(hint: Any, about: About) -> Kind:
    plain: dict[Any, Kind] = {
        bool: "switch", float: "number", float | None: "number", Mapping: "counts", tuple: "list", Literal: "choice",
    }  # fmt: skip
    return plain.get(get_origin(hint)) or plain.get(hint) or ("path" if about.rule in PATH_RULES else "text")
