"""A short word for what a configuration has read: two with the same word read the same."""

from __future__ import annotations

from binascii import crc32

from telemetry_daemon.config.settings import Settings

HEADER = "X-Telemetry-Reads"


def reads(settings: Settings) -> str:
    """The word for these settings."""
    return f"{crc32(repr((sorted(settings.sources.items()), settings.parsers, settings.ranks)).encode()):08x}"
