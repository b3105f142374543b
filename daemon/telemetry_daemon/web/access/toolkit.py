"""Reads the web configuration file, whose format is that of the Prometheus exporter-toolkit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.web.addresses import WebConfigError
from telemetry_parsers.dataclass import dataclass, field

if TYPE_CHECKING:
    from telemetry_daemon.web.access.strict_yaml import Table

MAX_FILE_BYTES = 1024 * 1024

# Maps Go's name of a cipher suite, which the file uses, to OpenSSL's name.
CIPHER_SUITES: Mapping[str, str] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
}
# These suites are accepted but not configured, because Go and Python always enable them for TLS 1.3.
TLS13_CIPHER_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
CURVES: Mapping[str, str] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
_VERSIONS = ("TLS10", "TLS11", "TLS12", "TLS13")
_CLIENT_AUTH_TYPES = ("NoClientCert", "RequestClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
_UNSUPPORTED_CLIENT_AUTH_TYPES = ("RequireAnyClientCert", "RequireClientCert")

_TOP_KEYS = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
_TLS_ENABLING_KEYS = ("cert_file", "cert", "key_file", "key", "client_ca_file", "client_ca", "client_auth_type")
_OTHER_TLS_KEYS = ("client_allowed_sans", "min_version", "max_version", "cipher_suites", "curve_preferences")
_TLS_KEYS = (*_TLS_ENABLING_KEYS, *_OTHER_TLS_KEYS, "prefer_server_cipher_suites")
# The headers that can be configured. An empty tuple allows any value.
_ALLOWED_HEADER_VALUES: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_BCRYPT_HASH = re.compile(r"\$2[abxy]\$(?:0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS_BY_UNIT = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class ClientCertificate(Enum):
    """How client certificates are requested and verified."""

    NOT_REQUESTED = "none"
    VERIFIED_IF_GIVEN = "verified if given"
    REQUIRED = "required and verified"


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key, either in a file or inline in the configuration."""

    key: str
    file: str = ""
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The TLS settings. If `client_ca` is None, the system's certificate authorities are trusted."""

    certificate: Pem
    private_key: Pem
    client_ca: Pem | None = None
    client_certificate: ClientCertificate = ClientCertificate.NOT_REQUESTED
    client_allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    ciphers: tuple[str, ...] = ()
    curve: str = ""
    prefers_server_ciphers: bool = True


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The content of a web configuration file. If `tls` is None, the server uses HTTP without TLS."""

    tls: TlsConfig | None = None
    headers: tuple[tuple[str, str], ...] = ()
    users: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    rate_interval_seconds: float = 0.0
    rate_burst: int = 0


def load_web_config(file: str) -> WebConfig:
    """Return the configuration in a file. Raise WebConfigError if it is invalid or unreadable."""
    from telemetry_daemon.web.access.strict_yaml import read_table

    table = read_table(file, read_small_file(file, "the web configuration file"))
    table.check_keys(_TOP_KEYS)
    interval, burst = _read_rate_limit(table.table("rate_limit"))
    return WebConfig(
        tls=_read_tls(table.table("tls_server_config"), Path(file).absolute().parent),
        headers=_read_headers(table.table("http_server_config")),
        users=_read_users(table.table("basic_auth_users")),
        rate_interval_seconds=interval,
        rate_burst=burst,
    )


def read_small_file(file: str, description: str) -> bytes:
    """Return the bytes of a file. Raise WebConfigError if it is unreadable or too large."""
    try:
        return read_file(file, MAX_FILE_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        raise WebConfigError(f"{file}: cannot read {description}: {reason}; check the path and permissions") from error


def _read_tls(table: Table, folder: Path) -> TlsConfig | None:
    table.check_keys(_TLS_KEYS)
    client_certificate = _read_client_certificate(table)
    client_ca = _read_pem(table, "client_ca", folder)
    if client_ca is not None and table.text("client_auth_type") in {"", "NoClientCert"}:
        raise table.error(client_ca.key, "needs a client_auth_type; set RequireAndVerifyClientCert")
    ciphers, min_version, max_version = _read_ciphers_and_versions(table)
    sans = _read_allowed_sans(table, client_certificate)
    curve = _read_curve(table)
    prefers_server_ciphers = table.flag("prefer_server_cipher_suites")
    # As in the exporter-toolkit, the other keys alone do not enable TLS.
    if not any(table.text(key) for key in _TLS_ENABLING_KEYS):
        return None
    certificate, private_key = _read_certificate_and_key(table, folder)
    return TlsConfig(
        certificate=certificate,
        private_key=private_key,
        client_ca=client_ca,
        client_certificate=client_certificate,
        client_allowed_sans=sans,
        min_version=min_version,
        max_version=max_version,
        ciphers=ciphers,
        curve=curve,
        prefers_server_ciphers=prefers_server_ciphers is not False,
    )


def _read_certificate_and_key(table: Table, folder: Path) -> tuple[Pem, Pem]:
    certificate, private_key = _read_pem(table, "cert", folder), _read_pem(table, "key", folder)
    if certificate is None:
        raise table.error("cert_file", "is missing; set the server's certificate, or remove tls_server_config")
    if private_key is None:
        raise table.error("key_file", "is missing; set the certificate's private key")
    return certificate, private_key


def _read_pem(table: Table, name: str, folder: Path) -> Pem | None:
    file_key = f"{name}_file"
    file, text = table.text(file_key), table.text(name)
    if file and text:
        raise table.error(file_key, f"is set together with {name}; remove one of them")
    if file:
        return Pem(file_key, file=str(folder / file))
    return Pem(name, text=text) if text else None


def _read_client_certificate(table: Table) -> ClientCertificate:
    auth_type = table.text("client_auth_type")
    if auth_type in _UNSUPPORTED_CLIENT_AUTH_TYPES:
        reason = f"{auth_type} is not supported, because OpenSSL verifies every certificate that it requests"
        raise table.error("client_auth_type", f"{reason}; set RequireAndVerifyClientCert with a client_ca_file")
    if auth_type and auth_type not in _CLIENT_AUTH_TYPES:
        raise table.error("client_auth_type", f"must be one of {', '.join(_CLIENT_AUTH_TYPES)}")
    # RequestClientCert does not verify the certificate, so no certificate is requested.
    return {
        "VerifyClientCertIfGiven": ClientCertificate.VERIFIED_IF_GIVEN,
        "RequireAndVerifyClientCert": ClientCertificate.REQUIRED,
    }.get(auth_type, ClientCertificate.NOT_REQUESTED)


def _read_allowed_sans(table: Table, client_certificate: ClientCertificate) -> tuple[str, ...]:
    sans = table.texts("client_allowed_sans")
    if not table.has("client_allowed_sans"):
        return ()
    if not sans or not all(sans):
        raise table.error("client_allowed_sans", "is empty; list the allowed names or remove the key")
    if client_certificate is not ClientCertificate.REQUIRED:
        raise table.error("client_allowed_sans", "needs client_auth_type RequireAndVerifyClientCert; set it")
    return sans


def _read_ciphers_and_versions(table: Table) -> tuple[tuple[str, ...], str, str]:
    suites = table.texts("cipher_suites")
    for suite in suites:
        if suite not in CIPHER_SUITES and suite not in TLS13_CIPHER_SUITES:
            names = ", ".join((*CIPHER_SUITES, *sorted(TLS13_CIPHER_SUITES)))
            raise table.error("cipher_suites", f"{suite!r} is unknown; valid suites: {names}")
    min_version = _read_version(table, "min_version", "TLS12")
    max_version = _read_version(table, "max_version", "TLS13")
    ciphers = tuple(CIPHER_SUITES[suite] for suite in suites if suite in CIPHER_SUITES)
    if suites and not ciphers:
        min_version = "TLS13"
    if min_version > max_version:
        raise table.error("max_version", f"{max_version} is below min_version {min_version}; increase max_version")
    return ciphers, min_version, max_version


def _read_version(table: Table, key: str, default: str) -> str:
    version = table.text(key) or default
    if version not in _VERSIONS:
        raise table.error(key, f"must be one of {', '.join(_VERSIONS)}")
    return version


def _read_curve(table: Table) -> str:
    names = table.texts("curve_preferences")
    for name in names:
        if name not in CURVES:
            raise table.error("curve_preferences", f"{name!r} is unknown; valid curves: {', '.join(CURVES)}")
    curves = set(names)
    if len(curves) == 1:
        return CURVES[names[0]]
    if curves and curves != set(CURVES):
        reason = f"Python's ssl module can select one or all of {', '.join(CURVES)}, but no other subset"
        raise table.error("curve_preferences", f"{reason}; name one curve, or remove the key")
    return ""


def _read_headers(table: Table) -> tuple[tuple[str, str], ...]:
    table.check_keys(("http2", "headers"))
    table.flag("http2")  # accepted and ignored, because every client supports HTTP/1.1
    headers = table.table("headers")
    headers.check_keys(_ALLOWED_HEADER_VALUES, "this header cannot be set; valid headers: ")
    header_pairs: list[tuple[str, str]] = []
    for name in headers.names:
        value = headers.text(name)
        if not value:
            continue
        allowed = _ALLOWED_HEADER_VALUES[name]
        if allowed and value not in allowed:
            raise headers.error(name, f"must be {' or '.join(allowed)}")
        if not _HEADER_VALUE.fullmatch(value):
            raise headers.error(name, "must be one line of printable ASCII")
        header_pairs.append((name, value))
    return tuple(header_pairs)


def _read_users(table: Table) -> tuple[tuple[str, str], ...]:
    for name in table.names:
        if ":" in name:
            raise table.error(name, "a user name cannot contain a colon in basic authentication; rename the user")
        if not _BCRYPT_HASH.fullmatch(table.text(name)):
            raise table.error(name, "is not a bcrypt hash; create one with: htpasswd -nBC 10 '' | tr -d ':\\n'")
    return tuple((name, table.text(name)) for name in table.names)


def _read_rate_limit(table: Table) -> tuple[float, int]:
    table.check_keys(("interval", "burst"))
    burst = table.whole_number("burst")
    interval = _read_duration(table, "interval")
    if interval and not burst:
        raise table.error("burst", "must be at least 1 if an interval is set, because 0 refuses every request")
    return interval, burst


def _read_duration(table: Table, key: str) -> float:
    text = table.text(key) or "0"
    if re.fullmatch(r"0+", text):
        return 0.0
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise table.error(key, "must be a duration with its unit, such as 1s or 500ms, or 0 for no limit")
    return sum(float(amount) * _SECONDS_BY_UNIT[unit] for amount, unit in parts)
