"""Agents that write to stores with TLS and a password, either of which stops; compares scraped with stored samples."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kits.captures import ROOT
from kits.ports import free_address
from kits.prometheus import tool
from kits.waiting import until
from kits.web_server import Pki, basic, cheap_hash, make_pki

FOLDER = ROOT / "deploy" / "agents"
PASSWORD = "correct horse"
SERIES = 20
# The configuration of each agent, and the unit or drop-in that starts it.
AGENTS = {
    "prometheus": ("prometheus.yml", "telemetry-agent.service"),
    "vmagent": ("vmagent.yml", "vmagent.conf"),
}


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        number = self.server.next_number()  # type: ignore[attr-defined]  # the server below has it
        body = "".join(f'scrape_number{{series="{series}"}} {number}\n' for series in range(SERIES)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Target(http.server.ThreadingHTTPServer):
    """A node in which every series counts its scrapes, so that each page has another number."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.last = 0
        # Pages that an agent may have fetched but not saved when it was killed.
        self.in_doubt: set[int] = set()
        self._lock = threading.Lock()

    def next_number(self) -> int:
        with self._lock:
            self.last += 1
            return self.last

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Target]:
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


@dataclass
class Program:
    command: Sequence[str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command, cwd=self.folder, stdout=log, stderr=log)

    def end(self, number: int) -> None:
        """Stop the process by a signal: SIGTERM as systemd does, SIGKILL as a crash would."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(timeout=90)

    def restart(self, number: int) -> None:
        self.end(number)
        self.start()

    def __enter__(self) -> Program:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)


@dataclass(frozen=True)
class Sample:
    series: str
    time: float
    value: int


@dataclass
class Store(Program):
    address: str = ""
    trust: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    # The signal that stops it: a crash, if its data survive a crash.
    crash: int = signal.SIGKILL

    def fetch(self, path: str, **query: str) -> str:
        url = f"https://{self.address}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers=basic("agent", PASSWORD))
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.trust) as response:
                return response.read().decode()
        except OSError:  # it does not answer yet
            return ""

    def samples(self, metric: str, agent: str) -> list[Sample]:
        answer = self.fetch("/api/v1/query", query=f'{metric}{{cluster="{agent}"}}[3h]')
        return [
            Sample(item["metric"].get("series", ""), when, int(float(value)))
            for item in (json.loads(answer)["data"]["result"] if answer else [])
            for when, value in item["values"]
        ]


class VictoriaStore(Store):
    """VictoriaMetrics, which returns duplicate samples, too."""

    def samples(self, metric: str, agent: str) -> list[Sample]:
        self.fetch("/internal/force_flush")
        lines = self.fetch("/api/v1/export", **{"match[]": f'{metric}{{cluster="{agent}"}}'}).splitlines()
        return [
            Sample(item["metric"].get("series", ""), when / 1000, int(value))
            for item in map(json.loads, lines)
            for when, value in zip(item["timestamps"], item["values"], strict=True)
            # Stale markers are exported as null.
            if value is not None
        ]


def prometheus_store(folder: Path, pki: Pki) -> Store:
    shutil.copytree(ROOT / "deploy" / "prometheus", folder)
    (folder / "web.yml").write_text(pki.tls_section() + f"basic_auth_users:\n  agent: {cheap_hash(PASSWORD)}\n")
    address = free_address()
    flags = ["--web.config.file=web.yml", "--web.enable-remote-write-receiver", "--storage.tsdb.path=data"]
    command = [tool("prometheus"), "--config.file=central.yml", f"--web.listen-address={address}", *flags]
    return Store(command, folder, address=address, trust=pki.trusting())


def victoria_store(folder: Path, pki: Pki) -> Store:
    folder.mkdir()
    address = free_address()
    secure = ["-tls", f"-tlsCertFile={pki.server.certificate}", f"-tlsKeyFile={pki.server.key}"]
    user = ["-httpAuth.username=agent", f"-httpAuth.password={PASSWORD}"]
    command = [tool("victoria-metrics"), f"-httpListenAddr={address}", "-storageDataPath=data", *secure, *user]
    return VictoriaStore(command, folder, address=address, trust=pki.trusting(), crash=signal.SIGTERM)


def replaced(text: str, changes: dict[str, str]) -> str:
    for before, after in changes.items():
        text = text.replace(before, after)
    return text


def agent_of(kind: str, folder: Path, target: str, store: Store, pki: Pki) -> Program:
    """Return an agent with the files and the command of deploy/agents, for this target and store."""
    name, unit = AGENTS[kind]
    shutil.copytree(FOLDER, folder)
    (folder / "tls").mkdir()
    shutil.copy(pki.authority.certificate, folder / "tls" / "ca.crt")
    (folder / "password").write_text(PASSWORD)
    (folder / "targets" / "node.yml").write_text(json.dumps([{"targets": [target]}]))
    changes = {
        "https://store.example.com:9090": f"https://{store.address}",
        "/run/credentials/telemetry-agent.service/password": f"{folder}/password",
        "/var/lib/telemetry-agent": str(folder),
        "127.0.0.1:9095": free_address(),
        "scrape_interval: 15s": "scrape_interval: 1s",
        "scrape_timeout: 10s": "scrape_timeout: 1s",
        "batch_send_deadline: 5s": "batch_send_deadline: 1s",
        "cluster: example": f"cluster: {folder.name}",
        "replacement: example": f"replacement: {folder.name}",
        "$AGENT": agent_flag(),
    }
    config = folder / name
    config.write_text(replaced(config.read_text(), changes))
    text = (FOLDER / unit).read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=/usr/bin/env (.+)$", text, re.MULTILINE)
    program, *arguments = shlex.split(replaced(line, changes))
    return Program([tool(program), *arguments], folder)


def agent_flag() -> str:
    done = subprocess.run([tool("prometheus"), "--help"], capture_output=True, text=True)
    is_new = re.search(r"^\s+--(\[no-\])?agent\b", done.stdout + done.stderr, re.MULTILINE)
    return "--agent" if is_new else "--enable-feature=agent"


@dataclass
class Pair:
    name: str
    agent: Program
    target: Target
    store: Store

    def restart(self, number: int) -> None:
        """Restart the agent; the page that it was fetching may be lost."""
        before = self.target.last
        self.agent.end(number)
        self.target.in_doubt |= set(range(before, self.target.last + 1))
        self.agent.start()

    def wait_until_sent(self) -> None:
        last = self.target.last

        def arrived() -> bool:
            time.sleep(0.2)
            return any(sample.value >= last for sample in self.store.samples("scrape_number", self.name))

        until(arrived, f"scrape {last} of {self.name} is in the store", 180.0)

    def complaints(self) -> list[str]:
        """Return the samples that are missing, duplicate, or out of order."""
        samples = self.store.samples("scrape_number", self.name)
        failed = sum(1 for sample in self.store.samples("up", self.name) if sample.value == 0)
        # Scrapes that the agent recorded as failed do not count.
        return [line for series in map(str, range(SERIES)) for line in self._wrong_with(series, samples, failed)]

    def _wrong_with(self, series: str, samples: Sequence[Sample], failed: int) -> Iterator[str]:
        numbers = [
            number
            for _, number in sorted({(sample.time, sample.value) for sample in samples if sample.series == series})
        ]
        missing = set(range(1, max(numbers, default=1))) - self.target.in_doubt - set(numbers)
        if len(missing) > failed:
            yield f"{self.name}: series {series}: missing: {sorted(missing)}, failed scrapes: {failed}"
        if twice := [number for number, count in Counter(numbers).items() if count > 1]:
            yield f"{self.name}: series {series}: at two times: {twice}"
        if numbers != sorted(numbers):
            yield f"{self.name}: series {series}: not in the order in which they were scraped"


def scraped(pairs: Sequence[Pair], times: int) -> None:
    wanted = {pair.name: pair.target.last + times for pair in pairs}
    until(lambda: all(pair.target.last >= wanted[pair.name] for pair in pairs), f"{times} scrapes", 60.0 + 10 * times)


def stores_of(pairs: Sequence[Pair]) -> list[Store]:
    return list({pair.store.address: pair.store for pair in pairs}.values())


def all_sent(pairs: Sequence[Pair]) -> None:
    for pair in pairs:
        pair.wait_until_sent()


def outage(pairs: Sequence[Pair], times: int, scrapes: int) -> None:
    """Stop the stores; meanwhile restart the agents with a queue on disk `times` times."""
    for store in stores_of(pairs):
        store.end(store.crash)
    for _ in range(times):
        scraped(pairs, scrapes)
        for pair in pairs:
            # The queue of a Prometheus agent would be lost.
            if pair.name.startswith("vmagent"):
                pair.restart(signal.SIGTERM)
    for store in stores_of(pairs):
        store.start()


@contextlib.contextmanager
def all_pairs(folder: Path) -> Iterator[list[Pair]]:
    pki = make_pki(folder)
    with contextlib.ExitStack() as stack:
        pairs = []
        for stored, make_store in (("prometheus", prometheus_store), ("victoria", victoria_store)):
            store = stack.enter_context(make_store(folder / f"store {stored}", pki))
            for kind in AGENTS:
                target = stack.enter_context(Target().running())
                agent = agent_of(kind, folder / f"{kind}-{stored}", target.address, store, pki)
                pairs.append(Pair(agent.folder.name, stack.enter_context(agent), target, store))
        yield pairs
