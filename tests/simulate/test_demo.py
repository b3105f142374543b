"""What `--demo` takes, and what it says to what it does not take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_daemon.simulate.demo import EXAMPLE, MIXED, MOST_CARDS, PLAYED, DemoError, parse_demo
from telemetry_parsers.vendors import BY_WORD, VENDOR_WORDS


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("8xnvidia", (("nvidia", 8),)),
        ("8xnvidia,4xhygon", (("nvidia", 8), ("hygon", 4))),
        (" 2xascend , 1xamd ", (("ascend", 2), ("amd", 1))),
        ("256xkunlunxin", (("kunlunxin", 256),)),
        (EXAMPLE, (("nvidia", 8), ("hygon", 4))),
        ("2xgb200,1xamd", (("gb200", 2), ("amd", 1))),
        ("", MIXED),
        ("  ", MIXED),
    ],
)
def test_a_demo_is_groups_of_cards(text, groups):
    assert parse_demo(text) == groups


def test_the_mixed_node_has_cards_of_several_vendors():
    assert len(MIXED) >= 4
    assert {vendor for vendor, _ in MIXED} <= set(VENDOR_WORDS)


NO_GROUP = "not a number of cards (1 to 256), x and a vendor"


@pytest.mark.parametrize(
    ("text", "named", "why"),
    [
        ("8xnvidai", "'8xnvidai'", "did you mean 8xnvidia?"),
        ("8xzzz", "'8xzzz'", "the vendors are nvidia, amd,"),
        *(
            (text, f"'{text}'", NO_GROUP)
            for text in (
                "nvidia",
                "8nvidia",
                "0xnvidia",
                "-1xnvidia",
                "8xNVIDIA",
                "8 x nvidia",
                "8xnvidia;4xamd",
                "99999xamd",
            )
        ),
        ("٨xnvidia", r"'\u0668xnvidia'", NO_GROUP),
        ("8xnvidia,", "''", NO_GROUP),
        ("8xnvidia\n4xamd", r"'8xnvidia\n4xamd'", NO_GROUP),
        ("2xamd,3xamd", "'3xamd'", "amd is named twice"),
        ("2xnvidia,3xgb200", "'3xgb200'", "nvidia is named twice; a simulated node has one model of each vendor"),
        ("200xamd,57xnvidia", "257", f"more than {MOST_CARDS}"),
        ("x" * 1000, "'" + "x" * 40, NO_GROUP),
    ],
)
def test_what_is_no_demo_node(text, named, why):
    with pytest.raises(DemoError) as error:
        parse_demo(text)
    message = str(error.value)
    assert named in message
    assert why in message
    assert EXAMPLE in message
    assert message.isprintable()


def test_a_model_is_played_for_its_vendor():
    assert {word: vendor.word for word, vendor in PLAYED.items() if word not in BY_WORD} == {
        "h100mig": "nvidia",
        "gb200": "nvidia",
    }


@given(st.dictionaries(st.sampled_from(VENDOR_WORDS), st.integers(1, 20), min_size=1))
def test_every_node_can_be_written(counts):
    text = ",".join(f"{count}x{vendor}" for vendor, count in counts.items())
    assert parse_demo(text) == tuple(counts.items())


@given(st.text(alphabet="0123456789x,nvidamh \n\t\x00é", max_size=40) | st.text())
def test_any_text_is_a_node_or_one_line_that_says_why_not(text):
    groups, message = (), ""
    try:
        groups = parse_demo(text)
    except DemoError as error:
        message = str(error)
    assert bool(groups) != bool(message)
    assert message.isprintable()
    assert len(message) < 400
    assert sum(count for _, count in groups) <= MOST_CARDS
