"""Tokens, secrets and words that masking hides, in linear time."""

import re
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kits.planted_identities import PLANTS
from kits.planted_secrets import BEGINNINGS, PlantedSecret, planted_secrets, token
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.masking.secrets import KnownIdentities, WholeWords, _search, find_secrets
from telemetry_daemon.masking.tokens import TOKENS

AROUND = ("{}", "token {} was refused", "--key={}", "a,{},b", '"{}"', "X={} y", "https://host/?q={}&r=1")


def masked(text: str) -> str:
    return Mask(b"key", ()).masked_text(text)


def test_each_form_has_an_example() -> None:
    for prefix, _, _ in TOKENS:
        assert any(re.fullmatch(prefix, beginning) for beginning in BEGINNINGS), prefix


@pytest.mark.parametrize("around", AROUND)
def test_every_token_is_masked(around: str) -> None:
    for planted in map(token, BEGINNINGS):
        assert planted.secret not in masked(around.format(planted.text)), planted


@pytest.mark.parametrize("planted", planted_secrets(), ids=lambda planted: planted.text)
def test_every_secret_is_masked(planted: PlantedSecret) -> None:
    assert planted.secret not in masked(planted.text)


@pytest.mark.parametrize(
    "header",
    [
        "Cookie: session=zebra; id=zebra9",
        "Set-Cookie: id=zebra; Path=/; HttpOnly",
        "Authorization: Bearer zebra",
        "Authorization: zebra",
        "Authorization: AWS4-HMAC Credential=zebra/x, SignedHeaders=host, Signature=zebra9",
    ],
)
def test_number_after_a_header_is_kept(header: str) -> None:
    text = masked(f"{header} Power: 300 W")
    assert "zebra" not in text
    assert text.endswith(" Power: 300 W")


WORDS = (
    *("Serial Number", "uuid", "Hostname", "power_usage", "temperature", "P0", "ok", "4242", "1.2.3.4", "10.0.0.7", "tiger"),
    *("train.py", "python3", "1564621013400", "0x18f68e602b8a790f", "GPU-18f68e602b8a790f", "a_key", ":", "=", "|", ",", "-"),
    *(secret for plant in PLANTS for secret in plant.secrets),
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=5).map(" ".join) | st.text(max_size=90)
KNOWN = st.builds(
    KnownIdentities,
    ids=st.lists(st.sampled_from(WORDS), max_size=2).map(WholeWords),
    names=st.lists(st.sampled_from(WORDS), max_size=2).map(WholeWords),
    processes=st.lists(st.tuples(st.just("4242"), st.sampled_from(("train.py", "tiger"))), max_size=1).map(tuple),
    harmless=st.frozensets(st.sampled_from(WORDS), max_size=3),
)
TREATMENTS = st.sampled_from((None, "each", "names", "odd", "whole", "address"))


@given(TEXTS, st.lists(KNOWN, min_size=1, max_size=3), TREATMENTS)
def test_fast_search_finds_the_same_as_the_full_search(text, all_known, announced) -> None:
    for identities in all_known:
        found = sorted(_search(text, identities, announced).found, key=lambda secret: secret.start)
        assert find_secrets(text, identities, announced) == found


SIGNS = st.sampled_from("aAbB1-: éİ用")
WORD_LISTS = st.lists(st.text(SIGNS, min_size=1, max_size=6).filter(lambda word: word[0] not in "-: "), max_size=6)


@given(WORD_LISTS, WORD_LISTS, st.text(SIGNS, max_size=40))
@example(["ab", "ab-1-b"], [], "ab")
@example(["aİb", "İb"], [], "aİb-İB İb")
def test_words_are_found_like_by_a_pattern_of_all_words(words: list[str], later: list[str], text: str) -> None:
    words_known = WholeWords(words)
    words_known.add(later)
    longest_first = sorted({*words, *later}, key=len, reverse=True)
    # Case-insensitive in the words only: otherwise [a-z] would match İ, too.
    pattern = rf"(?<![0-9a-zA-Z])(?i:{'|'.join(map(re.escape, longest_first)) or '(?!)'})(?![0-9a-zA-Z])"
    assert list(words_known.find(text)) == [match.span() for match in re.finditer(pattern, text)]


def test_word_after_signs_is_found() -> None:
    assert list(WholeWords(["[SN-12345]", "--", ""]).find("board SN-12345] and [sn-12345]")) == [(6, 15), (21, 30)]


def test_search_time_does_not_grow_with_similar_words() -> None:
    """A bad source may name hundreds of cards at each poll, and a hosts file tens of thousands of nodes."""
    few, many = (WholeWords(f"ACME-{number:09d}" for number in range(count)) for count in (30, 30_000))
    assert _calls(few, "power of ACME-000000029 and ACME-1") == _calls(many, "power of ACME-000029999 and ACME-1")


def _calls(words_known: WholeWords, text: str) -> int:
    """Return how many functions are called to find the one word in the text."""
    events: list[str] = []
    sys.setprofile(lambda _frame, event, _arg: events.append(event))
    try:
        found = list(words_known.find(text))
    finally:
        sys.setprofile(None)
    assert found == [(9, 23)]
    return sum(event in ("call", "c_call") for event in events)
