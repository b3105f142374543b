"""The table of all settings, made from the models: path, kind, default, limits, variable and flag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from telemetry_daemon.config.inputs import VARIABLE_PREFIX
from telemetry_daemon.config.models import ConfigFile
from telemetry_daemon.config.rules import PATH_RULES
from telemetry_daemon.config.settings import FLAGS

Kind = Literal["text", "path", "choice", "number", "switch", "list", "counts"]
KeyPath = tuple[str, ...]

# Stand for the names of a source and of one of its polls in paths and variables.
NAME, POLL = "NAME", "POLL"
PLACEHOLDERS = (NAME, POLL)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """All that is known of one setting; `path` has placeholders where the names of a source and of a poll go."""

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
        """The environment variable that sets it."""
        return VARIABLE_PREFIX + "_".join(self.path).upper()

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
    """Every section that has settings of its own, in the order of the models."""
    return tuple(_sections(ConfigFile, ()))


def settings_rows() -> tuple[SettingRow, ...]:
    """Every setting, in the order of the models."""
    return tuple(row for section in sections() for row in section.settings)


def general_path(path: KeyPath) -> KeyPath:
    """The path as the table has it, with placeholders for the names of a source and of a poll."""
    if path[0] != "sources" or len(path) < 2:
        return path
    poll = (POLL, *path[4:]) if path[2:3] == ("polls",) and len(path) > 3 else path[3:]
    return (path[0], NAME, *path[2:3], *poll)


def _sections(model: type[BaseModel], path: KeyPath) -> Iterator[SectionRow]:
    own = tuple(
        _row((*path, name), info) for name, info in model.model_fields.items() if _inner_model(info, name) is None
    )
    if own:
        yield SectionRow(path, " ".join((model.__doc__ or "").split()), own)
    for name, info in model.model_fields.items():
        inner = _inner_model(info, name)
        if inner is not None:
            yield from _sections(inner[0], (*path, *inner[1]))


def _inner_model(info: FieldInfo, name: str) -> tuple[type[BaseModel], KeyPath] | None:
    """The model of a section's field and its path, None for a setting."""
    kind = info.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind, (name,)
    values = get_args(kind)[-1] if get_origin(kind) is dict else None
    if isinstance(values, type) and issubclass(values, BaseModel):
        return values, (name, POLL if name == "polls" else NAME)
    return None


def _row(path: KeyPath, info: FieldInfo) -> SettingRow:
    kind = _kind(info)
    words = get_args(_bare(info.annotation)) if kind == "choice" else ()
    limits = {name: getattr(limit, name) for limit in info.metadata for name in ("ge", "le") if hasattr(limit, name)}
    return SettingRow(
        path=path,
        kind=kind,
        default=info.get_default(call_default_factory=True),
        description=info.description or "",
        words=words,
        example=info.examples[0] if info.examples else None,
        low=limits.get("ge"),
        high=limits.get("le"),
    )


def _bare(annotation: Any) -> Any:
    """The annotation without `| None`."""
    inner = [kind for kind in get_args(annotation) if kind is not NoneType]
    return inner[0] if NoneType in get_args(annotation) else annotation


def _kind(info: FieldInfo) -> Kind:
    bare = _bare(info.annotation)
    plain: dict[Any, Kind] = {bool: "switch", float: "number", dict: "counts", list: "list", Literal: "choice"}
    kind = plain.get(get_origin(bare) or bare)
    if kind is not None:
        return kind
    is_path = any(getattr(rule, "func", None) in PATH_RULES for rule in info.metadata)
    return "path" if is_path else "text"
