"""Short texts take a short way to their secrets: it finds what the long one finds, whatever is known and however often it was asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kits.planted_identities import PLANTS
from telemetry_daemon.masking.secrets import Known, WholeWords, _searched, secrets

WORDS = (
    *("Serial Number", "uuid", "Hostname", "power_usage", "temperature", "P0", "ok", "4242", "1.2.3.4", "10.0.0.7", "tiger"),
    *("train.py", "python3", "1564621013400", "0x18f68e602b8a790f", "GPU-18f68e602b8a790f", "a_key", ":", "=", "|", ",", "-"),
    *(secret for plant in PLANTS for secret in plant.secrets),
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=5).map(" ".join) | st.text(max_size=90)
KNOWN = st.builds(
    Known,
    ids=st.lists(st.sampled_from(WORDS), max_size=2).map(WholeWords),
    names=st.lists(st.sampled_from(WORDS), max_size=2).map(WholeWords),
    processes=st.lists(st.tuples(st.just("4242"), st.sampled_from(("train.py", "tiger"))), max_size=1).map(tuple),
    harmless=st.frozensets(st.sampled_from(WORDS), max_size=3),
)
TREATMENTS = st.sampled_from((None, "each", "names", "odd", "whole", "address"))


@given(TEXTS, st.lists(KNOWN, min_size=1, max_size=3), TREATMENTS)
def test_the_short_way_finds_what_the_long_one_finds(text, all_known, announced) -> None:
    for known in all_known:
        found = sorted(_searched(text, known, announced).found, key=lambda secret: secret.start)
        assert secrets(text, known, announced) == found
