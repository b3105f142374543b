"""Names that a command was given, and the error for one that nobody has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from telemetry_daemon.plugins.loading import Loaded
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.contract import Parser
from telemetry_parsers.vendors import VENDOR_WORDS


def find_parser(name: str, known: Mapping[str, Parser]) -> Parser:
    """The parser of that name. Raises CommandError."""
    if name not in known:
        raise unknown("source", name, known)
    return known[name]


def check_vendor(name: str, loaded: Loaded) -> None:
    """Refuse a vendor that neither we nor a plugin knows. Raises CommandError."""
    vendors = {*VENDOR_WORDS, *(item.parser.vendor for item in loaded.parsers if item.parser.vendor)}
    if name not in vendors:
        raise unknown("vendor", name, vendors)


def unknown(kind: str, name: str, known: Iterable[str]) -> CommandError:
    """The error for a name that is none of the known: it asks for the nearest one, or lists them all."""
    near = difflib.get_close_matches(name, known := sorted(known), n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"the {kind}s are {', '.join(known)}"
    return CommandError(f"unknown {kind} '{name}'; {hint}")
