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
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.model import STATES, Absent, Problem
from telemetry_parsers.recorded import Recorded

POWER = kit.reading("power_watts", 80.0)
READINGS = [Detail.BRIEF, Detail.REASONS, Detail.EVERYTHING]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def lines_of(snapshot, width=0, detail=Detail.BRIEF):
    return table(snapshot, width, Colour.NEVER, detail).splitlines()


def device_lines(snapshot, width):
    """The table of the devices, without what stands above it."""
    lines = lines_of(snapshot, width)
    return lines[lines.index("") + 1 :]


def test_a_node_in_full():
    snapshot = kit.snapshot(
        kit.full_device(0),
        kit.device(
            0,
            kit.reading("temperature_celsius", 71.0, "hotspot"),
            kit.reading("temperature_celsius", 64.0, "core"),
            kit.reading("temperature_celsius", 90.0, "memory"),
            kit.reading("power_watts", Absent.NOT_PERMITTED),
            kit.reading("memory_used_bytes", 30 * 1024.0**3),
            kit.reading("memory_total_bytes", 48 * 1024.0**3),
            kit.reading("utilization_ratio", 0.875),
            vendor="moorethreads",
            model="MTT S4000",
            id="MT-0",
        ),
        kit.device(1, vendor="moorethreads", model="MTT S4000", id="MT-1", up=False),
        sources=(kit.source(), kit.source("npu-smi", "failed", reason="timeout", detail="no answer within 10 s")),
    )
    assert table(snapshot, 0, Colour.NEVER) == (
        "node17, 1 × NVIDIA H100 80GB HBM3, 1 × MTT S4000, 2026-01-01 00:00:00 UTC\n"
        "\n"
        "VENDOR        DEVICE  MODEL                   TEMP  POWER / CAP          MEMORY  UTIL  STATE\n"
        "nvidia        0       NVIDIA H100 80GB HBM3  41 °C  112 / 700 W  2 MiB / 80 GiB   0 %  ok\n"
        "moorethreads  0       MTT S4000              71 °C            –     30 / 48 GiB  88 %  ok\n"
        "moorethreads  1       MTT S4000                  –            –               –     –  lost\n"
        "\n"
        "✗ moorethreads 1 MTT S4000 (MT-1): lost: its driver no longer lists it\n"
        "  → see `dmesg`, reset the device or reboot; `telemetry forget MT-1` if it was taken out\n"
        "✗ npu-smi: failed: timeout (no answer within 10 s)\n"
        "  → run the tool by hand; if it is merely slow, raise this source's deadline\n"
    )


@pytest.mark.parametrize(
    ("readings", "wanted"),
    [
        ((), "–"),
        ((kit.reading("temperature_celsius", Absent.NOT_SUPPORTED),), "–"),
        ((kit.reading("temperature_celsius", 50.0, "memory"),), "–"),
        ((kit.reading("temperature_celsius", 50.0, "hbm0"), kit.reading("temperature_celsius", 40.0, "edge")), "40 °C"),
        ((kit.reading("temperature_celsius", 50.0, "board"), kit.reading("temperature_celsius", 0.0, "edge")), "0 °C"),
        (
            (
                kit.reading("temperature_celsius", Absent.NOT_SUPPORTED, "edge"),
                kit.reading("temperature_celsius", 61.0, "junction"),
            ),
            "61 °C",
        ),
    ],
)
def test_the_temperature_is_the_highest_but_those_of_memory_and_board(readings, wanted):
    *_, line = lines_of(kit.snapshot(kit.device(0, *readings, model="X", current_model="X")))
    assert re.split(r"\s{2,}", line)[3] == wanted


@pytest.mark.parametrize(
    ("readings", "wanted"),
    [
        ((kit.reading("power_watts", 80.0),), "80 W"),
        ((kit.reading("power_cap_watts", 400.0),), "– / 400 W"),
        ((kit.reading("power_watts", 0.0), kit.reading("power_cap_watts", 400.0)), "0 / 400 W"),
        ((kit.reading("power_watts", Absent.NOT_PERMITTED), kit.reading("power_cap_watts", 400.0)), "– / 400 W"),
        ((kit.reading("memory_used_bytes", 1024.0),), "1 KiB"),
        ((kit.reading("memory_total_bytes", 1024.0**3),), "– / 1 GiB"),
    ],
)
def test_half_of_a_pair_is_shown(readings, wanted):
    assert wanted in lines_of(kit.snapshot(kit.device(0, *readings)))[-1]


