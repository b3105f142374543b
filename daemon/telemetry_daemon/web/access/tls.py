"""TLS: the SSL context from the web configuration, the check of client certificates, and encryption. No sockets here."""

from __future__ import annotations

import contextlib
import os
import ssl
import warnings
from collections.abc import Callable, Iterator

from telemetry_daemon.web.access.toolkit import CIPHER_SUITES, ClientCertificate, Pem, TlsConfig, read_small_file
from telemetry_daemon.web.addresses import WebConfigError
from telemetry_daemon.web.messages import Channel, HandshakeError, Received

_READ_BYTES = 16384  # the largest TLS record
_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
# Without cipher_suites in the file: forward secrecy and authenticated encryption, like Mozilla's "intermediate".
_DEFAULT_CIPHERS = tuple(
    name for name in CIPHER_SUITES.values() if name.startswith("ECDHE") and ("GCM" in name or "POLY1305" in name)
)
# With TLS 1.0 or 1.1, which have no authenticated encryption: forward secrecy.
_DEFAULT_OLD_CIPHERS = tuple(name for name in CIPHER_SUITES.values() if name.startswith("ECDHE"))
_VERIFY_MODES = {
    ClientCertificate.NOT_ASKED_FOR: ssl.CERT_NONE,
    ClientCertificate.VERIFIED_IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientCertificate.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(config: TlsConfig, file: str) -> ssl.SSLContext:
    """Return the context of a TLS configuration; errors in an inline PEM name `file`, the web configuration."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if config.prefers_server_ciphers:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    _set_versions_and_ciphers(context, config, file)
    _load_certificate(context, config, file)
    _load_client_authorities(context, config, file)
    return context


def client_check(allowed_sans: tuple[str, ...]) -> Callable[[ssl.SSLObject], str]:
    """Return a function that reports the error of a client after its handshake, or an empty text."""
    if not allowed_sans:
        return lambda _: ""
    allowed = frozenset(map(canonical_san, allowed_sans))

    def check(tls: ssl.SSLObject) -> str:
        names = subject_names(tls)
        if allowed.intersection(map(canonical_san, names)):
            return ""
        return f"the client's certificate is for {', '.join(map(repr, names)) or 'no name'}, not in client_allowed_sans"

    return check


def subject_names(tls: ssl.SSLObject) -> tuple[str, ...]:
    """Return the DNS names, e-mail addresses, IP addresses and URIs of the peer's certificate."""
    certificate = tls.getpeercert() or {}
    kinds = {"DNS", "email", "IP Address", "URI"}
    names = certificate.get("subjectAltName", ())
    return tuple(entry[1] for entry in names if entry[0] in kinds and isinstance(entry[1], str))


def canonical_san(name: str) -> str:
    """Return the name itself, or an IP address in its short form: ::1 for 0:0:0:0:0:0:0:1."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:  # a name of a host
        return name


def pem_bytes(pem: Pem) -> bytes:
    """Return the bytes of a PEM, from its file or from the configuration."""
    return read_small_file(pem.file, pem.key) if pem.file else pem.text.encode()


def _set_versions_and_ciphers(context: ssl.SSLContext, config: TlsConfig, file: str) -> None:
    old = config.min_version in {"TLS10", "TLS11"}
    ciphers = config.ciphers or (_DEFAULT_OLD_CIPHERS if old else _DEFAULT_CIPHERS)
    try:
        # OpenSSL 3 counts the signatures of TLS 1.0 and 1.1 as security level 0.
        context.set_ciphers(":".join(ciphers) + (":@SECLEVEL=0" if old else ""))
        if config.curve:
            context.set_ecdh_curve(config.curve)
        with warnings.catch_warnings():
            # Python warns of TLS 1.0 and 1.1, but the operator has chosen them.
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = _VERSIONS[config.min_version]
            context.maximum_version = _VERSIONS[config.max_version]
    except (ssl.SSLError, ValueError) as error:
        raise WebConfigError(
            f"{file}: tls_server_config: this machine's OpenSSL refuses it: {_words(error)}"
        ) from error


def _load_certificate(context: ssl.SSLContext, config: TlsConfig, file: str) -> None:
    certificate = pem_bytes(config.certificate)
    private_key = pem_bytes(config.private_key)
    if b"ENCRYPTED" in private_key:
        raise WebConfigError(f"{_origin(config.private_key, file)}: the key has a password; remove the password")
    try:
        with _as_file(certificate) as certificate_file, _as_file(private_key) as key_file:
            context.load_cert_chain(certificate_file, key_file, password="")
    except (ssl.SSLError, ValueError) as error:
        origin = _origin(config.certificate, file)
        remedy = "give a PEM certificate and its own key"
        raise WebConfigError(f"{origin}: certificate and key cannot be used: {_words(error)}; {remedy}") from error


def _load_client_authorities(context: ssl.SSLContext, config: TlsConfig, file: str) -> None:
    if config.client_certificate is ClientCertificate.NOT_ASKED_FOR:
        return
    context.verify_mode = _VERIFY_MODES[config.client_certificate]
    # Every listed certificate is trusted, as in Go: a root, an intermediate or the client's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if config.client_ca is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    try:
        context.load_verify_locations(cadata=pem_bytes(config.client_ca).decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        origin = _origin(config.client_ca, file)
        raise WebConfigError(
            f"{origin}: the client CA cannot be used: {_words(error)}; give PEM certificates"
        ) from error


def _origin(pem: Pem, file: str) -> str:
    return pem.file or f"{file}: tls_server_config.{pem.key}"


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Create a path at which OpenSSL finds the bytes, in memory only, because they may be a key."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as memory:
            memory.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _words(error: Exception) -> str:
    """Return OpenSSL's reason without its source lines."""
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error)


# asyncio's own TLS takes a buffer of 256 KiB for each client. With 1,000 clients that send half a greeting, peak memory and
# slowest scrape were 48 MiB and 36 ms here, but 367 MiB and 360 ms with asyncio (Python 3.11, two cores).
class TlsChannel(Channel):
    """TLS in memory; created once the client has sent its first byte."""

    def __init__(self, context: ssl.SSLContext, check_client: Callable[[ssl.SSLObject], str]) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._check_client = check_client
        self._established = False

    def receive(self, data: bytes) -> Received:
        """Return the decrypted bytes and TLS's reply; a HandshakeError or an SSLError ends the connection."""
        self._incoming.write(data)
        if not self._established and not self._shake_hands():
            return Received(b"", self._outgoing.read())
        pieces: list[bytes] = []
        closed = False
        try:
            while piece := self._tls.read(_READ_BYTES):
                pieces.append(piece)
            closed = True  # empty bytes are the client's close message
        except ssl.SSLWantReadError:  # the record is incomplete
            pass
        return Received(b"".join(pieces), self._outgoing.read(), closed)

    def protect(self, data: memoryview) -> bytes | memoryview:
        """Return the encrypted bytes."""
        self._tls.write(data)
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """Return TLS's close message, which shows the client that nothing was cut off."""
        with contextlib.suppress(ssl.SSLError):  # do not wait for the client's close message, which unwrap requests
            self._tls.unwrap()
        return self._outgoing.read()

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:  # the client sends next
            return False
        except ssl.SSLError as error:
            raise HandshakeError(error.reason or str(error), self._outgoing.read()) from error
        objection = self._check_client(self._tls)
        if objection:
            raise HandshakeError(objection, self._outgoing.read())
        self._established = True
        return True
