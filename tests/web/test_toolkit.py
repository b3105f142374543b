"""Web configuration files, good and bad, as the exporter-toolkit's format has them."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kits.web_server import Pki, cheap_hash
from telemetry_daemon.web.access.access_control import load_config
from telemetry_daemon.web.access.toolkit import (
    CIPHER_SUITES,
    CURVES,
    TLS13_CIPHER_SUITES,
    ClientCertificate,
    WebConfig,
    load_web_config,
)
from telemetry_daemon.web.addresses import WebConfigError

WebFile = Callable[[str], Path]
HASH = cheap_hash("secret")

# {C} and {K} are the server's certificate and key, {A} an authority, {T} the first lines of a TLS section.
TLS = "tls_server_config:\n  cert_file: {C}\n  key_file: {K}\n"
IF_GIVEN = "{T}  client_auth_type: VerifyClientCertIfGiven\n"
REQUIRED = "{T}  client_auth_type: RequireAndVerifyClientCert\n"

GOOD = {
    "nothing": "",
    "a comment": "# nothing here\n",
    "null": "~\n",
    "empty sections": "tls_server_config:\nhttp_server_config: {}\nbasic_auth_users:\nrate_limit:\n",
    "nulls": "tls_server_config: {cert_file: ~, cipher_suites: ~, client_allowed_sans: ~, min_version: ~}\n",
    "certificate and key": "{T}",
    "no client certificate": "{T}  client_auth_type: NoClientCert\n",
    "requested certificate": "{T}  client_auth_type: RequestClientCert\n",
    "verified if given": IF_GIVEN + "  client_ca_file: {A}\n",
    "required": REQUIRED + "  client_ca_file: {A}\n",
    "required by the system's authorities": REQUIRED,
    "allowed names": REQUIRED + "  client_ca_file: {A}\n"
    "  client_allowed_sans: [prometheus.test, ops@example.test, 10.0.0.7, 'spiffe://x/y']\n",
    "one version": "{T}  min_version: TLS13\n  max_version: TLS13\n",
    "old versions": "{T}  min_version: TLS10\n  max_version: TLS11\n",
    "all ciphers": "{T}  cipher_suites: [" + ", ".join((*CIPHER_SUITES, *TLS13_CIPHER_SUITES)) + "]\n",
    "only TLS 1.3 ciphers": "{T}  cipher_suites: [TLS_AES_128_GCM_SHA256]\n",
    "a cipher too weak for HTTP/2": "{T}  cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]\n  max_version: TLS12\n",
    "one curve": "{T}  curve_preferences: [CurveP521]\n  min_version: TLS13\n",
    "all curves": "{T}  curve_preferences: [" + ", ".join(CURVES) + "]\n",
    "client's order": "{T}  prefer_server_cipher_suites: no\n",
    "without HTTP/2": "http_server_config: {http2: false}\n",
    "all headers": "http_server_config:\n  headers:\n    Content-Security-Policy: default-src 'self'\n"
    "    X-Frame-Options: sameorigin\n    X-Content-Type-Options: nosniff\n    X-XSS-Protection: 1; mode=block\n"
    "    Strict-Transport-Security: max-age=31536000\n",
    "a blank header": "http_server_config: {headers: {X-Frame-Options: ''}}\n",
    "users without TLS": f"basic_auth_users:\n  alice: {HASH}\n  '7': {HASH}\n",
    "rate limit": "rate_limit: {interval: 1s, burst: 20}\n",
    "rate limit off": "rate_limit: {interval: 0, burst: 20}\n",
    "other keys alone do not switch TLS on": "tls_server_config: {min_version: TLS13}\n",
}

BAD = {
    "a list": ("- tls_server_config\n", "line 1: must be a mapping"),
    "a text": ("hello\n", "line 1: must be a mapping"),
    "no YAML": ("tls_server_config: {\n  secret: '", "is not valid YAML"),
    "no UTF-8": ("\udcc3(: 1\n", "is not valid YAML in UTF-8"),
    "two documents": ("---\n---\n{}\n", "is not valid YAML"),
    "too deep": ("[" * 5000, "is not valid YAML"),
    "an unknown section": ("tls_config: {}\n", "line 1: tls_config: unknown key; valid keys: tls_server_config"),
    "an unknown key": ("{T}  certfile: x\n", "line 4: tls_server_config.certfile: unknown key"),
    "an unknown key without TLS": ("http_server_config: {http3: true}\n", "http_server_config.http3: unknown key"),
    "a key twice": ("{T}  cert_file: other\n", "line 4: tls_server_config.cert_file: is set twice"),
    "a user twice": (f"basic_auth_users:\n  a: {HASH}\n  a: {HASH}\n", "line 3: basic_auth_users.a: is set twice"),
    "a key that is a list": ("? [a]\n: 1\n", "line 1: has a key that is not a string"),
    "a section that is a text": ("tls_server_config: yes please\n", "tls_server_config: must be a mapping"),
    "a text that is a list": ("tls_server_config:\n  cert_file: [a]\n", "cert_file: must be a string"),
    "a list that is a text": ("{T}  cipher_suites: TLS_AES_128_GCM_SHA256\n", "cipher_suites: must be a list"),
    "a flag that is none": ("http_server_config: {http2: maybe}\n", "http_server_config.http2: must be true or false"),
    "no certificate": ("tls_server_config:\n  key_file: {K}\n", "tls_server_config.cert_file: is missing"),
    "no key": ("tls_server_config:\n  cert_file: {C}\n", "tls_server_config.key_file: is missing"),
    "an empty certificate": ("tls_server_config:\n  cert_file: ''\n  key_file: {K}\n", "cert_file: is missing"),
    "only an authority": (
        "tls_server_config:\n  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {A}\n",
        "tls_server_config.cert_file: is missing",
    ),
    "certificate twice": ("{T}  cert: abc\n", "cert_file: is set together with cert; remove one"),
    "no such certificate": ("tls_server_config:\n  cert_file: none.crt\n  key_file: {K}\n", "none.crt: cannot read"),
    "no such key": ("tls_server_config:\n  cert_file: {C}\n  key_file: none.key\n", "none.key: cannot read"),
    "no such authority": (IF_GIVEN + "  client_ca_file: none.crt\n", "none.crt: cannot read client_ca_file"),
    "another's key": ("tls_server_config:\n  cert_file: {C}\n  key_file: {OK}\n", "key values mismatch"),
    "certificate and key exchanged": ("tls_server_config:\n  cert_file: {K}\n  key_file: {C}\n", "cannot be used"),
    "an inline certificate that is none": (
        "tls_server_config:\n  cert: abc\n  key_file: {K}\n",
        "tls_server_config.cert: the certificate and the key cannot be used",
    ),
    "an authority that is none": (IF_GIVEN + "  client_ca_file: {K}\n", "the client CA cannot be used"),
    "a blank authority": (IF_GIVEN + "  client_ca: ' '\n", "tls_server_config.client_ca: the client CA cannot be used"),
    "an authority without a type": ("{T}  client_ca_file: {A}\n", "client_ca_file: needs a client_auth_type"),
    "an authority that is not used": (
        "{T}  client_ca_file: {A}\n  client_auth_type: NoClientCert\n",
        "client_ca_file: needs a client_auth_type",
    ),
    "any certificate": (
        "{T}  client_auth_type: RequireAnyClientCert\n",
        "RequireAnyClientCert is not supported, because OpenSSL",
    ),
    "any certificate, old name": ("{T}  client_auth_type: RequireClientCert\n", "RequireClientCert is not supported"),
    "an invented type": ("{T}  client_auth_type: Sometimes\n", "client_auth_type: must be one of NoClientCert"),
    "allowed names, certificate optional": (
        IF_GIVEN + "  client_allowed_sans: [a]\n",
        "client_allowed_sans: needs client_auth_type RequireAndVerifyClientCert",
    ),
    "allowed names without TLS": ("tls_server_config: {client_allowed_sans: [a]}\n", "client_allowed_sans: needs"),
    "no allowed name": (REQUIRED + "  client_allowed_sans: []\n", "client_allowed_sans: is empty; list the allowed"),
    "an invented version": ("{T}  min_version: TLS14\n", "min_version: must be one of TLS10, TLS11, TLS12, TLS13"),
    "no version left": ("{T}  min_version: TLS13\n  max_version: TLS12\n", "max_version: TLS12 is below"),
    "no version left for the ciphers": (
        "{T}  cipher_suites: [TLS_AES_128_GCM_SHA256]\n  max_version: TLS12\n",
        "max_version: TLS12 is below",
    ),
    "an invented cipher": ("{T}  cipher_suites: [TLS_RSA_WITH_ROT13]\n", "'TLS_RSA_WITH_ROT13' is unknown"),
    "OpenSSL's cipher name": ("{T}  cipher_suites: [ECDHE-RSA-AES128-SHA]\n", "'ECDHE-RSA-AES128-SHA' is unknown"),
    "an invented curve": ("{T}  curve_preferences: [CurveP255]\n", "'CurveP255' is unknown; valid curves: CurveP256"),
    "some curves": ("{T}  curve_preferences: [X25519, CurveP256]\n", "name one curve, or remove the key"),
    "another header": ("http_server_config: {headers: {X-Mine: a}}\n", "headers.X-Mine: this header cannot be set"),
    "frames": ("http_server_config: {headers: {X-Frame-Options: allow}}\n", "must be deny or sameorigin"),
    "sniffing": ("http_server_config: {headers: {X-Content-Type-Options: sniff}}\n", "must be nosniff"),
    "a header of two lines": (
        'http_server_config: {headers: {X-XSS-Protection: "1\\r\\nSet-Cookie: a"}}\n',
        "X-XSS-Protection: must be one line of printable ASCII",
    ),
    "a password that is not hashed": (
        "basic_auth_users:\n  alice: sEcReT\n",
        "basic_auth_users.alice: is not a bcrypt",
    ),
    "a hash cut short": (f"basic_auth_users:\n  alice: {HASH[:-1]}\n", "basic_auth_users.alice: is not a bcrypt hash"),
    "a hash of no cost": ("basic_auth_users:\n  a: $2b$03$" + "a" * 53 + "\n", "is not a bcrypt hash"),
    "a user with a colon": (f"basic_auth_users:\n  'a:b': {HASH}\n", "cannot contain a colon"),
    "users in a list": ("basic_auth_users: [alice]\n", "basic_auth_users: must be a mapping"),
    "an interval without a unit": ("rate_limit: {interval: 1, burst: 2}\n", "rate_limit.interval: must be a duration"),
    "an interval below zero": ("rate_limit: {interval: -1s, burst: 2}\n", "rate_limit.interval: must be a duration"),
    "a burst of none": ("rate_limit: {interval: 1s}\n", "rate_limit.burst: must be at least 1"),
    "a burst below zero": ("rate_limit: {interval: 1s, burst: -1}\n", "rate_limit.burst: must be a whole number"),
}


def fill(text: str, pki: Pki) -> str:
    names = {
        "{T}": TLS,
        "{C}": str(pki.server.certificate),
        "{K}": str(pki.server.key),
        "{OK}": str(pki.client.key),
        "{A}": str(pki.authority.certificate),
    }
    for name, value in names.items():
        text = text.replace(name, value)
    return text


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_good_files_load(pki: Pki, web_file: WebFile, text: str) -> None:
    rules = load_config(str(web_file(fill(text, pki))))
    assert (rules.context is not None) == text.startswith("{T}")


@pytest.mark.parametrize(("text", "complaint"), BAD.values(), ids=BAD)
def test_bad_files_are_refused_in_one_line_that_names_the_place(
    pki: Pki, tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "web.yml"
    path.write_bytes(fill(text, pki).encode("utf-8", "surrogateescape"))
    with pytest.raises(WebConfigError, match=re.escape(complaint)) as caught:
        load_config(str(path))
    message = str(caught.value)
    assert message.startswith((str(tmp_path), str(pki.folder)))
    assert "\n" not in message


@pytest.mark.parametrize("name", ["a password that is not hashed", "a hash cut short", "no YAML"])
def test_errors_contain_no_secret(web_file: WebFile, name: str) -> None:
    with pytest.raises(WebConfigError) as caught:
        load_web_config(str(web_file(BAD[name][0])))
    assert not any(secret in str(caught.value) for secret in ("sEcReT", HASH[:-1], "secret: "))


def test_secrets_are_not_in_the_repr(web_file: WebFile) -> None:
    text = f"basic_auth_users: {{alice: {HASH}}}\ntls_server_config: {{cert: PUBLIC, key: PRIVATE}}\n"
    shown = repr(load_web_config(str(web_file(text))))
    assert HASH not in shown
    assert "PRIVATE" not in shown


def test_an_empty_file_is_plain_http_for_everybody(web_file: WebFile) -> None:
    assert load_web_config(str(web_file(""))) == WebConfig()


def test_all_keys_of_a_file_are_read(web_file: WebFile, tmp_path: Path) -> None:
    text = f"""\
