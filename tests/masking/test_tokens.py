"""Secrets by their form, by the variable or key before them, and in tables and documents: none stays in a masked text."""

from __future__ import annotations

import random
import re
import string

import pytest

from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.masking.tokens import TOKENS

# A token of each form, without digits where the form allows it.
EXAMPLES = (
    *("ghp_", "gho_", "github_pat_", "glpat-", "glrt-", "hf_", "api_org_", "sk-", "sk-proj-", "sk-ant-api-", "AKIA", "ASIA"),
    *("AIza", "ya29.", "GOCSPX-", "xoxb-", "xapp-", "npm_", "pypi-", "sk_live_", "rk_test_", "dckr_pat_", "glsa_", "hvs."),
    *("dapi", "dop_v1_", "SG.abcdefghijklmnopqrst.", "123456789:AA", "nvapi-", "r8_", "wandb_v1_", "tskey-auth-"),
    *("AGE-SECRET-KEY-1", "eyJhbGciOiJIUzI.",),
)  # fmt: skip
AROUND = ("{}", "token {} was refused", "--key={}", "a,{},b", '"{}"', "X={} y", "https://host/?q={}&r=1")
ZEBRAS = (
    "HF_TOKEN_PROD=zebra next",
    "API_KEY_PROD=zebra, x",
    "DB_PASSWORD_PROD=zebra; ls",
    "export PASSWORD1=zebra ",
    "SECRET_X='zebra' rest",
    "password1: zebra",
    "PASS: zebra",
    '{"user":{"name":"zebra"}}',
    '{"user": {"id": 7, "name": "zebra"}}',
    '{"users":["zebra","zebra2"]}',
    '{"host":["zebra"]}',
    '<node id="zebra">',
    "| User | Mem |\n| zebra | 5 |",
    "User       Memory\nzebra       5 MiB",
    "Memory     Hostname\n5 MiB     zebra",
    "GPU  Node\n0    zebra",
)


def masked(text: str) -> str:
    return Mask(b"key", ()).text(text)


def body(characters: str, length: int) -> str:
    """Characters of this class, letters if it has any; the same at each run."""
    allowed = [sign for sign in string.printable if re.fullmatch(f"[{characters}]", sign)]
    letters = [sign for sign in allowed if sign.isalpha()]
    return "".join(random.Random(length).choices(letters or allowed, k=length))


def test_each_form_has_an_example() -> None:
    for prefix, _, _ in TOKENS:
        assert any(re.fullmatch(prefix, example) for example in EXAMPLES), prefix


@pytest.mark.parametrize("around", AROUND)
def test_no_token_stays(around: str) -> None:
    for example in EXAMPLES:
        characters, least = next((row[1], row[2]) for row in TOKENS if re.fullmatch(row[0], example))
        secret = body(characters, least)
        assert secret not in masked(around.format(example + secret)), example


@pytest.mark.parametrize("text", ZEBRAS)
def test_no_value_of_a_key_stays(text: str) -> None:
    assert "zebra" not in masked(text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("ip 010.231.077.021 up", "231.077"),
        ("License: AB12C-DE34F-GH56I", "AB12C"),
        ("Serial: １２３４５６７８９０", "１２３４"),
        ("on gpu-a77-u31 now", "a77-u31"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJzdWIi"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END", "b3BlbnNz"),
    ],
)
def test_other_forms(text: str, secret: str) -> None:
    assert secret not in masked(text)


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
