"""The words that the web configuration file has for TLS, and what OpenSSL calls them."""

from __future__ import annotations

from collections.abc import Mapping

VERSIONS: tuple[str, ...] = ("TLS10", "TLS11", "TLS12", "TLS13")

# Go's tls.CipherSuites, from its oldest to its newest list. TLS 1.3 has its own three, which neither Go nor Python
# lets anyone choose from; naming them says that TLS 1.3 is wanted.
TLS13_CIPHER_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
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
# What a server takes that is told nothing: forward secrecy and authenticated encryption, as Mozilla's "intermediate" has it.
DEFAULT_CIPHERS: tuple[str, ...] = tuple(
    name for name in CIPHER_SUITES.values() if name.startswith("ECDHE") and ("GCM" in name or "POLY1305" in name)
)
# And what one takes that is told to speak TLS 1.0 or 1.1 and not told with which ciphers.
DEFAULT_OLD_CIPHERS: tuple[str, ...] = tuple(name for name in CIPHER_SUITES.values() if name.startswith("ECDHE"))

CURVES: Mapping[str, str] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}

CLIENT_AUTH_TYPES: tuple[str, ...] = (
    "NoClientCert",
    "RequestClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
)
REFUSED_CLIENT_AUTH_TYPES = frozenset({"RequireAnyClientCert", "RequireClientCert"})
