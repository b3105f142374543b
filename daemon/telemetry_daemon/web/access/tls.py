"""TLS: the server's SSL context, the check of client certificates, and encryption without sockets."""

from __future__ import annotations

import contextlib
import os
import ssl
import warnings
from collections.abc import Callable, Iterator

from telemetry_daemon.web.access.toolkit import CIPHER_SUITES, ClientCertificate, Pem, TlsConfig, read_small_file
from telemetry_daemon.web.addresses import WebConfigError
from telemetry_daemon.web.messages import Channel, HandshakeError, ReceivedData

_READ_BYTES = 16384  # the largest TLS record
_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
# As in Mozilla's "intermediate" configuration, these ciphers have forward secrecy and authenticated encryption.
_DEFAULT_CIPHERS = tuple(
    name for name in CIPHER_SUITES.values() if name.startswith("ECDHE") and ("GCM" in name or "POLY1305" in name)
)
# TLS 1.0 and 1.1 have no ciphers with authenticated encryption, so forward secrecy is sufficient.
_DEFAULT_OLD_CIPHERS = tuple(name for name in CIPHER_SUITES.values() if name.startswith("ECDHE"))
_VERIFY_MODES = {
    ClientCertificate.NOT_REQUESTED: ssl.CERT_NONE,
    ClientCertificate.VERIFIED_IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientCertificate.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(config: TlsConfig, file: str) -> ssl.SSLContext:
    """Return the SSL context for a TLS configuration."""
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


def make_client_check(allowed_sans: tuple[str, ...]) -> Callable[[ssl.SSLObject], str]:
    """Return a function that checks a client's certificate. It returns the reason for a refusal, or ""."""
    if not allowed_sans:
        return lambda _: ""
    allowed_names = frozenset(map(canonical_san, allowed_sans))

    def check_certificate(tls: ssl.SSLObject) -> str:
        names = subject_names(tls)
        if allowed_names.intersection(map(canonical_san, names)):
            return ""
        return f"the client's certificate is for {', '.join(map(repr, names)) or 'no name'}, which is not in client_allowed_sans"

    return check_certificate


def subject_names(tls: ssl.SSLObject) -> tuple[str, ...]:
    """Return the subject alternative names of the peer's certificate."""
    certificate = tls.getpeercert() or {}
    name_types = {"DNS", "email", "IP Address", "URI"}
    names = certificate.get("subjectAltName", ())
    return tuple(entry[1] for entry in names if entry[0] in name_types and isinstance(entry[1], str))


def canonical_san(name: str) -> str:
    """Return an IP address in its canonical form, and other names unchanged."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:  # a host name
        return name


def pem_bytes(pem: Pem) -> bytes:
    """Return the bytes of a certificate or key, from its file or from the configuration."""
    return read_small_file(pem.file, pem.key) if pem.file else pem.text.encode()


def _set_versions_and_ciphers(context: ssl.SSLContext, config: TlsConfig, file: str) -> None:
    allows_old_versions = config.min_version in {"TLS10", "TLS11"}
    ciphers = config.ciphers or (_DEFAULT_OLD_CIPHERS if allows_old_versions else _DEFAULT_CIPHERS)
    try:
        # OpenSSL 3 allows the signatures of TLS 1.0 and 1.1 only at security level 0.
        context.set_ciphers(":".join(ciphers) + (":@SECLEVEL=0" if allows_old_versions else ""))
        if config.curve:
            context.set_ecdh_curve(config.curve)
        with warnings.catch_warnings():
            # The configuration allows TLS 1.0 and 1.1, so Python's warning is not needed.
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = _VERSIONS[config.min_version]
            context.maximum_version = _VERSIONS[config.max_version]
    except (ssl.SSLError, ValueError) as error:
        text = f"OpenSSL on this machine rejects the settings: {_openssl_reason(error)}"
        raise WebConfigError(f"{file}: tls_server_config: {text}") from error


def _load_certificate(context: ssl.SSLContext, config: TlsConfig, file: str) -> None:
    certificate = pem_bytes(config.certificate)
    private_key = pem_bytes(config.private_key)
    if b"ENCRYPTED" in private_key:
        raise WebConfigError(f"{_pem_location(config.private_key, file)}: the key is encrypted; remove its password")
    try:
        with _as_file(certificate) as certificate_file, _as_file(private_key) as key_file:
            context.load_cert_chain(certificate_file, key_file, password="")
    except (ssl.SSLError, ValueError) as error:
        location = _pem_location(config.certificate, file)
        remedy = "use a PEM certificate and the key that belongs to it"
        text = f"the certificate and the key cannot be used: {_openssl_reason(error)}"
        raise WebConfigError(f"{location}: {text}; {remedy}") from error


def _load_client_authorities(context: ssl.SSLContext, config: TlsConfig, file: str) -> None:
    if config.client_certificate is ClientCertificate.NOT_REQUESTED:
        return
    context.verify_mode = _VERIFY_MODES[config.client_certificate]
    # As in Go, every certificate in the file is trusted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if config.client_ca is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    try:
        context.load_verify_locations(cadata=pem_bytes(config.client_ca).decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        location = _pem_location(config.client_ca, file)
        text = f"the client CA cannot be used: {_openssl_reason(error)}; use PEM certificates"
        raise WebConfigError(f"{location}: {text}") from error


def _pem_location(pem: Pem, file: str) -> str:
    return pem.file or f"{file}: tls_server_config.{pem.key}"


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path to an in-memory file with this content."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)  # a private key must not be written to a disk
    try:
        with open(descriptor, "wb", closefd=False) as memory:
            memory.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _openssl_reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error)


# With 1,000 clients in the handshake, this class needed 48 MiB, and asyncio's TLS needed 367 MiB.
class TlsChannel(Channel):
    """A TLS connection in memory, without a socket."""

    def __init__(self, context: ssl.SSLContext, check_client: Callable[[ssl.SSLObject], str]) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._check_client = check_client
        self._is_established = False

    def receive(self, data: bytes) -> ReceivedData:
        """Decrypt bytes. Raise HandshakeError if the handshake fails, SSLError if a later TLS record is invalid."""
        self._incoming.write(data)
        if not self._is_established and not self._complete_handshake():
            return ReceivedData(b"", self._outgoing.read())
        pieces: list[bytes] = []
        is_closed = False
        try:
            while piece := self._tls.read(_READ_BYTES):
                pieces.append(piece)
            is_closed = True  # no bytes: the client has sent its close message
        except ssl.SSLWantReadError:  # the record is incomplete
            pass
        return ReceivedData(b"".join(pieces), self._outgoing.read(), is_closed)

    def encrypt(self, data: memoryview) -> bytes | memoryview:
        """Encrypt bytes for the socket."""
        self._tls.write(data)
        return self._outgoing.read()

    def closing_bytes(self) -> bytes:
        """Return the TLS close message, which proves that the response is complete."""
        with contextlib.suppress(ssl.SSLError):  # `unwrap` fails if the client's close message has not arrived
            self._tls.unwrap()
        return self._outgoing.read()

    def _complete_handshake(self) -> bool:
        """Continue the handshake. Return False if more bytes from the client are needed."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:  # the client has not sent all of its message yet
            return False
        except ssl.SSLError as error:
            raise HandshakeError(error.reason or str(error), self._outgoing.read()) from error
        client_error = self._check_client(self._tls)
        if client_error:
            raise HandshakeError(client_error, self._outgoing.read())
        self._is_established = True
        return True
