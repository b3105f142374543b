"""The terminal's view: what an operator must see at a glance, in the width that there is."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import snapshots as kit
from telemetry_exporters.style import Colour
from telemetry_exporters.table import Detail, table
from telemetry_exporters.text import display_width
from telemetry_parsers.model import STATES, Problem

POWER = kit.reading("power_watts", 80.0)
READINGS = [Detail.BRIEF, Detail.REASONS, Detail.EVERYTHING]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def lines_of(snapshot, width=0, detail=Detail.BRIEF):
    return table(snapshot, width, Colour.NEVER, detail).splitlines()


def device_lines(snapshot, width):
    """The table of the devices, without what stands above it."""
    lines = lines_of(snapshot, width)
    return lines[lines.index("") + 1 :]


@pytest.mark.parametrize("state", STATES)
def test_a_source_in_trouble_is_named_with_its_remedy_and_others_are_not(state):
    text = "\n".join(lines_of(kit.snapshot(kit.full_device(), sources=(kit.source("hy-smi", state),))))
    assert ("✗ hy-smi" in text) == (state in ("failed", "stuck"))
    assert text.count("→") == text.count("✗")


def test_of_a_tool_that_hangs_the_process_is_to_be_ended_before_the_node():
    """It may merely have been left behind by whoever started it; only what cannot be killed hangs in the driver."""
    text = "\n".join(lines_of(kit.snapshot(sources=(kit.source("hy-smi", "stuck"),))))
    assert text.index("end its process") < text.index("state D") < text.index("reboot")


def test_of_a_tool_that_somebody_else_runs_nobody_is_told_to_end_a_process():
    """It may be the daemon's own: who it is stands behind the words, with what is to be done."""
    busy = kit.source(
        "hy-smi", "stuck", detail="rocm-smi: another process runs it: our own source rocm-smi; asked again"
    )
    text = "\n".join(lines_of(kit.snapshot(sources=(busy,))))
    assert "our own source rocm-smi" in text
    assert "end its process" not in text


@pytest.mark.parametrize("width", [72, 80, 100, 120])
def test_the_table_fits_the_terminal(width):
    model = "An accelerator with a very long marketing name and 128 GiB of memory"
    snapshot = kit.snapshot(*(kit.full_device(number, model=model) for number in range(3)))
    rows = device_lines(snapshot, width)
    assert all(display_width(line) <= width for line in rows)
    assert all("112 / 700 W  2 MiB / 80 GiB   0 %  ok" in line for line in rows[1:])
    assert all("An acc" in line and "…" in line for line in rows[1:])


def test_where_space_is_short_columns_go_and_numbers_stay_whole():
    snapshot = kit.snapshot(kit.full_device(), kit.full_device(1))
    lines = device_lines(snapshot, 52)
    assert lines[0].split() == ["DEVICE", "TEMP", "POWER", "/", "CAP", "MEMORY", "UTIL", "STATE"]
    assert lines[1].split() == ["0", "41", "°C", "112", "/", "700", "W", "2", "MiB", "/", "80", "GiB", "0", "%", "ok"]
    assert device_lines(snapshot, 10)[1] == lines[1]


def test_of_several_vendors_the_vendor_stays_since_it_tells_devices_apart():
    snapshot = kit.snapshot(kit.full_device(), kit.full_device(vendor="amd", model="MI300X", id="x"))
    lines = device_lines(snapshot, 50)
    assert lines[0].split()[:3] == ["VENDOR", "DEVICE", "TEMP"]


@pytest.mark.parametrize(
    ("width", "more"),
    [
        (0, []),
        (80, []),
        (108, ["CLOCK"]),
        (116, ["THROTTLED", "CLOCK"]),
        (160, ["THROTTLED", "CLOCK", "BUS ID", "DRIVER"]),
        (250, ["THROTTLED", "CLOCK", "BUS ID", "DRIVER"]),
    ],
)
def test_where_there_is_space_there_are_more_columns_of_what_some_device_tells(width, more):
    asleep = kit.device(1, bus_id=None, driver=None)
    awake = kit.full_device(bus_id="0000:1a:00.0", driver="550.54.15")
    clock, throttled = kit.reading("clock_hertz", 1.98e9, "sm"), kit.reading("throttled", 0.0, "sw_thermal")
    awake = replace(awake, readings=(*awake.readings, clock, throttled))
    heading, *_ = device_lines(kit.snapshot(awake, asleep), width)
    assert re.split(r"\s{2,}", heading.partition("STATE")[2].strip()) == (more or [""])


@pytest.mark.parametrize(
    ("width", "owner"),
    [
        (101, None),
        (102, "job 1234 (ali…"),
        (120, "job 1234 (alice) +1"),
        (250, "job 1234 (alice) +1"),
    ],
)
def test_where_there_is_space_stands_who_has_the_card(width, owner):
    heading, owned, free = device_lines(kit.snapshot(kit.shared_device(), kit.full_device(1)), width)
    assert ("OWNER" in heading) == (owner is not None)
    if owner is not None:
        place = heading.index("OWNER")
        assert owned[place:].split("  ")[0] == owner
        assert free[place] == "–"
    assert "OWNER" not in device_lines(kit.snapshot(kit.full_device(1)), width)[0]


@given(snapshot=kit.snapshots(), detail=st.sampled_from(READINGS), width=st.integers(40, 250))
@settings(max_examples=20)
def test_heading_sources_and_troubles_fit_the_terminal(snapshot, detail, width):
    lines = lines_of(snapshot, width, detail)
    rest = lines if Detail.EVERYTHING not in detail else takewhile(bool, lines)
    of_devices = list(takewhile(bool, device_lines(snapshot, width))) if snapshot.devices else []
    assert all(display_width(line) <= width for line in rest if line not in of_devices)


def test_wide_characters_take_two_columns():
    snapshot = kit.snapshot(kit.full_device(model="天数智芯 BI-V100"), kit.full_device(1, model="BI-V150"))
    rows = lines_of(snapshot)[3:]
    ends = {display_width(line[: line.index(" °C")]) for line in rows}
    assert len(ends) == 1


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


def test_absent_values_are_dim_and_states_coloured():
    text = table(kit.snapshot(kit.device(0, POWER), kit.device(1, up=False)), 0, Colour.ANSI)
    assert "\x1b[2m" in text
    assert "\x1b[32mok\x1b[0m" in text
    assert "\x1b[31mlost\x1b[0m" in text
