"""Two short words for what a configuration has read, by which a client knows a daemon that reads the same.

One is made of the settings, the other, which costs no check, of what they are made from (`glance.py`).
"""

from __future__ import annotations

from binascii import crc32

from telemetry_daemon.config.settings import Settings


def reads(settings: Settings) -> str:
    """The word for these settings."""
    used = (
        *(sorted(settings.sources.items()), settings.parsers, settings.ranks, settings.attribution),
        *(sorted(settings.peaks.items()), settings.peak_dtypes),
    )
    return f"{crc32(repr(used).encode()):08x}"
