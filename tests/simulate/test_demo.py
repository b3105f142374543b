"""The syntax of `--demo`, and its errors."""

from __future__ import annotations

import pytest

from telemetry_daemon.simulate.demo import DEFAULT_GROUPS, EXAMPLE, MAX_CARDS, DemoError, parse_demo


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("8xnvidia", (("nvidia", 8),)),
        (" 2xascend , 1xamd ", (("ascend", 2), ("amd", 1))),
        (EXAMPLE, (("nvidia", 8), ("hygon", 4))),
        ("2xgb200,1xamd", (("gb200", 2), ("amd", 1))),
        ("", DEFAULT_GROUPS),
    ],
)
def test_demo_is_parsed_into_groups(text, groups):
    assert parse_demo(text) == groups


NO_GROUP = "expected a number of cards (1 to 256), the letter x and a vendor"


@pytest.mark.parametrize(
    ("text", "named", "why"),
    [
        ("8xnvidai", "'8xnvidai'", "did you mean 8xnvidia?"),
        ("8xzzz", "'8xzzz'", "the vendors are nvidia, amd,"),
        *((text, f"'{text}'", NO_GROUP) for text in ("nvidia", "0xnvidia", "-1xnvidia", "8 x nvidia", "99999xamd")),
        ("٨xnvidia", r"'\u0668xnvidia'", NO_GROUP),
        ("8xnvidia\n4xamd", r"'8xnvidia\n4xamd'", NO_GROUP),
        ("2xamd,3xamd", "'3xamd'", "amd is named twice"),
        ("2xnvidia,3xgb200", "'3xgb200'", "nvidia is named twice; a demo can have only one model of each vendor"),
        ("x" * 1000, "'" + "x" * 40, NO_GROUP),
        ("200xamd,57xnvidia", "257", f"limit of {MAX_CARDS}"),
    ],
)
def test_invalid_demo_is_refused(text, named, why):
    with pytest.raises(DemoError) as error:
        parse_demo(text)
    message = str(error.value)
    assert named in message
    assert why in message
    assert EXAMPLE in message
    assert message.isprintable()
    assert len(message) < 400