tls_server_config:
  cert_file: certs/server.crt
  key: |
    a key
  client_ca_file: /etc/ca.crt
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [a.test, 10.0.0.7]
  min_version: TLS12
  max_version: TLS12
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_RSA_WITH_AES_128_CBC_SHA]
  curve_preferences: [CurveP256]
  prefer_server_cipher_suites: false
http_server_config:
  headers: {{X-Frame-Options: deny, Content-Security-Policy: "", X-XSS-Protection: 0}}
basic_auth_users: {{alice: {HASH}}}
rate_limit: {{interval: 1m30.5s, burst: 7}}
"""
    config = load_web_config(str(web_file(text)))
    assert config.headers == (("X-Frame-Options", "deny"), ("X-XSS-Protection", "0"))
    assert config.users == (("alice", HASH),)
    assert (config.rate_interval_seconds, config.rate_burst) == (90.5, 7)
    tls = config.tls
    assert tls is not None
    assert tls.certificate.file == str(tmp_path / "certs/server.crt")
    assert tls.private_key.text == "a key\n"
    assert tls.client_ca is not None
    assert tls.client_ca.file == "/etc/ca.crt"
    assert tls.client_certificate is ClientCertificate.REQUIRED
    assert tls.client_allowed_sans == ("a.test", "10.0.0.7")
    assert (tls.min_version, tls.max_version) == ("TLS12", "TLS12")
    assert tls.ciphers == ("ECDHE-RSA-AES256-GCM-SHA384", "AES128-SHA")
    assert tls.curve == "prime256v1"
    assert not tls.prefers_server_ciphers


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [("1s", 1.0), ("500ms", 0.5), ("1m", 60.0), ("2h", 7200.0), ("1.5s", 1.5), (".5s", 0.5), ("10us", 1e-5)],
)
def test_durations_are_parsed(web_file: WebFile, interval: str, seconds: float) -> None:
    config = load_web_config(str(web_file(f"rate_limit: {{interval: {interval}, burst: 1}}\n")))
    assert config.rate_interval_seconds == pytest.approx(seconds)


def test_an_encrypted_key_is_refused_without_asking_for_its_password(pki: Pki, web_file: WebFile) -> None:
    text = f"tls_server_config:\n  cert_file: {pki.server.certificate}\n  key: |\n    -----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    with pytest.raises(WebConfigError, match=r"tls_server_config\.key: the key is encrypted"):
        load_config(str(web_file(text)))


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "huge"])
def test_irregular_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "web.yml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "huge":
        path.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(WebConfigError, match=r"web\.yml: cannot read the web configuration file: .*; ?check|check"):
        load_web_config(str(path))
