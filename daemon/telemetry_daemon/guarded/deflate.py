"""zlib, or what does the same four to ten times as fast where there is a wheel of it for this machine."""

from __future__ import annotations

try:
    from isal import isal_zlib as zlib
except ImportError:  # there is no wheel for this machine
    import zlib as zlib  # type: ignore[no-redef]  # noqa: PLC0414  # one of the two, for whoever imports it here

__all__ = ["GZIP", "zlib"]

# zlib's word for a gzip header and trailer.
GZIP = 31
