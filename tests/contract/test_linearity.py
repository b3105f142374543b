"""The time of each parser is linear in the length of a text, whatever the text contains."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from kits.captures import own_cases, registered_parsers, text_capture, text_of
from telemetry_parsers.contract import Parser
from telemetry_parsers.text.lines import MAX_LINES

PARSERS = registered_parsers()
KIB = 1024
SMALL, LARGE = 16 * KIB, 64 * KIB
# Ten times the usual time; the test must only exclude minutes.
MAX_SECONDS = 3.0
MAX_GROWTH = 8.0
# The ratio of shorter times means nothing.
MIN_SECONDS = 0.05


TABLE = text_of("mthreads-gmi", "table-new-busy")
HEAD = TABLE[: TABLE.index("0    MTT")]
PROCESSES = TABLE[TABLE.index("Processes:") : TABLE.index("0    88120")]
CARD = "GPU0 00000000:01:00.0\n"
LONG = "0    MTT S5000 |00000000:01:00.0 |" + "9" * 200 + "%  1MiB(2MiB)\n"

NASTY: dict[str, Callable[[int], str]] = {
    "one letter": lambda size: "a" * size,
    "blanks": lambda size: HEAD + " " * size + "|",
    "digits": lambda size: HEAD + "0    MTT |" + "9" * size,
    "dashes": lambda size: "-" * size,
    "nested rules": lambda size: HEAD + "+-=" * (size // 3),
    "bars": lambda size: HEAD + "0 |" * (size // 3),
    "lines of bars": lambda size: HEAD + ("0 |" * 60 + "\n") * (size // 181),
    "long rows": lambda size: HEAD + LONG * (size // len(LONG)),
    "words": lambda size: HEAD + "0    " + "ab  " * (size // 4) + "|",
    "headings": lambda size: HEAD * (size // len(HEAD)),
    "heading of many words": lambda size: "ID Name " * (size // 8) + "|\n",
    "many headings": lambda size: "ID   Name |" + "load  heat  " * (size // 12) + "|\n+---+\n0 a |b",
    "banner": lambda size: "mthreads-gmi:" * (size // 13),
    "versions": lambda size: "mthreads-gmi:1 " + "Driver Version:" * (size // 15),
    "brackets": lambda size: HEAD + "0    MTT |1 |1% " + "(" * size,
    "processes": lambda size: (
        HEAD + PROCESSES + "0    120       /usr/bin/application --with-flags          12MiB\n" * (size // 65)
    ),
    "long process": lambda size: HEAD + PROCESSES + "0 1 " + "a " * (size // 2) + "1MiB\n",
    "nested objects": lambda size: '{"Attached GPUs": "1", "GPU": [' + '{"a":' * (size // 5),
    "nested lists": lambda size: '{"Attached GPUs": "1", "GPU": ' + "[" * size,
    "open string": lambda size: '{"Attached GPUs": "1", "GPU": [{"a": "' + "x" * size,
    "backslashes": lambda size: '{"Attached GPUs": "' + "\\\\" * (size // 2) + '"',
    "many keys": lambda size: (
        '{"Driver Version": "1", "GPU": [{' + ",".join(f'"k{n}": "1"' for n in range(size // 14)) + "}]}"
    ),
    "long keys": lambda size: CARD + ("k" * 200 + " : 1\n") * (size // 205),
    "colons": lambda size: CARD + ":" * size,
    "escapes": lambda size: "\x1b[" * (size // 2),
    "open escape": lambda size: "\x1b[1;2;3;4;" * (size // 10),
    "line ends": lambda size: "\n" * size,
    "errors": lambda size: ("Error: " + "x" * 100 + "\n") * (size // 108),
    "letters beyond ASCII": lambda size: "度" * (size // 3),
    "zeros": lambda size: "\x00" * size,
    "captures": lambda size: TABLE * (size // len(TABLE)),
    "captures on one line": lambda size: TABLE.replace("\n", " ") * (size // len(TABLE)),
}


def seconds(parser: Parser, text: str, runs: int) -> float:
    """Return the CPU time of the shortest of so many runs: other load only makes runs longer."""
    capture = text_capture(parser, text)
    times = []
    for _ in range(runs):
        start = time.thread_time()
        parser.parse(capture)
        times.append(time.thread_time() - start)
    return min(times)


def repeated(text: str, size: int) -> str:
    """Repeat the text up to the size, but not beyond the number of lines that a parser accepts."""
    return text * max(1, min(size // len(text), (MAX_LINES - 1) // max(1, text.count("\n"))))


def assert_read_in_time(parser: Parser, text_of_size: Callable[[int], str]) -> None:
    """A busy machine gets more tries; the small text matters only if the large one is slow."""

    def holds(runs: int) -> bool:
        longest = seconds(parser, text_of_size(LARGE), runs)
        if longest < MIN_SECONDS * MAX_GROWTH:
            return True
        return longest < MAX_SECONDS and longest < MAX_GROWTH * seconds(parser, text_of_size(SMALL), runs)

    assert holds(1) or holds(3) or holds(5)


# Texts against any parser; the others are for one kind of table or document.
PLAIN = ("one letter", "blanks", "digits", "words", "colons", "nested lists", "nested objects", "line ends", "captures")


@pytest.mark.parametrize("kinds", [PLAIN, pytest.param(sorted(NASTY), marks=pytest.mark.long)], ids=["plain", "all"])
@pytest.mark.parametrize("name", sorted(PARSERS))
def test_large_text_is_parsed_in_time(name: str, kinds: Sequence[str]) -> None:
    for kind in kinds:
        assert_read_in_time(PARSERS[name], NASTY[kind])


TEXTS = [case for case in own_cases() if case.path.suffix == ".txt"]


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.long)], ids=["one", "all"])
@pytest.mark.parametrize("tool", sorted({case.tool for case in TEXTS}))
def test_repeated_capture_is_parsed_in_time(tool: str, *, is_long: bool) -> None:
    cases = [case for case in TEXTS if case.tool == tool]
    for case in cases if is_long else cases[len(cases) // 2 :][:1]:
        assert_read_in_time(PARSERS[tool], partial(repeated, text_of(tool, case.name) or "\n"))
