"""On a terminal, a line that names what is waited for, and goes again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_CLEAR_LINE = "\r\x1b[K"
_LONGEST = 60


def tell(names: Sequence[str]) -> None:
    """Write the line anew on standard error, or clear it if nothing is waited for; only on a terminal that can."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return
    listed = ", ".join(names)
    shown = listed if len(listed) <= _LONGEST else f"{listed[:_LONGEST]}…"
    sys.stderr.write(f"{_CLEAR_LINE}waiting for {shown}" if names else _CLEAR_LINE)
    sys.stderr.flush()
