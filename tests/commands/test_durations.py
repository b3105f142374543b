"""Durations as a command takes them."""

from __future__ import annotations

import argparse

import pytest

from telemetry_daemon.commands import options


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0.5", 0.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), (" 1H ", 3600)],
)
def test_a_duration_becomes_seconds(text: str, seconds: float) -> None:
    assert options.seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "0s", "m", "-5m", "1.5h", "1.", ".5", "0.0", "10 m", "10x", "1e3", "٣m", "9" * 40, "5m" * 9]
)
def test_what_is_refused_names_itself_and_what_to_write(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write 90s, 10m, 1h30m or 2d"):
        options.seconds(text)


@pytest.mark.parametrize(("text", "seconds"), [("0.1", 0.1), ("2s", 2), ("1d", 86_400)])
def test_what_lasts_a_day_at_most(text: str, seconds: float) -> None:
    assert options.up_to_a_day(text) == seconds


@pytest.mark.parametrize("text", ["0.05", "2d"])
def test_what_is_too_short_or_too_long(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is out of range; write a duration from 0.1 "):
        options.up_to_a_day(text)
