"""More hostile clients than may connect to a server process: scrapes continue, memory is bounded, the exit is clean."""

import contextlib
import http.client
import os
import resource
import signal
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kits.attackers import attack
from kits.processes import peak_mib
from kits.waiting import PATIENCE_SECONDS, until
from kits.web_server import Pki, connect, fetch, read_to_end
from telemetry_daemon.web.server.web_server import MAX_CLIENTS_PER_BATCH

HERE = Path(__file__).parent
SCRAPES = 40
USUAL_SOFT_LIMIT = 1024
MAX_MIB = 70


class Served:
    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def rss_mib(self) -> float:
        return psutil.Process(self.process.pid).memory_info().rss / 2**20

    def cpu_seconds(self) -> float:
        return sum(psutil.Process(self.process.pid).cpu_times()[:2])

    def descriptors(self) -> int:
        return psutil.Process(self.process.pid).num_fds()


@contextlib.contextmanager
def served(config_file: str = "", soft: int = USUAL_SOFT_LIMIT, hard: int = 0) -> Iterator[Served]:
    """Yield a server process, and end it by SIGTERM; its exit must be clean and quick."""
    hard = hard or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    command = [sys.executable, str(HERE / "served_page.py"), config_file, str(soft), str(hard)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield Served(process, int(process.stdout.readline().rpartition(":")[2]))
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()


class Scrapes:
    """Scrapes on new connections and on a kept one."""

    def __init__(self, served: Served, tls: ssl.SSLContext | None) -> None:
        self._port, self._tls = served.port, tls
        make = http.client.HTTPSConnection if tls else http.client.HTTPConnection
        self._kept = make("127.0.0.1", served.port, timeout=60, **({"context": tls} if tls else {}))

    def once(self) -> None:
        reply = fetch(self._port, "/metrics", tls=self._tls)
        assert (reply.status, len(reply.body) > 190_000) == (200, True)
        self._kept.request("GET", "/metrics")
        answer = self._kept.getresponse()
        assert (answer.status, len(answer.read()) > 190_000) == (200, True)

    def close(self) -> None:
        self._kept.close()


@pytest.mark.parametrize(
    ("mode", "attackers"),
    [
        ("drip", 1500),
        ("tls-half", 1500),
        *(
            pytest.param(mode, 3000, marks=pytest.mark.long)
            for mode in ("silent", "half", "drip", "tls-silent", "tls-half", "tls-drip")
        ),
    ],
)
def test_scrapes_go_on_under_attack(
    pki: Pki, tmp_path: Path, record_property: Callable[[str, object], None], mode: str, attackers: int
) -> None:
    file = tmp_path / "web.yml"
    file.write_text(pki.tls_section() if mode.startswith("tls-") else "")
    tls = pki.trusting() if mode.startswith("tls-") else None
    with served(str(file)) as server:
        scrapes = Scrapes(server, tls)
        scrapes.once()
        with attack(server.port, mode, attackers):
            until(lambda: server.descriptors() > 200, "the attack")
            descriptors = []
            for _ in range(SCRAPES):
                scrapes.once()
                descriptors.append(server.descriptors())
                time.sleep(0.02)  # the attack goes on meanwhile
        scrapes.close()
        peak = peak_mib(server.process.pid)
    record_property("peak_mib", round(peak, 1))
    assert peak < MAX_MIB
    assert statistics.median(descriptors) < 300
    assert max(descriptors) < 300 + MAX_CLIENTS_PER_BATCH  # these are accepted before the same number is dropped


def test_an_unfinished_request_is_hung_up_on_after_five_seconds() -> None:
    begun = time.monotonic()
    with served() as server, connect(server.port) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        assert read_to_end(client).startswith(b"HTTP/1.1 408")
    assert time.monotonic() - begun > 5.0


def test_the_soft_limit_of_descriptors_is_raised_to_the_hard_one() -> None:
    with served(soft=256, hard=900) as server:
        limits = Path(f"/proc/{server.process.pid}/limits").read_text()
        line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
        assert line.split()[3:5] == ["900", "900"]


def test_at_a_low_hard_limit_descriptors_stay_free_for_the_readers() -> None:
    with served(soft=128, hard=128) as server, contextlib.ExitStack() as clients:
        for _ in range(100):
            client = clients.enter_context(connect(server.port))
            client.sendall(b"GET / HTTP/1.0\r\n")
        assert fetch(server.port).status == 200
        assert server.descriptors() <= 128 - 60


def test_server_without_free_descriptors_survives_without_a_busy_loop() -> None:
    with served() as server, contextlib.ExitStack() as clients:
        in_use = server.descriptors()
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (in_use + 2, 20000))
        for _ in range(10):
            clients.enter_context(connect(server.port))
        until(lambda: server.descriptors() >= in_use + 1, "the limit")
        before = server.cpu_seconds()
        time.sleep(1.0)
        assert server.cpu_seconds() - before < 0.5
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1024, 20000))
        assert fetch(server.port).status == 200


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_clients_that_do_not_read_answers_block_no_others(
    pki: Pki, tmp_path: Path, record_property: Callable[[str, object], None], encrypted: bool
) -> None:
    file = tmp_path / "web.yml"
    file.write_text(pki.tls_section() if encrypted else "")
    tls = pki.trusting() if encrypted else None
    with served(str(file)) as server, contextlib.ExitStack() as clients:
        for _ in range(350):
            client = clients.enter_context(connect(server.port))
            if tls is not None:
                client = clients.enter_context(tls.wrap_socket(client, server_hostname="localhost"))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 60)
        assert fetch(server.port, tls=tls).status == 200
        record_property("peak_mib", round(peak_mib(server.process.pid), 1))
        assert peak_mib(server.process.pid) < MAX_MIB


def test_plain_server_loads_no_modules_for_tls_and_passwords(
    record_property: Callable[[str, object], None],
) -> None:
    program = "import sys, telemetry_daemon.web.server.web_server; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert "telemetry_daemon.web.access.access_control" in loaded.stdout.split()
    assert not {"yaml", "bcrypt", "pydantic", "telemetry_daemon.web.access.tls"}.intersection(loaded.stdout.split())
    with served() as server:
        assert fetch(server.port).status == 200
        record_property("idle_mib", round(server.rss_mib(), 1))
        assert server.rss_mib() < 40
