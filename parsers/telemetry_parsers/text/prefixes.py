"""Lines as a launcher passes them on, each with the name of its node or task before it: `node7 out: GPU: 0`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.text.lines import Line

# A name and a sign, or the tag of `mpirun --tag-output`, `[1,0]<stdout>:`, which has no blank behind it; or the sign
# of a quotation or a comment, `> ` and `# `.
_PREFIX = re.compile(r"\[[0-9]{1,9},[0-9]{1,9}\]<std(?:out|err)>:[ \t]?|[>#][ \t]|[^\s:|>][^|>]{0,60}?(?::|\||>)[ \t]")
# How no value begins behind its key: a frame or a rule, markup, a bracket on a line of its own.
_BEGINS_A_DOCUMENT = re.compile(r"[ \t]*(?:[-+=]{8,}|\+-|<[?!/A-Za-z]|[{\[][ \t]*\Z)")
_FEWEST_LINES = 2
# What the launcher itself prints before the output: `srun: job 17 queued and waiting for resources`.
_MOST_OF_THE_LAUNCHER = 4


def without_prefix(lines: Sequence[Line]) -> list[Line]:
    """The lines without the word that all of them begin with, but a few at the start; the same lines if there is none.

    For a text in which nothing was recognised: a list of equal keys has a common beginning, too.
    """
    printed = [line.text for line in lines if line.text.strip()]
    for start in range(min(_MOST_OF_THE_LAUNCHER, len(printed) - _FEWEST_LINES) + 1):
        match = _PREFIX.match(printed[start])
        if match is not None and all(text.startswith(match[0].rstrip()) for text in printed[start:]):
            return [replace(line, text=_bare(line.text, match[0])) for line in lines]
    return list(lines)


def begins_a_document(bare: Sequence[Line]) -> bool:
    """Whether what a prefix was taken off is surely a whole document, and no list of values behind equal keys."""
    return any(_BEGINS_A_DOCUMENT.match(line.text) for line in bare)


def _bare(text: str, prefix: str) -> str:
    return text.removeprefix(prefix) if text.startswith(prefix) else text.removeprefix(prefix.rstrip())
