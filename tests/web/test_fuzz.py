"""Whatever bytes arrive, the server answers the next good request."""

import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.attackers import converse
from kits.web_server import Pki, connect, fetch, read_to_end, running_server

WORDS = (
    b"GET |HEAD |POST |/|/metrics|?name[]=x| HTTP/1.1| HTTP/1.0| HTTP/9.9|\r\n|\n|\r\n\r\n|Host: localhost\r\n|Content-Length: 5\r\n"
    b"|Content-Length: -1\r\n|hello|Transfer-Encoding: chunked\r\n|Connection: close\r\n|Upgrade: h2c\r\n|: \r\n|\x00|\xff"
    b"|GET / HTTP/1.1\r\nHost: localhost\r\n\r\n|HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n|Expect: 100-continue\r\n"
    b"|Authorization: Basic YTpi\r\n| folded\r\n|\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"
).split(b"|")
INPUTS = st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([*WORDS, b"x" * 5000])), max_size=25)


@pytest.fixture(scope="module", params=["plain", "tls"])
def port_and_tls(
    request: pytest.FixtureRequest, pki: Pki, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, ssl.SSLContext | None]]:
    file = tmp_path_factory.mktemp("fuzz") / "web.yml"
    tls = pki.trusting() if request.param == "tls" else None
    file.write_text(pki.tls_section() if tls else "")
    with running_server(config_file=file) as running:
        yield running.port, tls


@settings(max_examples=60, deadline=None)
@given(pieces=INPUTS)
def test_any_bytes_leave_the_server_able_to_answer(
    port_and_tls: tuple[int, ssl.SSLContext | None], pieces: list[bytes]
) -> None:
    port, tls = port_and_tls
    # A server that hangs up on garbage answers well.
    with connect(port) as client, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for piece in pieces:
            client.sendall(piece)
        client.shutdown(socket.SHUT_WR)
        received = read_to_end(client)
        assert received == b"" or received.startswith((b"HTTP/1.1 ", b"\x15\x03", b"\x16\x03"))
    assert fetch(port, tls=tls).status == 200


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(0, 600), junk=st.binary(max_size=200))
def test_a_greeting_cut_off_and_continued_with_anything(pki: Pki, cut: int, junk: bytes) -> None:
    from telemetry_daemon.web.access.tls import TlsChannel, server_context
    from telemetry_daemon.web.access.toolkit import Pem, TlsConfig
    from telemetry_daemon.web.messages import HandshakeError

    config = TlsConfig(Pem("cert_file", str(pki.server.certificate)), Pem("key_file", str(pki.server.key)))
    channel = TlsChannel(server_context(config, "web.yml"), lambda _: "")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):  # only its first message is needed
        pki.trusting().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    with contextlib.suppress(HandshakeError):  # a refusal is a good answer
        for piece in (outgoing.read()[:cut], junk):
            assert channel.receive(piece).data == b""


@settings(max_examples=150, deadline=None)
@given(pieces=INPUTS)
def test_a_conversation_gives_requests_refusals_or_an_end_and_never_breaks(pieces: list[bytes]) -> None:
    answered, ended = converse(pieces)
    # What ends a conversation may come before the end of any line.
    assert answered <= b"".join(pieces).count(b"\n") + ended
