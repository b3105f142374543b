"""Sparklines, bars and charts: heights, and gaps that stay visible."""

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_exporters.terminal.frames.drawing import ASCII, UNICODE, Scale, Window, bar, chart, maxima, sparkline
from telemetry_parsers.past import SLOTS, Series

ONE = Scale(0.0, 1.0)


def series(*values):
    numbers = array("f", values)
    return Series(numbers, numbers)


def whole(phase=0):
    return Window(SLOTS, phase)


def test_a_sparkline_has_eight_levels():
    rising = series(*(slot // 45 / 8 + 0.01 for slot in range(SLOTS)))
    assert sparkline(rising, whole(), 8, ONE, UNICODE) == "▁▂▃▄▅▆▇█"
    assert sparkline(rising, whole(), 8, ONE, ASCII) == "_,-~=+*#"


@given(st.integers(0, SLOTS - 1), st.integers(1, SLOTS), st.integers(8, 60), st.integers(0, 10**9))
def test_long_gap_is_drawn_without_numbers(first, slots, width, phase):
    numbers = array("f", [0.5]) * SLOTS
    numbers[first : first + slots] = array("f", [math.nan]) * len(numbers[first : first + slots])
    drawn = sparkline(Series(numbers, numbers), whole(phase), width, ONE, UNICODE)
    length = -(-SLOTS // width)
    if len(numbers) - first >= 2 * length and slots >= 2 * length:
        assert UNICODE.gap in drawn
    for glyph, (start, end) in zip(drawn, whole(phase).parts(width), strict=True):
        if first <= start and end <= first + slots:
            assert glyph == UNICODE.gap


@given(
    st.lists(st.floats(0, 1, width=32) | st.just(math.nan), min_size=1, max_size=SLOTS),
    st.integers(1, 400),
    st.integers(0, 999),
)
def test_the_highest_number_of_each_part_is_drawn(values, width, phase):
    parts = Window(len(values), phase).parts(width)
    assert len(parts) <= width
    assert parts[-1][1] == len(values)
    for number, (start, end) in zip(maxima(series(*values), Window(len(values), phase), width), parts, strict=True):
        numbers = [value for value in values[max(start, 0) : max(end, 0)] if not math.isnan(value)]
        assert math.isnan(number) or number == max(numbers)


def test_short_history_is_drawn_at_the_end():
    assert sparkline(series(1.0, 1.0), Window(2, 358), 12, ONE, UNICODE) == "···········█"


def test_drawn_parts_do_not_change_while_slots_are_added():
    numbers = [float(slot % 7) for slot in range(SLOTS + 3)]
    before = maxima(series(*numbers[:SLOTS]), Window(SLOTS, 0), 30)
    after = maxima(series(*numbers[3:]), Window(SLOTS, 3), 30)
    assert after[1:-1] == before[2:]


@pytest.mark.parametrize(
    ("part", "wanted"), [(0.0, "░░░░"), (0.001, "█░░░"), (0.5, "██░░"), (1.0, "████"), (7.0, "████")]
)
def test_a_bar(part, wanted):
    assert bar(part, 4, UNICODE) == wanted


def test_a_chart():
    lines = list(chart([0.0, 0.5, 1.0, math.nan], 2, ONE, UNICODE))
    assert lines == [" ▁█ ", "▁██·"]


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(allow_nan=False, allow_infinity=False))
def test_scale_maps_any_number_to_0_to_1(low, high, value):
    if math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low) and math.isfinite(value - low):
        assert 0.0 <= Scale(low, high).ratio(value) <= 1.0
