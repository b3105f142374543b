"""The words of problems that the tools of several vendors share, so that one thing is reported in one way."""

from __future__ import annotations

from telemetry_parsers.text.lines import quote

CUT_LINE = "the text ends inside this line, which is not read"


def not_understood(text: str) -> str:
    """The problem of a line that no rule reads."""
    return f"not understood: {quote(text)}"


def without_key(text: str) -> str:
    """The problem of a value without a key before it."""
    return f"a value without its key: {quote(text)}"


def misfit(text: str) -> str:
    """The problem of a row with other cells than the headings have."""
    return f"does not fit the headings: {quote(text)}"


def no_row(text: str) -> str:
    """The problem of a line in a table that is no row."""
    return f"no row of the table: {quote(text)}"


def listed_twice(card: str | int) -> str:
    """The problem of a card that is listed a second time."""
    return f"card {card} is listed a second time; the first is kept"
