"""Lines, quotes, tool marks and bus addresses, as every text parser sees them."""

from __future__ import annotations

import pytest

from telemetry_parsers.text.lines import bus_address, lines, quote
from telemetry_parsers.text.tool_marks import TOOL_MARKS, foreign_tool


def test_lines_are_numbered_and_lose_colours_and_carriage_returns() -> None:
    found = lines("\x1b[31mred\x1b[0m\r\n\nlast\n")
    assert [(line.number, line.text, line.ended) for line in found] == [
        (1, "red", True),
        (2, "", True),
        (3, "last", True),
    ]


def test_lines_lose_what_copying_adds() -> None:
    assert [line.text for line in lines("\ufeffGPU\u00a00\n\ufeff\n")] == ["GPU 0", "\ufeff"]


@pytest.mark.parametrize("prompt", ["[sudo] password for joe: ", "[sudo] joe 的密码：", "[sudo] password for joe:"])
def test_lines_lose_what_sudo_asks_before_the_first_of_them(prompt: str) -> None:
    assert [line.text for line in lines(f"{prompt}GPU: 0\n    POWER: 9 W\n")] == ["GPU: 0", "    POWER: 9 W"]
    assert [line.text for line in lines(f"{prompt}\nSorry, try again.\n{prompt}GPU: 0\n")] == [
        "",
        "Sorry, try again.",
        "GPU: 0",
    ]


def test_last_line_without_an_end_is_told_apart() -> None:
    assert [line.ended for line in lines("one\ntwo")] == [True, False]


def test_blanks_after_the_last_end_are_no_line() -> None:
    assert [line.text for line in lines("one\n   ")] == ["one"]


@pytest.mark.parametrize("text", ["", "\n", "   "])
def test_nothing_has_no_text(text: str) -> None:
    assert not any(line.text.strip() for line in lines(text))


def test_where_names_the_stream_of_a_line() -> None:
    assert lines("a\nb\n", "stderr")[1].where == "stderr line 2"
    assert lines("a\n")[0].where == "line 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  a\t b \n", "a b"),
        ("a\x00b\x1bc", "a?b?c"),
        ("x" * 1000, "x" * 159 + "…"),
        ("", ""),
    ],
)
def test_quote_is_short_and_printable(text: str, expected: str) -> None:
    assert quote(text) == expected


def test_bus_address_is_the_kernels_spelling_or_nothing() -> None:
    for text, expected in [
        ("00000000:18:00.0", "0000:18:00.0"),
        ("0000:1A:0F.7", "0000:1a:0f.7"),
        ("00010000:e1:00.0", "10000:e1:00.0"),
        (" 0000:18:00.0 ", "0000:18:00.0"),
        ("18:00.0", None),
        ("0000:18:00", None),
        ("0000:18:00.8", None),
        ("0000:18:00.0 Off", None),
        ("N/A", None),
        ("", None),
    ]:
        assert bus_address(text) == expected


def test_every_mark_names_its_tool_to_another_tools_parser() -> None:
    for tool, mark in [(tool, mark) for tool, marks in TOOL_MARKS.items() for mark in marks]:
        own = "mthreads-gmi" if tool != "mthreads-gmi" else "nvidia-smi"
        assert foreign_tool(f"| {mark} 1.2 |", own) == tool


def test_own_marks_outweigh_foreign_ones() -> None:
    assert foreign_tool("mthreads-gmi:1.0\n0 12 nvidia-smi NVIDIA-SMI 1MiB", "mthreads-gmi") is None


def test_text_without_marks_is_nobodys() -> None:
    assert foreign_tool("hello", "mthreads-gmi") is None
