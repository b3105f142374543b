"""Lines that other programs wrote into a JSON document: standard error that came in between, the kernel's messages."""

from __future__ import annotations

import re

# No line of JSON begins with a letter, but for these words; no text in JSON goes on in a second line.
_FOREIGN = re.compile(r"^[ \t]{0,200}(?!(?:true|false|null|NaN|Infinity)\b)[^\W\d_].*(?:\n|\Z)", re.MULTILINE)


def without_foreign_lines(text: str) -> tuple[str, str]:
    """The text without the lines that cannot be JSON, and those lines."""
    return _FOREIGN.sub("", text), "".join(_FOREIGN.findall(text))
