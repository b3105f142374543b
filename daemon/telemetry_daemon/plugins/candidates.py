"""What may be a parser, before anything of it is imported; the daemon gets this from the process that checks its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# What a module of a plugin folder calls its parser and, if it has one, its library reader.
MODULE_PARSER = "PARSER"
MODULE_READER = "READER"


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin that is left out; the text is one line with what to do about it."""

    plugin: str
    origin: str
    text: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A parser before it is loaded. `remedy` says how to get rid of it."""

    plugin: str
    origin: str
    target: str
    remedy: str
    built_in: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """All parsers in the order in which they may take a name, and the library readers: name -> target."""

    parsers: tuple[Candidate, ...] = ()
    readers: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[PluginFailure, ...] = ()


def module_reader(candidate: Candidate) -> str:
    """The target of the library reader that a module of a plugin folder may hold; empty for other parsers."""
    if not candidate.target.startswith("/"):
        return ""
    return f"{candidate.origin}:{MODULE_READER}"
