"""Parsers that were found but not yet imported."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass, field

# A module in a plugin folder must define a parser, and may define a library reader.
MODULE_PARSER = "PARSER"
MODULE_READER = "READER"


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin that was not loaded, with the reason and a remedy."""

    plugin: str
    origin: str
    text: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A parser that is not loaded yet. `target` is `MODULE:OBJECT` or `FILE:OBJECT`."""

    plugin: str
    origin: str
    target: str
    remedy: str
    is_built_in: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """The parsers and library readers that were found, and the failures."""

    parsers: tuple[Candidate, ...] = ()
    readers: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[PluginFailure, ...] = ()


def reader_target_of(candidate: Candidate) -> str:
    """Return the target of the library reader in a plugin file. For other plugins, return ""."""
    if not candidate.target.startswith("/"):
        return ""
    return f"{candidate.origin}:{MODULE_READER}"
