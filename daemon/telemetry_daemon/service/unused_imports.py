"""Keeps OpenSSL out of a daemon without TLS: 4 MiB. asyncio does without ssl where there is none; `web/access/tls.py` does TLS."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_ssl() -> Iterator[None]:
    """Within this context, ssl cannot be imported, unless it was imported before; afterwards it can."""
    if "ssl" in sys.modules:
        yield
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # the documented way to say that there is no module
    try:
        yield
    finally:
        del sys.modules["ssl"]
