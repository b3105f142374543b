"""The terminal's view: what an operator must see at a glance, in the width that there is."""

import re
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import snapshots as kit
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.terminal.table import Detail, table
from telemetry_exporters.text import display_width
from telemetry_parsers.model import Problem

POWER = kit.reading("power_watts", 80.0)
READINGS = [Detail.BRIEF, Detail.REASONS, Detail.EVERYTHING]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def lines_of(snapshot, width=0, detail=Detail.BRIEF):
    return table(snapshot, width, Colour.NEVER, detail).splitlines()


@given(snapshot=kit.snapshots(), detail=st.sampled_from(READINGS), width=st.integers(40, 250))
@settings(max_examples=20)
def test_every_line_fits_the_terminal(snapshot, detail, width):
    lines = lines_of(snapshot, width, detail)
    rest = lines if Detail.EVERYTHING not in detail else takewhile(bool, lines)
    assert all(display_width(line) <= width for line in rest)


def test_no_escape_sequence_of_a_tool_gets_through():
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    snapshot = kit.snapshot(
        kit.device(0, model=evil, current_model=evil, id=evil, up=False),
        sources=(kit.source("nvml", "failed", reason="exit_status", detail=evil, problems=(Problem(evil, evil),)),),
        hostname=evil,
    )
    for detail in Detail:
        text = table(snapshot, 0, Colour.NEVER, detail)
        assert all(character.isprintable() or character == "\n" for character in text)
        assert "�]0;owned��[2J�" in text


@pytest.mark.parametrize("detail", Detail)
@given(snapshot=kit.snapshots(), width=st.integers(0, 200))
@settings(max_examples=10)
def test_colour_adds_nothing_but_colour(detail, snapshot, width):
    plain = table(snapshot, width, Colour.NEVER, detail)
    assert ESCAPE.sub("", table(snapshot, width, Colour.ANSI, detail)) == plain
    assert all(character.isprintable() or character in "\n\u3000\xa0" or character.isspace() for character in plain)


@pytest.mark.parametrize("watts", [80, True])
def test_whole_numbers_are_readings(watts):
    """Who makes a snapshot may write them so."""
    text = table(kit.snapshot(kit.device(0, kit.reading("power_watts", watts))), 0, Colour.NEVER, Detail.REASONS)
    assert "power: " not in text
    assert "utilization: " in text


def test_absent_values_are_dim_and_states_coloured():
    text = table(kit.snapshot(kit.device(0, POWER), kit.device(1, up=False)), 0, Colour.ANSI)
    assert "\x1b[2m" in text
    assert "\x1b[32mok\x1b[0m" in text
    assert "\x1b[31mlost\x1b[0m" in text
