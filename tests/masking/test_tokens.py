"""Secrets by their form, by the variable or key before them, and in tables and documents: none stays in a masked text."""

from __future__ import annotations

import re

import pytest

from kits.planted_secrets import BEGINNINGS, PlantedSecret, planted_secrets, token
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.masking.tokens import TOKENS

AROUND = ("{}", "token {} was refused", "--key={}", "a,{},b", '"{}"', "X={} y", "https://host/?q={}&r=1")


def masked(text: str) -> str:
    return Mask(b"key", ()).text(text)


def test_each_form_has_an_example() -> None:
    for prefix, _, _ in TOKENS:
        assert any(re.fullmatch(prefix, beginning) for beginning in BEGINNINGS), prefix


@pytest.mark.parametrize("around", AROUND)
def test_no_token_stays(around: str) -> None:
    for planted in map(token, BEGINNINGS):
        assert planted.secret not in masked(around.format(planted.text)), planted


@pytest.mark.parametrize("planted", planted_secrets(), ids=lambda planted: planted.text)
def test_no_secret_stays(planted: PlantedSecret) -> None:
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
def test_a_header_hides_no_number_behind_it(header: str) -> None:
    text = masked(f"{header} Power: 300 W")
    assert "zebra" not in text
    assert text.endswith(" Power: 300 W")


@pytest.mark.parametrize(
    "text",
    [
        "power: 300 W",
        "tokens_total 123",
        "Node  0: 12",
        "PASS: 3",
        "License: Apache-2.0",
        "driver version 1.2.3.4",
        "Node  Memory\n0     512 MiB",
        "sk-hynix HBM3",
    ],
)
def test_what_identifies_nobody_stays(text: str) -> None:
    assert masked(text) == text
