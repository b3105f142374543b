"""Whatever bytes arrive, the server answers the next good request."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.attackers import converse
from kits.web_server import Pki, RunningServer, connect, fetch, read_to_end, running_server

WORDS = st.sampled_from(
    [
        *(b"GET ", b"HEAD ", b"POST ", b"/", b"/metrics", b"?name[]=x", b" HTTP/1.1", b" HTTP/1.0", b" HTTP/9.9"),
        *(
            b"\r\n",
            b"\n",
            b"\r\n\r\n",
            b"Host: localhost\r\n",
            b"Content-Length: 5\r\n",
            b"Content-Length: -1\r\n",
            b"hello",
        ),
        *(
            b"Transfer-Encoding: chunked\r\n",
            b"Connection: close\r\n",
            b"Upgrade: h2c\r\n",
            b": \r\n",
            b"\x00",
            b"\xff",
        ),
        *(
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"Expect: 100-continue\r\n",
        ),
        *(
            b"Authorization: Basic YTpi\r\n",
            b"x" * 5000,
            b" folded\r\n",
            b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
        ),
    ]
)
SPEECHES = st.lists(st.one_of(st.binary(max_size=40), WORDS), max_size=25)


@pytest.fixture(scope="module", params=["plain", "tls"])
def running(
    request: pytest.FixtureRequest, pki: Pki, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    file = tmp_path_factory.mktemp("fuzz") / "web.yml"
    file.write_text(pki.tls_section() if request.param == "tls" else "")
    with running_server(config_file=file) as server:
        yield server


@settings(max_examples=150, deadline=None)
@given(pieces=SPEECHES)
def test_any_bytes_leave_the_server_able_to_answer(running: RunningServer, pki: Pki, pieces: list[bytes]) -> None:
    # Hanging up on garbage is a good answer.
    with connect(running.port) as client, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for piece in pieces:
            client.sendall(piece)
        client.shutdown(socket.SHUT_WR)
        said = read_to_end(client)
        assert said == b"" or said.startswith((b"HTTP/1.1 ", b"\x15\x03", b"\x16\x03"))
    tls = pki.trusting() if running.server.scheme == "https" else None
    assert fetch(running.port, tls=tls).status == 200


@settings(max_examples=100, deadline=None)
@given(cut=st.integers(0, 600), junk=st.binary(max_size=200))
def test_a_greeting_cut_off_and_continued_with_anything(pki: Pki, cut: int, junk: bytes) -> None:
    import ssl

    from telemetry_daemon.web.access.channel import HandshakeError, TlsChannel
    from telemetry_daemon.web.access.tls import server_context
    from telemetry_daemon.web.access.toolkit import Pem, TlsConfig

    config = TlsConfig(Pem("cert_file", str(pki.server.certificate)), Pem("key_file", str(pki.server.key)))
    channel = TlsChannel(server_context(config, "web.yml"), lambda _: "")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):  # only its first message is wanted
        pki.trusting().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    with contextlib.suppress(HandshakeError):  # a refusal is a good answer
        for piece in (outgoing.read()[:cut], junk):
            assert channel.receive(piece).data == b""


@settings(max_examples=300, deadline=None)
@given(pieces=SPEECHES)
def test_a_conversation_gives_requests_refusals_or_an_end_and_never_breaks(pieces: list[bytes]) -> None:
    answered, ended = converse(pieces)
    # What ends a conversation may come before the end of any line.
    assert answered <= b"".join(pieces).count(b"\n") + ended
