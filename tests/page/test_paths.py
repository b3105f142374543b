"""The page below a path of a proxy, through TLS with a password, and when all streams are in use."""

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kits.browser import Tab
from kits.daemon import Daemon
from kits.web_server import cheap_hash, connect, make_pki
from page.view import View

pytestmark = pytest.mark.needs("chromium")

STREAMS = 32
SMALL = "2xnvidia"


class Proxy(BaseHTTPRequestHandler):
    """Forwards requests below /nodes/a/ to the daemon, piece by piece."""

    protocol_version = "HTTP/1.0"
    behind = ""

    def do_GET(self) -> None:
        path = self.path.removeprefix("/nodes/a")
        if path == self.path:
            self.send_error(404)
            return
        with contextlib.closing(http.client.HTTPConnection(self.behind)) as client:
            client.request("GET", path, headers=dict(self.headers.items()) | {"Connection": "close"})
            self.hand_on(client.getresponse())

    def hand_on(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.end_headers()
        while piece := answer.read1(65536):
            self.wfile.write(piece)
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Log nothing: the test checks the page."""


@pytest.fixture
def proxied(demo: Callable[[str], str]) -> Iterator[str]:
    handler = type("Behind", (Proxy,), {"behind": demo(SMALL).split("/")[2]})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a browser that hangs up
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/nodes/a/"
    server.shutdown()
    thread.join()
    server.server_close()


def assert_page_works(tab: Tab, url: str) -> None:
    """Check that the page gets data, a card's view works, and each link has a target."""
    view = View(tab)
    tab.open(url)
    view.await_live()
    view.await_news()
    view.open_card(view.devices()[0])
    view.await_news()
    links = tab.evaluate("[...new Set([...document.links].map(a => a.href.split('#')[0]))]")
    for link in links:
        if link.startswith(url):
            assert tab.evaluate(f"fetch({link!r}).then(answer => answer.status)") == 200, link
        else:
            assert not link.startswith("http://127.0.0.1"), link


def test_page_works_below_the_path_of_a_proxy(tab: Tab, proxied: str) -> None:
    assert_page_works(tab, proxied)


@pytest.mark.long
def test_page_works_with_tls_and_a_password(tab: Tab, tmp_path: Path) -> None:
    web = tmp_path / "web.yml"
    web.write_text(make_pki(tmp_path).tls_section() + f"basic_auth_users:\n  ops: {cheap_hash('hush')}\n")
    web.chmod(0o600)
    with Daemon(tmp_path, arguments=("--demo", SMALL, "--web.config.file", str(web))) as daemon:
        tab.log_in("ops", "hush")
        tab.forgiven = "401"
        assert_page_works(tab, f"https://{daemon.address}/")


@pytest.mark.long
def test_more_pages_than_streams(tab: Tab, tmp_path: Path) -> None:
    """Without a free stream the page still updates its values, and does not show them as newer than they are."""
    with Daemon(tmp_path, arguments=("--demo", SMALL)) as daemon:
        port = int(daemon.address.rpartition(":")[2])
        streams = [stream(port) for _ in range(STREAMS)]
        tab.forgiven = "503"
        tab.open(f"http://{daemon.address}/")
        view = View(tab)
        tab.until(view.values, "values")
        view.await_news()
        for open_stream in streams:
            open_stream.close()
        view.await_live()


def stream(port: int) -> socket.socket:
    client = connect(port)
    client.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
    assert client.recv(100).startswith(b"HTTP/1.1 200")
    threading.Thread(target=drained, args=(client,), daemon=True).start()
    return client


def drained(client: socket.socket) -> None:
    try:
        while client.recv(65536):
            pass
    except OSError:  # closed by the test
        return
