"""TLS as clients see it: versions, ciphers, certificates of both sides, and bytes that are no TLS."""

import contextlib
import http.client
import logging
import socket
import ssl
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kits.waiting import until
from kits.web_server import Pki, connect, fetch, read_to_end, running_server
from telemetry_daemon.web.messages import Response

WebFile = Callable[[str], Path]
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextlib.contextmanager
def tls_client(port: int, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with connect(port) as plain, context.wrap_socket(plain, server_hostname="localhost") as client:
        yield client


def test_a_page_over_tls_is_whole_and_ends_properly(pki: Pki, web_file: WebFile) -> None:
    page = bytes(range(256)) * 4000
    with running_server(lambda _: Response(200, (page,)), config_file=web_file(pki.tls_section())) as running:
        reply = fetch(running.port, tls=pki.trusting())
        assert (reply.status, reply.body) == (200, page)
        with tls_client(running.port, pki.trusting()) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            received = b""
            while piece := client.recv(65536):  # a missing close_notify would raise
                received += piece
    assert received.endswith(page)


def test_a_certificate_and_key_written_into_the_file(pki: Pki, web_file: WebFile) -> None:
    def block(name: str, path: Path) -> str:
        return f"  {name}: |\n" + "".join(f"    {line}\n" for line in path.read_text().splitlines())

    text = "tls_server_config:\n" + block("cert", pki.server.certificate) + block("key", pki.server.key)
    text += block("client_ca", pki.authority.certificate) + "  client_auth_type: RequireAndVerifyClientCert\n"
    with running_server(config_file=web_file(text)) as running:
        assert fetch(running.port, tls=pki.trusting(pki.client)).status == 200


def test_requests_in_bulk(pki: Pki, web_file: WebFile) -> None:
    file = web_file(pki.tls_section())
    with running_server(config_file=file) as running, tls_client(running.port, pki.trusting()) as bulk:
        bulk.sendall(REQUEST * 100 + b"GET /last HTTP/1.0\r\n\r\n")
        received = b""
        while piece := bulk.recv(65536):
            received += piece
    assert received.count(b"HTTP/1.1 200 OK") == 101
    assert received.endswith(b"GET /last?\n")


def greet(
    client: socket.socket, context: ssl.SSLContext, max_bytes: int
) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """Do a handshake in pieces of at most `max_bytes`; return the TLS session and its buffers of both directions."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        with contextlib.suppress(ssl.SSLWantReadError):  # the other side has to answer first
            tls.do_handshake()
            return tls, incoming, outgoing
        while piece := outgoing.read(max_bytes):
            client.send(piece)
        incoming.write(client.recv(65536))


def test_client_hello_in_single_bytes_is_read(pki: Pki, web_file: WebFile) -> None:
    with running_server(config_file=web_file(pki.tls_section())) as running, connect(running.port) as client:
        tls, incoming, outgoing = greet(client, pki.trusting(), 1)
        tls.write(REQUEST)
        client.sendall(outgoing.read())
        received = b""
        while len(received) < 12:
            incoming.write(client.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):  # the rest of the record has yet to come
                received += tls.read(12)
        assert received == b"HTTP/1.1 200"


def test_http_request_on_a_tls_port_is_explained(pki: Pki, web_file: WebFile) -> None:
    with running_server(config_file=web_file(pki.tls_section())) as running:
        reply = fetch(running.port)
        assert reply.status == 400
        assert b"HTTP request to an HTTPS server" in reply.body


def test_http1_is_negotiated_and_http2_is_not_offered(pki: Pki, web_file: WebFile) -> None:
    context = pki.trusting()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        running_server(config_file=web_file(pki.tls_section())) as running,
        tls_client(running.port, context) as client,
    ):
        assert client.selected_alpn_protocol() == "http/1.1"


def negotiated(config_file: Path, context: ssl.SSLContext) -> tuple[str | None, str | None]:
    """Return the agreed version and cipher of this client and a server, or None for both."""
    with running_server(config_file=config_file) as running:
        try:
            with tls_client(running.port, context) as client:
                return client.version(), (client.cipher() or ("",))[0]
        except ssl.SSLError:
            return None, None


@pytest.mark.parametrize(
    ("lines", "client_version", "agreed"),
    [
        ((), "TLSv1_2", "TLSv1.2"),
        ((), "TLSv1_3", "TLSv1.3"),
        ((), "TLSv1_1", None),
        (("min_version: TLS13",), "TLSv1_2", None),
        (("min_version: TLS13",), "TLSv1_3", "TLSv1.3"),
        (("max_version: TLS12",), "TLSv1_3", None),
        (("max_version: TLS12",), "TLSv1_2", "TLSv1.2"),
        (("min_version: TLS11",), "TLSv1_1", "TLSv1.1"),
        (("min_version: TLS10",), "TLSv1", "TLSv1"),
        (("min_version: TLS11",), "TLSv1", None),
        (("cipher_suites: [TLS_AES_128_GCM_SHA256]",), "TLSv1_2", None),
    ],
)
def test_tls_versions_are_negotiated(
    pki: Pki, web_file: WebFile, lines: tuple[str, ...], client_version: str, agreed: str | None
) -> None:
    context = pki.trusting()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns about TLS 1.0 and 1.1
        version = ssl.TLSVersion[client_version]
        context.minimum_version = version
        context.maximum_version = version
    assert negotiated(web_file(pki.tls_section(*lines)), context)[0] == agreed


@pytest.mark.parametrize(
    ("lines", "client_ciphers", "chosen"),
    [
        (("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]",), "ALL", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA]",), "ALL", "ECDHE-ECDSA-AES128-SHA"),
        (("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]",), "ECDHE-ECDSA-AES128-GCM-SHA256", None),
        (
            ("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]",),
            "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        (
            (
                "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]",
                "prefer_server_cipher_suites: false",
            ),
            "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
    ],
)
def test_ciphers_are_negotiated(
    pki: Pki, web_file: WebFile, lines: tuple[str, ...], client_ciphers: str, chosen: str | None
) -> None:
    context = pki.trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(client_ciphers)
    assert negotiated(web_file(pki.tls_section(*lines)), context)[1] == chosen


def test_of_all_ciphers_only_those_with_forward_secrecy_and_authentication_are_taken(
    pki: Pki, web_file: WebFile
) -> None:
    every = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    every.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    accepted = set()
    with running_server(config_file=web_file(pki.tls_section())) as running:
        for name in (cipher["name"] for cipher in every.get_ciphers() if cipher["protocol"] != "TLSv1.3"):
            context = pki.trusting()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(f"{name}:@SECLEVEL=0")
            with contextlib.suppress(OSError), tls_client(running.port, context):  # most are refused
                accepted.add(name)
    assert accepted == {
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    }


def s_client(port: int, sent: bytes, *arguments: str) -> str:
    """Return what openssl's client prints about a connection."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *arguments]
    done = subprocess.run(command, input=sent, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")


@pytest.mark.needs("openssl")
def test_renegotiation_compression_and_downgrade_are_refused(pki: Pki, web_file: WebFile) -> None:
    with running_server(config_file=web_file(pki.tls_section())) as running:
        output = s_client(running.port, b"R\n", "-tls1_2")
        assert "RENEGOTIATING" in output
        assert "no renegotiation" in output
        assert "Compression: NONE" in s_client(running.port, b"Q\n", "-tls1_2", "-comp")
        assert "inappropriate fallback" in s_client(running.port, b"Q\n", "-tls1_2", "-fallback_scsv")
        assert fetch(running.port, tls=pki.trusting()).status == 200


@pytest.mark.parametrize(("client_curve", "agrees"), [("secp384r1", True), ("prime256v1", False)])
def test_single_curve_is_negotiated(pki: Pki, web_file: WebFile, client_curve: str, agrees: bool) -> None:
    context = pki.trusting()
    context.set_ecdh_curve(client_curve)
    lines = ("min_version: TLS13", "curve_preferences: [CurveP384]")
    file = web_file(pki.tls_section(*lines))
    outcome = contextlib.nullcontext() if agrees else pytest.raises(ssl.SSLError)
    with running_server(config_file=file) as running, outcome:
        assert fetch(running.port, tls=context).status == 200


VERIFY = ("client_auth_type: RequireAndVerifyClientCert", "client_ca_file: {authority}")
PINNED = ("client_auth_type: RequireAndVerifyClientCert", "client_ca_file: {client}")
OPTIONAL = ("client_auth_type: VerifyClientCertIfGiven", "client_ca_file: {authority}")
REQUESTED = ("client_auth_type: RequestClientCert", "client_ca_file: {authority}")


def allowing(*names: str) -> tuple[str, ...]:
    return (*VERIFY, f"client_allowed_sans: [{', '.join(names)}]")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("lines", "client", "welcome"),
    [
        ((), "none", True),
        ((), "ours", True),
        (VERIFY, "none", False),
        (VERIFY, "ours", True),
        (VERIFY, "other authority", False),
        (OPTIONAL, "none", True),
        (OPTIONAL, "ours", True),
        (OPTIONAL, "other authority", False),
        (PINNED, "ours", True),
        (PINNED, "other authority", False),
        (REQUESTED, "none", True),
        (REQUESTED, "other authority", True),
        (("client_auth_type: RequireAndVerifyClientCert",), "ours", False),
        (allowing("prometheus.test"), "ours", True),
        (allowing("other", "ops@example.test"), "ours", True),
        (allowing("10.0.0.7"), "ours", True),
        (allowing("'fd00::7'"), "ours", True),
        (allowing("'fd00:0:0::0007'"), "ours", True),
        (allowing("'spiffe://example.test/prom'"), "ours", True),
        (allowing("prometheus"), "ours", False),
        (allowing("test"), "ours", False),
        (allowing("'*.test'"), "ours", False),
        (allowing("client"), "ours", False),  # the common name is no subject alternative name
        (allowing("prometheus.test"), "other authority", False),
        (allowing("prometheus.test"), "none", False),
    ],
)
def test_client_certificates_are_checked(
    pki: Pki, web_file: WebFile, version: ssl.TLSVersion, lines: tuple[str, ...], client: str, welcome: bool
) -> None:
    files = {"{authority}": pki.authority.certificate, "{client}": pki.client.certificate}
    for name, path in files.items():
        lines = tuple(line.replace(name, str(path)) for line in lines)
    context = pki.trusting({"none": None, "ours": pki.client, "other authority": pki.other_client}[client])
    context.maximum_version = version
    with running_server(config_file=web_file(pki.tls_section(*lines))) as running:
        if welcome:
            assert fetch(running.port, tls=context).status == 200
        else:
            with pytest.raises((OSError, http.client.HTTPException)):
                fetch(running.port, tls=context)
        until(lambda: running.connections() == 0, "the end of the connection")


def test_refused_client_is_logged_once(pki: Pki, web_file: WebFile, caplog: pytest.LogCaptureFixture) -> None:
    lines = (*VERIFY[:1], f"client_ca_file: {pki.authority.certificate}", "client_allowed_sans: [somebody.else]")
    with running_server(config_file=web_file(pki.tls_section(*lines))) as running, caplog.at_level(logging.INFO):
        for _ in range(5):
            with pytest.raises((OSError, http.client.HTTPException)):
                fetch(running.port, tls=pki.trusting(pki.client))
    lines = [record.getMessage() for record in caplog.records if "no TLS with" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("no TLS with 127.0.0.1: the client's certificate is for 'prometheus.test', 'ops@")


def test_a_tls_greeting_has_the_time_of_a_request_head(pki: Pki, web_file: WebFile) -> None:
    with running_server(config_file=web_file(pki.tls_section())) as running:
        for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with connect(running.port) as client:
                client.sendall(sent)
                until(lambda: running.connections() == 1, "the connection")
                running.pass_time(5.1)
                assert read_to_end(client) == b""
        with tls_client(running.port, pki.trusting()) as greeted:
            running.pass_time(5.1)
            assert greeted.recv(1) == b""


@pytest.mark.parametrize(
    "nonsense", [b"\x16" + b"\xff" * 500, b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\xff\xff" + b"x" * 70000]
)
def test_invalid_client_hello_is_refused(pki: Pki, web_file: WebFile, nonsense: bytes) -> None:
    with running_server(config_file=web_file(pki.tls_section())) as running:
        with connect(running.port) as client:
            with contextlib.suppress(OSError):  # the server may hang up before all is sent
                client.sendall(nonsense)
            assert b"HTTP" not in read_to_end(client)
        assert fetch(running.port, tls=pki.trusting()).status == 200


def test_nonsense_within_a_tls_connection_ends_it(pki: Pki, web_file: WebFile) -> None:
    with running_server(config_file=web_file(pki.tls_section())) as running:
        with tls_client(running.port, pki.trusting()) as client:
            client.sendall(REQUEST)
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            bare = socket.socket(fileno=client.detach())
        bare.settimeout(60)
        bare.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        read_to_end(bare)
        bare.close()
        until(lambda: running.connections() == 0, "the end of the connection")
        assert fetch(running.port, tls=pki.trusting()).status == 200


def test_client_may_close_tls_before_its_answer(pki: Pki, web_file: WebFile) -> None:
    context = pki.trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with running_server(config_file=web_file(pki.tls_section())) as running, connect(running.port) as client:
        tls, _, outgoing = greet(client, context, 1000)
        tls.write(REQUEST)
        with contextlib.suppress(ssl.SSLWantReadError):  # the rest of the record has yet to come
            tls.unwrap()
        client.sendall(outgoing.read())
        assert len(read_to_end(client)) > 100
        until(lambda: running.connections() == 0, "the end of the connection")
