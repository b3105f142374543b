"""The terminal's tables: columns by width, every reading with its source, and processes."""

import re
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import snapshots as kit
from telemetry_exporters.judgement.overview import rows
from telemetry_exporters.terminal.columns import (
    DEVICE_COLUMNS,
    FIRST_OPTIONAL,
    Column,
    fit_columns,
    text_cell,
    text_sort_key,
)
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.terminal.table import Detail, Selection, table
from telemetry_exporters.text import display_width
from telemetry_parsers.model import MergedReading, Metric, Problem

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
    """Readings of a snapshot may be ints."""
    text = table(kit.snapshot(kit.device(0, kit.reading("power_watts", watts))), 0, Colour.NEVER, Detail.REASONS)
    assert "power: " not in text
    assert "utilization: " in text


def test_absent_values_are_dim_and_states_coloured():
    text = table(kit.snapshot(kit.device(0, POWER), kit.device(1, up=False)), 0, Colour.ANSI)
    assert "\x1b[2m" in text
    assert "\x1b[32mok\x1b[0m" in text
    assert "\x1b[31mlost\x1b[0m" in text


def cell(heading, *readings, **facts):
    (row,) = rows(kit.snapshot(kit.device(0, *readings, **facts)))
    return next(column.cell(row).text for column in DEVICE_COLUMNS if column.heading == heading)


def test_texts_are_sorted_by_their_numbers():
    assert sorted(["gpu10", "GPU2", "gpu1"], key=text_sort_key) == ["gpu1", "GPU2", "gpu10"]


def column(priority, **settings):
    return Column(str(priority), text_cell, text_sort_key, priority, **settings)


@pytest.mark.parametrize(
    ("columns", "widths", "limit", "wanted"),
    [
        ((column(0), column(1)), (4, 4), 10, {0: 4, 1: 4}),
        ((column(0), column(1)), (4, 4), 9, {0: 4}),
        ((column(1), column(0)), (4, 4), 9, {1: 4}),
        ((column(0, min_width=3), column(1)), (9, 4), 9, {0: 3, 1: 4}),
        ((column(0, min_width=3), column(1)), (9, 4), 12, {0: 6, 1: 4}),
        ((column(0, group="a"), column(1, group="a")), (4, 8), 8, {1: 8}),
        ((column(0, group="a"), column(1, group="a")), (4, 8), 7, {0: 4}),
        ((column(0, min_width=4, max_width=9), column(1, min_width=4, max_width=9)), (9, 9), 16, {0: 7, 1: 7}),
        ((column(0), column(1), column(2)), (9, 9, 1), 13, {0: 9, 2: 1}),
        ((column(0, min_width=4, name_width=9), column(1)), (9, 4), 12, {0: 9}),
        ((column(0, min_width=4, name_width=9), column(1, min_width=4, name_width=9)), (9, 9), 16, {0: 9, 1: 5}),
        ((column(0, min_width=4, name_width=9), column(1)), (12, 4), 15, {0: 9, 1: 4}),
        ((column(0, min_width=4), column(FIRST_OPTIONAL)), (9, 4), 14, {0: 9}),
        ((column(0, min_width=4, name_width=9),), (9,), 3, {0: 3}),
    ],
)
def test_columns_are_chosen_by_width(columns, widths, limit, wanted):
    assert fit_columns(columns, widths.__getitem__, limit, 2) == wanted


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from(["", "a"]), st.integers(4, 30)), max_size=8
    ),
    st.integers(0, 90),
)
def test_column_widths_stay_within_their_limits(parts, limit):
    columns = [column(priority, min_width=min_width, group=group) for priority, min_width, group, _ in parts]
    widths = [width for *_, width in parts]
    kept = fit_columns(columns, widths.__getitem__, limit, 2)
    assert sum(kept.values()) + 2 * (len(kept) - 1) <= max(limit, 0)
    for index, width in kept.items():
        assert (columns[index].min_width or widths[index]) <= width <= widths[index]


def test_a_device_that_is_shown_alone_is_judged_beside_its_peers():
    """Its links are down while those of others of its model are up."""
    power = kit.reading("power_watts", 80.0)
    links = [(kit.reading("link_up", 1.0, "0"), kit.reading("link_up", float(number > 0), "1")) for number in range(8)]
    snapshot = kit.snapshot(*(kit.device(number, power, *readings) for number, readings in enumerate(links)))
    assert alone(snapshot, "GPU-00000000").splitlines()[3].endswith("1 link down")
    assert "1 link down" in alone(snapshot, "GPU-00000000", Detail.EVERYTHING)
    assert alone(snapshot, "GPU-00000001").endswith("  ok\n")


def alone(snapshot, device_id, detail=Detail.BRIEF):
    return table(snapshot, 0, Colour.NEVER, detail, selection=Selection(ids=frozenset({device_id})))


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        (("power*",), {"power", "power cap"}),
        (("accelerator_power_watts",), {"power"}),
        (("*_load1", "util*"), {"utilization", "load1"}),
        (("no_such_metric",), set()),
    ],
)
def test_patterns_select_metrics_but_no_device_lines(patterns, wanted):
    load = MergedReading("telemetry_host_load1", "", 0.25, "host")
    lost = kit.device(1, up=False)
    snapshot = kit.snapshot(kit.full_device(), lost, host=(load,), sources=(kit.source(),))
    text = table(snapshot, 0, Colour.NEVER, Detail.EVERYTHING, selection=Selection(patterns=patterns))
    assert {line.split("  ")[1] for line in text.splitlines() if line.endswith((" nvml", " host"))} == wanted
    assert "nvidia 1 NVIDIA H100 80GB HBM3 (lost)\n" in text


def test_full_details_include_metrics_of_plugins():
    metric = Metric("accelerator_acme_tank_ratio", "gauge", "ratio", "Level of the tank.", 0, 1, "tank")
    snapshot = kit.snapshot(kit.device(0, MergedReading("acme_tank_ratio", "left", 0.5, "acme")))
    text = table(snapshot, 0, Colour.NEVER, Detail.EVERYTHING, {metric.key: metric})
    assert "  acme tank left  50 %  acme\n" in text
