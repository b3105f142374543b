"""Possible parsers, before any import. The daemon gets them from the process that checks its configuration."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass, field

# The names of the parser and the optional library reader in a module of a plugin folder.
MODULE_PARSER = "PARSER"
MODULE_READER = "READER"


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin that is left out; the text is one line with a remedy."""

    plugin: str
    origin: str
    text: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A parser before it is loaded. `remedy` says how to remove it."""

    plugin: str
    origin: str
    target: str
    remedy: str
    built_in: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """All parsers in order of priority for a name, and the targets of the library readers by name."""

    parsers: tuple[Candidate, ...] = ()
    readers: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[PluginFailure, ...] = ()


def module_reader(candidate: Candidate) -> str:
    """Return the target of the optional library reader in a module of a plugin folder, or an empty text for other parsers."""
    if not candidate.target.startswith("/"):
        return ""
    return f"{candidate.origin}:{MODULE_READER}"
