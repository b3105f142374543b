"""More clients than any site has: polls keep their interval, scrapes are answered, and no resource leaks."""

import contextlib
import gzip
import socket
import threading
import time
from pathlib import Path

import pytest

from kits.attackers import attack
from kits.daemon import Daemon
from kits.processes import holdings, rss_mib
from kits.tool_node import TOOL, series, tool_node

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n"
RATE = 5000
SECONDS = 10
CONNECTIONS = 20
STALLED = 3000


def port_of(daemon: Daemon) -> int:
    return int(daemon.address.rpartition(":")[2])


class Scraper(threading.Thread):
    """Sends requests at a fixed rate on one connection, without waiting for the answers, and counts both."""

    def __init__(self, port: int, rate: float) -> None:
        super().__init__(daemon=True)
        self.asked = self.answered = 0
        self._rate = rate
        self._client = socket.create_connection(("127.0.0.1", port), timeout=30)

    def run(self) -> None:
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < SECONDS:
            due = int(passed * self._rate) - self.asked
            if due > 0:
                self._client.sendall(REQUEST * due)
                self.asked += due
            time.sleep(0.02)
        self._client.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        self.asked += 1
        reader.join(60)
        self._client.close()

    def _read(self) -> None:
        tail = b""
        while piece := self._client.recv(1 << 20):
            self.answered += (tail + piece).count(b"HTTP/1.1 200") - tail.count(b"HTTP/1.1 200")
            tail = piece[-11:]


def polls_went_on(daemon: Daemon, calls: int, before: int, seconds: float) -> None:
    """Check that the tool was polled every half second; on a busy machine a few polls may be missing."""
    assert calls - before >= seconds / 0.5 * 0.6
    assert daemon.source(TOOL)["state"] == daemon.source("host")["state"] == "ok"


def test_five_thousand_scrapes_a_second(tmp_path: Path) -> None:
    daemon, tools = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: series(daemon, "accelerator_up{"))
        before, memory, calls = holdings(daemon.pid), rss_mib(daemon.pid), len(tools.calls(TOOL))
        scrapers = [Scraper(port_of(daemon), RATE / CONNECTIONS) for _ in range(CONNECTIONS)]
        begun = time.monotonic()
        for scraper in scrapers:
            scraper.start()
        for scraper in scrapers:
            scraper.join()
        seconds = time.monotonic() - begun
        asked, answered = sum(scraper.asked for scraper in scrapers), sum(scraper.answered for scraper in scrapers)
        print(
            f"{asked} scrapes asked for and {answered} answered in {seconds:.1f} s, {answered / seconds:.0f} a second"
        )
        assert answered == asked >= RATE * SECONDS * 0.9
        polls_went_on(daemon, len(tools.calls(TOOL)), calls, SECONDS)
        daemon.until(lambda: holdings(daemon.pid).at_most(before, more=2))
        assert rss_mib(daemon.pid) < memory + 10
        assert daemon.logged("level=error") == 0


@pytest.mark.parametrize("mode", ["silent", "half", "drip"])
def test_three_thousand_stalled_clients_of_a_daemon_that_polls(tmp_path: Path, mode: str) -> None:
    daemon, tools = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        before = holdings(daemon.pid)
        with attack(port_of(daemon), mode, STALLED):
            daemon.until(lambda: holdings(daemon.pid).descriptors > 150)
            calls, begun = len(tools.calls(TOOL)), time.monotonic()
            while time.monotonic() - begun < 5.0:
                assert daemon.get()[0] == 200
                time.sleep(0.05)
            polls_went_on(daemon, len(tools.calls(TOOL)), calls, 5.0)
            assert holdings(daemon.pid).descriptors < 600
        daemon.until(lambda: holdings(daemon.pid).at_most(before, more=3))


def answer_to(port: int, *pieces: bytes) -> bytes:
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        with contextlib.suppress(OSError):  # the server may hang up on an attacker at any time
            for piece in pieces:
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):  # the server may hang up on an attacker at any time
            while len(answer) < 1 << 20 and (piece := client.recv(1 << 16)):
                answer += piece
    return answer


TEN_MEGABYTES = b"x" * (10 << 20)
NONSENSE = {
    "a header of 10 MB": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + TEN_MEGABYTES + b"\r\n\r\n",),
    "a target of 10 MB": (b"GET /" + TEN_MEGABYTES + b" HTTP/1.1\r\n\r\n",),
    "a method of 10 MB": (TEN_MEGABYTES + b" / HTTP/1.1\r\n\r\n",),
    "a million headers": (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 1_000_000,),
    "a body of 10 MB": (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10485760\r\n\r\n", TEN_MEGABYTES),
    "chunks without end": (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1\r\nx\r\n" * 100_000,
    ),
    "a TLS greeting": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",),
    "zeros": (bytes(1 << 20),),
    "a gzip bomb": (gzip.compress(bytes(100 << 20)),),
    "a thousand requests at once": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000,),
}


def test_nonsense_of_every_kind_leaks_no_resources(tmp_path: Path) -> None:
    daemon, _ = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        before, memory = holdings(daemon.pid), rss_mib(daemon.pid)
        for _ in range(3):
            answers = {name: answer_to(port_of(daemon), *pieces) for name, pieces in NONSENSE.items()}
        statuses = {name: answer[9:12] for name, answer in answers.items()}
        wellformed = statuses.pop("a thousand requests at once")
        assert wellformed == b"200"
        assert answers["a thousand requests at once"].count(b"HTTP/1.1 200") == 1000
        # A refusal, or a hang-up where the client was still sending.
        assert {status for status in statuses.values() if status} <= {
            b"400",
            b"405",
            b"413",
            b"414",
            b"431",
            b"501",
            b"505",
        }
        daemon.until(lambda: holdings(daemon.pid).at_most(before, more=2))
        assert rss_mib(daemon.pid) < memory + 10
        assert daemon.get()[0] == 200
        assert daemon.logged("level=error") == 0
