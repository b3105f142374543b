"""The columns in which devices are listed: what their cells say, and which are shown in how much room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits import snapshots as kit
from telemetry_exporters.judgement.overview import rows
from telemetry_exporters.terminal.columns import DEVICE_COLUMNS, OPTIONAL, Column, fitted, text_cell, text_rank


def cell(heading, *readings, **facts):
    """What that column says of a device."""
    (row,) = rows(kit.snapshot(kit.device(0, *readings, **facts)))
    return next(column.cell(row).text for column in DEVICE_COLUMNS if column.heading == heading)


USED, TOTAL = kit.reading("memory_used_bytes", 20.0 * 2**30), kit.reading("memory_total_bytes", 80.0 * 2**30)


def test_texts_are_sorted_by_their_numbers():
    assert sorted(["gpu10", "GPU2", "gpu1"], key=text_rank) == ["gpu1", "GPU2", "gpu10"]


def column(priority, least=0, slot="", most=0, whole=0):
    return Column(str(priority), text_cell, text_rank, priority, least=least, slot=slot, most=most, whole=whole)


@pytest.mark.parametrize(
    ("columns", "widths", "limit", "wanted"),
    [
        ((column(0), column(1)), (4, 4), 10, {0: 4, 1: 4}),
        ((column(0), column(1)), (4, 4), 9, {0: 4}),
        ((column(1), column(0)), (4, 4), 9, {1: 4}),
        ((column(0, least=3), column(1)), (9, 4), 9, {0: 3, 1: 4}),
        ((column(0, least=3), column(1)), (9, 4), 12, {0: 6, 1: 4}),
        ((column(0, slot="a"), column(1, slot="a")), (4, 8), 8, {1: 8}),
        ((column(0, slot="a"), column(1, slot="a")), (4, 8), 7, {0: 4}),
        ((column(0, least=4, most=9), column(1, least=4, most=9)), (9, 9), 16, {0: 7, 1: 7}),
        ((column(0), column(1), column(2)), (9, 9, 1), 13, {0: 9, 2: 1}),
        ((column(0, least=4, whole=9), column(1)), (9, 4), 12, {0: 9}),
        ((column(0, least=4, whole=9), column(1, least=4, whole=9)), (9, 9), 16, {0: 9, 1: 5}),
        ((column(0, least=4, whole=9), column(1)), (12, 4), 15, {0: 9, 1: 4}),
        ((column(0, least=4), column(OPTIONAL)), (9, 4), 14, {0: 9}),
        ((column(0, least=4, whole=9),), (9,), 3, {0: 3}),
    ],
)
def test_the_columns_that_fit(columns, widths, limit, wanted):
    assert fitted(columns, widths.__getitem__, limit, 2) == wanted


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from(["", "a"]), st.integers(4, 30)), max_size=8
    ),
    st.integers(0, 90),
)
def test_no_column_is_wider_than_the_room_nor_narrower_than_it_may_be(parts, limit):
    columns = [column(priority, least, slot) for priority, least, slot, _ in parts]
    widths = [width for *_, width in parts]
    kept = fitted(columns, widths.__getitem__, limit, 2)
    assert sum(kept.values()) + 2 * (len(kept) - 1) <= max(limit, 0)
    for place, width in kept.items():
        assert (columns[place].least or widths[place]) <= width <= widths[place]
