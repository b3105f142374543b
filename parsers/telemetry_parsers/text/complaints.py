"""The words of problems that several tools share, so that one thing is reported in one way."""

from __future__ import annotations

from telemetry_parsers.text.lines import quote

CUT_LINE = "the text ends inside this line, which is not read"
CUT_TABLE = "the table is cut off here; further cards may be missing"
CUT_PROCESSES = "the process table is cut off here; the processes are not counted"
SHORTENED = "somebody shortened the text here"
PROCESS_TABLE = "the process table"


def not_understood(text: str) -> str:
    """The problem of a line that no rule reads."""
    return f"not understood: {quote(text)}"


def without_key(text: str) -> str:
    """The problem of a value without a key before it."""
    return f"a value without its key: {quote(text)}"


def misfit(text: str) -> str:
    """The problem of a row with other cells than the headings have."""
    return f"does not fit the headings: {quote(text)}"


def no_row(text: str, table: str = "the table") -> str:
    """The problem of a line in a table that is no row."""
    return f"no row of {table}: {quote(text)}"


def listed_twice(what: str) -> str:
    """The problem of something that is listed a second time: `card 3`."""
    return f"{what} is listed a second time; the first is kept"


def miscounted(counted: int | str, listed: int) -> str:
    """The problem of a list with another number of cards than the tool prints above it."""
    return f"the tool counts {counted} cards and lists {listed}"


def cut_document(fault: str) -> str:
    """The problem of JSON that ends, or goes wrong, in the middle."""
    return f"cut off or broken: {fault}"


def several_runs(runs: int) -> str:
    """The problem of a text with several runs of a tool."""
    return f"{runs} runs of the tool in one text; the last one is read"