@pytest.mark.parametrize(
    ("device", "word"),
    [
        (kit.full_device(0), "ok"),
        (kit.device(0), "unknown"),
        (kit.device(0, up=False), "lost"),
        (kit.device(0, up=None), "unknown"),
        (kit.device(0, kit.reading("suspended", 1.0)), "asleep"),
        (kit.device(0, POWER, kit.reading("suspended", 0.0)), "ok"),
        (kit.device(0, POWER, kit.reading("health", 1.0, "alarm"), kit.reading("health", 0.0, "ok")), "alarm"),
        (kit.device(0, POWER, kit.reading("health", 1.0, "ok")), "ok"),
        (
            kit.device(0, POWER, kit.reading("health", 0.0, "ok"), kit.reading("health", 1.0, "unknown")),
            "health unknown",
        ),
        (kit.device(0, kit.reading("recovery_action", 1.0, "drain_and_reset")), "needs drain and reset"),
        (kit.device(0, POWER, kit.reading("recovery_action", 1.0, "none")), "ok"),
    ],
)
def test_the_state_of_a_device(device, word):
    assert lines_of(kit.snapshot(device))[3].endswith("  " + word)


@pytest.mark.parametrize("state", STATES)
def test_a_source_in_trouble_is_named_with_its_remedy_and_others_are_not(state):
    text = "\n".join(lines_of(kit.snapshot(kit.full_device(), sources=(kit.source("hy-smi", state),))))
    assert ("✗ hy-smi" in text) == (state in ("failed", "stuck"))
    assert text.count("→") == text.count("✗")


@pytest.mark.parametrize(
    ("device_id", "argument"), [("GPU-1f2e", "GPU-1f2e"), ("4ED7F9F2 DA8741D8", "'4ED7F9F2 DA8741D8'")]
)
def test_what_is_to_be_typed_for_a_lost_device_can_be_typed_as_it_stands(device_id, argument):
    text = "\n".join(lines_of(kit.snapshot(kit.device(0, id=device_id, up=False))))
    assert f"`telemetry forget {argument}` if" in text


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


def test_below_the_table_stands_on_what_basis_each_has_its_card():
    snapshot = kit.snapshot(kit.shared_device(), kit.full_device(1, allocations=(kit.allocation(is_used=None),)))
    text, since = table(snapshot, 0, Colour.NEVER, Detail.REASONS), "since 2025-12-31 23:00:00 UTC"
    assert text.split("Owners:\n")[1].splitlines()[:3] == [
        f"  nvidia 0: job 1234 (alice): 75 % of the card, by utilization, allocated and used, 2 GiB, {since}, told by slurm",
        "  nvidia 0: pod ml/train-0/main: 25 % of the card, by utilization, allocated, not used, told by kubelet",
        f"  nvidia 1: job 1234 (alice): the whole card, allocated, {since}, told by slurm",
    ]
    assert "Owners" not in table(kit.snapshot(kit.full_device()), 0, Colour.NEVER, Detail.REASONS)


@given(snapshot=kit.snapshots(), detail=st.sampled_from(READINGS), width=st.integers(40, 250))
@settings(max_examples=60, deadline=None)
def test_heading_sources_and_troubles_fit_the_terminal(snapshot, detail, width):
    lines = lines_of(snapshot, width, detail)
    rest = lines if Detail.EVERYTHING not in detail else takewhile(bool, lines)
    of_devices = list(takewhile(bool, device_lines(snapshot, width))) if snapshot.devices else []
    assert all(display_width(line) <= width for line in rest if line not in of_devices)


