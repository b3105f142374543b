"""Known words are found as a pattern of all of them would find them, and in a time that does not grow with their number."""

from __future__ import annotations

import re
import sys

from hypothesis import example, given
from hypothesis import strategies as st

from telemetry_daemon.masking.secrets import WholeWords

SIGNS = st.sampled_from("aAbB1-: éİ用")
WORDS = st.lists(st.text(SIGNS, min_size=1, max_size=6).filter(lambda word: word[0] not in "-: "), max_size=6)


@given(WORDS, WORDS, st.text(SIGNS, max_size=40))
@example(["ab", "ab-1-b"], [], "ab")
@example(["aİb", "İb"], [], "aİb-İB İb")
def test_they_stand_where_a_pattern_of_all_of_them_finds_them(words: list[str], later: list[str], text: str) -> None:
    known = WholeWords(words)
    known.add(later)
    longest_first = sorted({*words, *later}, key=len, reverse=True)
    # Without regard to case in the words alone: with it, [a-z] takes İ, too.
    pattern = rf"(?<![0-9a-zA-Z])(?i:{'|'.join(map(re.escape, longest_first)) or '(?!)'})(?![0-9a-zA-Z])"
    assert list(known.find(text)) == [match.span() for match in re.finditer(pattern, text)]


def test_signs_before_a_word_do_not_hide_it() -> None:
    assert list(WholeWords(["[SN-12345]", "--", ""]).find("board SN-12345] and [sn-12345]")) == [(6, 15), (21, 30)]


def test_a_place_takes_as_many_calls_however_many_words_begin_alike() -> None:
    """A bad source may name hundreds of cards at each poll, and a hosts file tens of thousands of nodes."""
    few, many = (WholeWords(f"ACME-{number:09d}" for number in range(count)) for count in (30, 30_000))
    assert _calls(few, "power of ACME-000000029 and ACME-1") == _calls(many, "power of ACME-000029999 and ACME-1")


def _calls(known: WholeWords, text: str) -> int:
    """How many functions are called to find the one word that is in the text."""
    events: list[str] = []
    sys.setprofile(lambda _frame, event, _arg: events.append(event))
    try:
        found = list(known.find(text))
    finally:
        sys.setprofile(None)
    assert found == [(9, 23)]
    return sum(event in ("call", "c_call") for event in events)
