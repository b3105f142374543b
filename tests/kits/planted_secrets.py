"""One secret of each kind that tools, command lines and logs may contain: tokens by form, and values after a key."""

import json
import random
import re
import string
from dataclasses import dataclass

from telemetry_daemon.masking.tokens import TOKENS

# The prefix of a token of each form.
BEGINNINGS = (
    *("ghp_", "gho_", "github_pat_", "glpat-", "glrt-", "hf_", "api_org_", "sk-", "sk-proj-", "sk-ant-api-", "AKIA", "ASIA"),
    *("AIza", "ya29.", "GOCSPX-", "xoxb-", "xapp-", "npm_", "pypi-", "sk_live_", "rk_test_", "dckr_pat_", "glsa_", "hvs."),
    *("dapi", "dop_v1_", "SG.abcdefghijklmnopqrst.", "123456789:AA", "nvapi-", "r8_", "wandb_v1_", "tskey-auth-"),
    *("AGE-SECRET-KEY-1", "eyJhbGciOiJIUzI."),
)  # fmt: skip
# `@` stands for the secret.
OF_KEYS = (
    "HF_TOKEN_PROD=@ next",
    "API_KEY_PROD=@, x",
    "DB_PASSWORD_PROD=@; ls",
    "export PASSWORD1=@ ",
    "SECRET_X='@' rest",
    "password1: @",
    "PASS: @",
    '{"user":{"name":"@"}}',
    '{"user": {"id": 7, "name": "@"}}',
    '{"users":["@","other"]}',
    '{"users":["other","@"]}',
    '{"host":["@"]}',
    '<node id="@">',
    "| User | Mem |\n| @ | 5 |",
    "User       Memory\n@   5 MiB",
    "Memory     Hostname\n5 MiB     @",
    "GPU  Node\n0    @",
    "Cookie: session=@",
    "Authorization: Bearer @",
    "https://user:@\x00db.example/x",
)
OTHERS = (
    ("ip 010.231.077.021 up", "231.077"),
    ("License: AB12C-DE34F-GH56I", "AB12C"),
    ("Serial: １２３４５６７８９０", "１２３４"),
    ("on gpu-a77-u31 now", "a77-u31"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJzdWIi"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----", "b3BlbnNz"),
)


@dataclass(frozen=True, slots=True)
class PlantedSecret:
    """A text, and the part of it that must not be found anywhere."""

    text: str
    secret: str

    def is_in(self, text: str) -> bool:
        """Return whether the secret is in a text, in any case, or in JSON's notation."""
        return any(form.lower() in text.lower() for form in (self.secret, json.dumps(self.secret)[1:-1]))


def token(beginning: str) -> PlantedSecret:
    """Return a token with this prefix and the least length that is recognized, and its secret part."""
    characters, least = next((row[1], row[2]) for row in TOKENS if re.fullmatch(row[0], beginning))
    body = _drawn(characters, max(least, 8), beginning)
    return PlantedSecret(beginning + body, body)


def planted_secrets() -> tuple[PlantedSecret, ...]:
    """Return a secret of each kind; all differ, and are the same in each run."""
    of_keys = ((text, _drawn("a-z", 9, text)) for text in OF_KEYS)
    return (
        *map(token, BEGINNINGS),
        *(PlantedSecret(text.replace("@", secret).replace("\x00", "@"), secret) for text, secret in of_keys),
        *(PlantedSecret(text, secret) for text, secret in OTHERS),
    )


def _drawn(characters: str, length: int, seed: str) -> str:
    """Return random letters of these characters, or digits if they have no letters."""
    allowed = [sign for sign in string.printable if re.fullmatch(f"[{characters}]", sign)]
    letters = [sign for sign in allowed if sign.isalpha()]
    return "".join(random.Random(seed).choices(letters or allowed, k=length))
