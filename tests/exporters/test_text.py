"""Texts in terminals and on pages: cleaning, display width, and values in words."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits import snapshots as kit
from telemetry_exporters import human
from telemetry_exporters.text import clean, cut, deep_clean, display_width, pad_left, pad_right
from telemetry_parsers.metrics import BY_KEY, CATALOGUE


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("天数智芯", "天数智芯"),
        ("a\u3000b", "a\u3000b"),
        ("a\r\nb\tc", "a  b c"),
        ("\x1b]0;title\x07", "�]0;title�"),
        ("\x9b31m", "�31m"),
        ("\ud83d", "�"),
        ("\u2066\u202e\u200b", "���"),
        ("\ue000\U000e0001", "��"),
    ],
)
def test_unprintable_characters_are_replaced(text, wanted):
    assert clean(text) == wanted


@given(st.text())
def test_cleaned_text_is_one_line_of_printable_utf8(text):
    shown = clean(text)
    assert len(shown) == len(text)
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert len(shown.splitlines()) <= 1
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs") for character in shown)
    assert clean(shown) == shown


def test_all_texts_of_an_object_are_cleaned_and_a_clean_object_is_not_copied():
    device = kit.full_device(facts=(("a", "b"),))
    assert deep_clean(device) is device
    assert deep_clean(kit.full_device(facts=(("a", "b\x00"),), serial="\x01")).facts == (("a", "b�"),)


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("天数", 4), ("ｗ", 2), ("e\u0301", 1), ("°C", 2), ("", 0)])
def test_width_in_a_terminal(text, width):
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("text", "width", "wanted"),
    [
        ("NVIDIA H100", 20, "NVIDIA H100"),
        ("NVIDIA H100", 11, "NVIDIA H100"),
        ("NVIDIA H100", 10, "NVIDIA H1…"),
        ("NVIDIA H100", 8, "NVIDIA…"),
        ("天数智芯", 7, "天数智…"),
        ("天数智芯", 6, "天数…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_long_text_is_cut_to_its_width(text, width, wanted):
    assert cut(text, width) == wanted


@given(st.text(alphabet="a天é\u0301 "), st.integers(0, 20))
def test_a_cut_text_never_takes_more_than_its_width(text, width):
    assert display_width(cut(text, width)) <= width


def test_padding_counts_columns():
    assert (pad_right("天数", 6), pad_left("天数", 6)) == ("天数  ", "  天数")


GIB = 1024.0**3


VALUES = {
    "voltage_volts": [0.7314],
    "temperature_celsius": [41.0, 41.5, -0.01, -12.0],
    "power_watts": [0.0, 0.04, 7.25, 96.4, 112.5, 700.0],
    "utilization_ratio": [0.0, 0.0000305, 0.004, 0.57, 0.996, 1.0, 1.2],
    "memory_used_bytes": [0.0, 1023.0, 2097152.0, 80 * GIB, 81559 * 1024.0**2, 1e15],
    "clock_hertz": [1.98e9, 0.0],
    "energy_joules_total": [123456789.0, 12.0],
    "busy_seconds_total": [0.0, 0.0000035, 0.0124, 0.25, 5.25, 61.0, 7260.0, 400000.0],
    "event_last_timestamp_seconds": [1767225600.0],
    "pcie_link_width": [16.0],
    "telemetry_host_load1": [0.125],
    "telemetry_host_uptime_seconds": [400000.0],
    "peak_flops": [989e12],
    "peak_memory_bytes_per_second": [3.35e12],
}
PAIRS = [(0.0, 80 * GIB), (2097152.0, 80 * GIB), (31.2 * GIB, 48 * GIB), (80 * GIB, 80 * GIB)]
NAMES = [
    *VALUES, "power_cap_watts", "pcie_replays_total", "processes", "throttled", "throttled_seconds_total",
]  # fmt: skip


def test_values_and_names_in_words_match_the_golden_file(assert_golden):
    lines = [
        *(
            f"{metric} {value!r}: {human.value_text(value, BY_KEY[metric])}"
            for metric in VALUES
            for value in VALUES[metric]
        ),
        *(f"{used!r} of {total!r}: {human.byte_pair(used, total)}" for used, total in PAIRS),
        *(f"{metric}: {human.metric_name(BY_KEY[metric])}" for metric in NAMES),
    ]
    assert_golden(Path(__file__).parent / "golden" / "words.txt", "\n".join(lines) + "\n")


@given(st.sampled_from(CATALOGUE), st.floats(1e-12, 1e9))
def test_what_is_not_zero_is_never_shown_as_zero(metric, value):
    if metric.unit in ("watts", "bytes", "ratio", "joules", ""):
        assert human.value_text(value, metric).split()[0].strip("0.") != ""


@pytest.mark.parametrize("unit", [human.byte_size, human.joules])
@given(value=st.floats(0, 1e17))
def test_a_prefix_keeps_the_number_short(unit, value):
    assert float(unit(value).split()[0]) <= 1024
