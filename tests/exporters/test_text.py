"""Texts from tools: harmless in a terminal and on a page, and as wide as they look."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits import snapshots as kit
from telemetry_exporters.text import clean, cleaned, cut, display_width, pad_left, pad_right


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
def test_a_clean_text_is_one_line_of_valid_utf8_without_controls(text):
    shown = clean(text)
    assert len(shown) == len(text)
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert len(shown.splitlines()) <= 1
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs") for character in shown)
    assert clean(shown) == shown


def test_all_texts_of_a_thing_are_cleaned_and_a_clean_thing_is_the_very_same():
    device = kit.full_device(facts=(("a", "b"),))
    assert cleaned(device) is device
    assert cleaned(kit.full_device(facts=(("a", "b\x00"),), serial="\x01")).facts == (("a", "b�"),)


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
def test_a_long_text_is_cut_and_says_so(text, width, wanted):
    assert cut(text, width) == wanted


@given(st.text(alphabet="a天é\u0301 "), st.integers(0, 20))
def test_a_cut_text_never_takes_more_than_its_width(text, width):
    assert display_width(cut(text, width)) <= width


def test_padding_counts_columns():
    assert (pad_right("天数", 6), pad_left("天数", 6)) == ("天数  ", "  天数")
