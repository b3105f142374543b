"""On a terminal, a line that tells what is waited for or how far it is, and goes again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_CLEAR_LINE = "\r\x1b[K"
_LONGEST = 60


def tell(names: Sequence[str]) -> None:
    """Write the line anew on standard error, or clear it if nothing is waited for; only on a terminal that can."""
    listed = ", ".join(names)
    shown = listed if len(listed) <= _LONGEST else f"{listed[:_LONGEST]}…"
    show(f"waiting for {shown}" if names else "")


def show(text: str) -> None:
    """Write this in place of the line."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        sys.stderr.write(_CLEAR_LINE + text)
        sys.stderr.flush()
