"""Losses of which what is left says nothing: whoever reads it, person or program, sees a whole text. Each with its reason.

A row is the last resort. First: does a line or cell of the format prove that a block is whole, and can the parser ask for it?
Does a blank value behind a key get an `Absent`, and a value whose key is gone a problem?
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Untellable:
    """Which findings are meant: a parser's, of a kind of loss (any where empty), where the patterns are found."""

    reason: str
    parser: str = ""
    kind: str = ""
    sample: str = ""
    where: str = ""
    what: str = ""


UNTELLABLE = (
    Untellable(
        "a list of processes has one line for each, and no count beside it", kind="line", what=r": processes\{\}"
    ),
)
