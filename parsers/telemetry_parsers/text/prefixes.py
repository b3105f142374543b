"""Lines as a launcher passes them on, each with the name of its node or task before it: `node7 out: GPU: 0`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.text.lines import Line

_PREFIX = re.compile(r"[^\s:|>][^|>]{0,60}?(?::|\||>)[ \t]")
_FEWEST_LINES = 2


def without_prefix(lines: Sequence[Line]) -> list[Line]:
    """The lines without the word that all of them begin with; the same lines where there is none.

    For a text in which nothing was recognised: a list of equal keys has a common beginning, too.
    """
    printed = [line.text for line in lines if line.text.strip()]
    match = _PREFIX.match(printed[0]) if len(printed) >= _FEWEST_LINES else None
    if match is None or not all(text.startswith(match[0].rstrip()) for text in printed):
        return list(lines)
    return [replace(line, text=_bare(line.text, match[0])) for line in lines]


def _bare(text: str, prefix: str) -> str:
    return text.removeprefix(prefix) if text.startswith(prefix) else text.removeprefix(prefix.rstrip())
