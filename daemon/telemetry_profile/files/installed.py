"""The formats that are installed: the entry points of `telemetry.profiles`."""

from __future__ import annotations

from importlib.metadata import entry_points

from telemetry_profile.contract import DatabaseFormat, ProfileFormat, Refusal, TextFormat, TraceFormat

GROUP = "telemetry.profiles"
_KINDS = (DatabaseFormat, Refusal, TextFormat, TraceFormat)


class BadFormatError(Exception):
    """An entry point is no format."""


def installed() -> tuple[ProfileFormat, ...]:
    """All formats, in the order of their names. Raises BadFormatError."""
    found: list[ProfileFormat] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        loaded = entry.load()
        if not isinstance(loaded, _KINDS):
            raise BadFormatError(
                f"the entry point '{entry.name}' of {GROUP} is no format of profiles; update or remove its package"
            )
        found.append(loaded)
    return tuple(found)
