"""The terminal in which `top` is looked at shows what an xterm would."""

from __future__ import annotations

import pytest

from kits.terminal import terminal

FIVE = "1\r\n2\r\n3\r\n4\r\n5"


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        pytest.param("\x1b[2S", "3 4 5", id="all lines up"),
        pytest.param("\x1b[2T", "- - 1 2 3", id="all lines down"),
        pytest.param("\x1b[2;4r\x1b[S", "1 3 4 - 5", id="some lines up"),
        pytest.param("\x1b[2;4r\x1b[2T", "1 - - 2 5", id="some lines down"),
        pytest.param("\x1b[99T", "", id="all gone"),
        pytest.param("\x1b[H\x1b[2Sx", "x 4 5", id="the cursor stays"),
        pytest.param("\x1b[Hx\x1b[3b", "xxxx 2 3 4 5", id="a character again"),
        pytest.param("\x1b[22;0;0t\x1b=\x1b>", "1 2 3 4 5", id="what is not seen"),
    ],
)
def test_it_knows_what_curses_prints_for_an_xterm(printed: str, lines: str) -> None:
    with terminal("%b.", f"{FIVE}{printed}\x1b[5;9H", rows=5, columns=9, command=("printf",)) as shown:
        shown.shows(".")
        assert [line or "-" for line in shown.text.removesuffix(".").rstrip().splitlines()] == lines.split()


def test_it_fails_on_what_it_does_not_know() -> None:
    with (
        terminal("%b", "\x1b[3y", command=("printf",)) as shown,
        pytest.raises(AssertionError, match=r"does not know, with \(3,\)"),
    ):
        shown.shows("never")
