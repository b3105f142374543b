"""Names of sources and vendors that the user gave, and the error for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from telemetry_daemon.plugins.loading import Loaded
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.contract import Parser
from telemetry_parsers.vendors import VENDOR_WORDS


def find_parser(name: str, parsers: Mapping[str, Parser]) -> Parser:
    """The parser of that name. Raises CommandError."""
    if name not in parsers:
        raise unknown("source", name, parsers)
    return parsers[name]


def check_vendor(name: str, loaded: Loaded) -> None:
    """Refuse a vendor that neither we nor a plugin knows. Raises CommandError."""
    vendors = {*VENDOR_WORDS, *(item.parser.vendor for item in loaded.parsers if item.parser.vendor)}
    if name not in vendors:
        raise unknown("vendor", name, vendors)


def unknown(kind: str, name: str, known: Iterable[str]) -> CommandError:
    """The error for an unknown name, with the nearest known name, else all of them: `did you mean 'nvidia'?`."""
    import difflib

    nearest = difflib.get_close_matches(name, known := sorted(known), n=1)
    hint = f"did you mean '{nearest[0]}'?" if nearest else f"the {kind}s are {', '.join(known)}"
    return CommandError(f"unknown {kind} '{name}'; {hint}")
