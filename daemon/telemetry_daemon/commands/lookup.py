"""Names of sources and vendors that the user gave, and the error for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters.text import clean
from telemetry_parsers.contract import Parser
from telemetry_parsers.vendors import VENDOR_WORDS


def find_parser(name: str, parsers: Mapping[str, Parser]) -> Parser:
    """The parser of that name. Raises CommandError."""
    if name not in parsers:
        raise unknown("source", name, parsers)
    return parsers[name]


def check_source(name: str, known: Iterable[str]) -> None:
    """Refuse a source that is not among these. Raises CommandError."""
    if name not in (known := tuple(known)):
        raise unknown("source", name, known)


def check_vendor(name: str, plugin_paths: Sequence[str]) -> None:
    """Refuse a vendor that neither we nor a plugin knows. Raises CommandError."""
    if name in VENDOR_WORDS:
        return
    from telemetry_daemon.plugins.loading import load
    from telemetry_daemon.plugins.sources import find

    with load(find(plugin_paths)) as loaded:
        vendors = {*VENDOR_WORDS, *(item.parser.vendor for item in loaded.parsers if item.parser.vendor)}
    if name not in vendors:
        raise unknown("vendor", name, vendors)


def unknown(kind: str, name: str, known: Iterable[str], otherwise: str = "") -> CommandError:
    """The error for an unknown name, with the nearest known name: `did you mean 'nvidia'?`; else `otherwise`, or all of them."""
    from telemetry_daemon.terminal.suggestions import nearest

    near = nearest(name, names := sorted(known))
    hint = f"did you mean '{near[0]}'?" if near else otherwise or f"the {kind}s are {', '.join(names)}"
    return CommandError(f"unknown {kind} '{clean(name)}'; {hint}")