def test_what_is_wrapped_stands_below_its_beginning():
    detail = "no answer within ten seconds from a tool that is usually fast"
    snapshot = kit.snapshot(sources=(kit.source("npu-smi", "failed", reason="timeout", detail=detail),))
    assert lines_of(snapshot, 50)[-4:] == [
        "✗ npu-smi: failed: timeout (no answer within ten",
        "  seconds from a tool that is usually fast)",
        "  → run the tool by hand; if it is merely slow,",
        "    raise this source's deadline",
    ]


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
@settings(max_examples=25, deadline=None)
def test_colour_adds_nothing_but_colour(detail, snapshot, width):
    plain = table(snapshot, width, Colour.NEVER, detail)
    assert ESCAPE.sub("", table(snapshot, width, Colour.ANSI, detail)) == plain
    assert all(character.isprintable() or character in "\n\u3000\xa0" or character.isspace() for character in plain)


def test_absent_values_are_dim_and_states_coloured():
    text = table(kit.snapshot(kit.device(0, POWER), kit.device(1, up=False)), 0, Colour.ANSI)
    assert "\x1b[2m" in text
    assert "\x1b[32mok\x1b[0m" in text
    assert "\x1b[31mlost\x1b[0m" in text


def test_reasons_are_told_where_they_are_asked_for():
    lacking = [
        kit.device(
            number,
            kit.reading("temperature_celsius", 41.0, "core"),
            kit.reading("power_watts", Absent.NOT_PERMITTED),
            kit.reading("power_cap_watts", Absent.NOT_SUPPORTED),
            kit.reading("memory_used_bytes", 1024.0),
            kit.reading("memory_total_bytes", 2048.0),
        )
        for number in range(10)
    ]
    amd = replace(kit.full_device(vendor="amd", id="x"), readings=lacking[0].readings)
    snapshot = kit.snapshot(*lacking, amd, kit.device(11, up=False))
    assert "no reading" not in "\n".join(lines_of(snapshot))
    text = "\n".join(lines_of(snapshot, detail=Detail.REASONS))
    assert (
        "– is no reading:\n"
        "  power: not permitted (nvidia 0, 1, 2, 3, 4, 5, 6, 7 and 2 more; amd 0)\n"
        "  power cap: not supported (nvidia 0, 1, 2, 3, 4, 5, 6, 7 and 2 more; amd 0)\n"
        "  utilization: no source gives it (nvidia 0, 1, 2, 3, 4, 5, 6, 7 and 2 more; amd 0)\n"
    ) in text


def test_with_every_reading_there_is_no_legend():
    assert "no reading" not in "\n".join(lines_of(kit.snapshot(kit.full_device()), detail=Detail.REASONS))


@pytest.mark.parametrize(
    ("simulated", "note"),
    [
        ((False, False), None),
        ((True, True), "Simulated: these devices do not exist."),
        ((True, False), "Simulated: some of these devices do not exist."),
    ],
)
def test_simulated_devices_are_called_so(simulated, note):
    lines = lines_of(kit.snapshot(*(kit.full_device(place, simulated=one) for place, one in enumerate(simulated))))
    assert [line for line in lines if "imulated" in line] == ([note] if note else [])


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        (
            {"recorded": Recorded(0.0, "gpu-17")},
            "Replay: this is a recording of 1970-01-01 00:00:00 UTC from gpu-17, and not the present.",
        ),
        (
            {"recorded": Recorded(0.0)},
            "Replay: this is a recording of 1970-01-01 00:00:00 UTC from a host that it does not name, and not the present.",
        ),
        (
            {"maintenance": Maintenance(60.0, "new fans")},
            "In maintenance until 2026-01-01 00:01:00 UTC: new fans",
        ),
    ],
)
def test_what_the_readings_are_not_stands_below_the_heading(parts, wanted):
    assert lines_of(kit.snapshot(kit.full_device(), **parts))[1] == wanted


@pytest.mark.parametrize(
    ("sources", "wanted"),
    [
        ((), "No source was tried."),
        (
            (kit.source("nvml", "missing", polls=()), kit.source("hy-smi", "no_devices")),
            "Sources tried: nvml (missing), hy-smi (no devices)",
        ),
    ],
)
def test_without_devices_it_says_how_they_were_looked_for(sources, wanted):
    assert lines_of(kit.snapshot(sources=sources)) == ["node17, no devices, 2026-01-01 00:00:00 UTC", "", wanted]
