"""A daemon under all kinds of attacks at once, and the scraper beside them."""

import contextlib
import http.client
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bcrypt

from kits.attackers import attack
from kits.daemon import Daemon
from kits.processes import holdings, peak_mib
from kits.tool_node import TOOL, tool_node
from kits.web_server import basic

PASSWORD = "secret"
LOGIN = basic("prometheus", PASSWORD)
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Mob:
    """A number of clients of one kind (a mode of web/hostile_clients.py) at one address."""

    mode: str
    count: int
    source: str = "127.0.0.2"  # the scraper is at 127.0.0.1


@dataclass(frozen=True, slots=True)
class Load:
    config: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


# Changes to a node before its daemon starts, in the daemon's folder.
Burden = Callable[[Path], Load]


@dataclass
class Siege:
    login_seconds: float = 0.0
    scrape_seconds: list[float] = field(default_factory=list)
    stop_seconds: float = 0.0
    peak_mib: float = 0.0

    def p99_seconds(self) -> float:
        return sorted(self.scrape_seconds)[int(len(self.scrape_seconds) * 0.99)]

    def figures(self) -> dict[str, float]:
        return {
            "first_login_seconds": round(self.login_seconds, 2),
            "scrapes": len(self.scrape_seconds),
            "scrape_p99_ms": round(self.p99_seconds() * 1000),
            "scrape_worst_ms": round(max(self.scrape_seconds) * 1000),
            "peak_mib": round(self.peak_mib, 1),
            "stop_seconds": round(self.stop_seconds, 2),
        }


def besiege(
    folder: Path,
    mobs: Sequence[Mob],
    seconds: float,
    burdens: Sequence[Burden] = (),
    prefix: tuple[str, ...] = (),
    cost: int = 12,
    warning_seconds: float = 2.0,
) -> Siege:
    """Attack a daemon, log in and scrape meanwhile, and stop it; check that readings are as without attackers.

    `warning_seconds` is the time between the first attack and the first scrape.
    """
    peace = _readings_in_peace(folder / "peace")
    siege = Siege()
    with _guarded_daemon(folder / "war", burdens, prefix, cost) as daemon, contextlib.ExitStack() as attackers:
        port = int(daemon.address.rpartition(":")[2])
        for mob in mobs:
            attackers.enter_context(attack(port, mob.mode, mob.count, mob.source))
        connected = min(200, sum(mob.count for mob in mobs) // 2)
        daemon.until(lambda: holdings(daemon.pid).descriptors > connected)
        time.sleep(warning_seconds)
        siege.login_seconds = _log_in(port)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            took, page = scrape(port)
            siege.scrape_seconds.append(took)
            assert _readings(page) == peace
            time.sleep(0.02)
        siege.peak_mib = peak_mib(daemon.pid)
        status, siege.stop_seconds = daemon.stop()
        assert status == 0
        assert daemon.logged("level=error") == 0
    return siege


def _readings_in_peace(folder: Path) -> list[str]:
    folder.mkdir()
    daemon, _ = tool_node(folder)
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: _readings(daemon.page()))
        return _readings(daemon.page())


@contextlib.contextmanager
def _guarded_daemon(folder: Path, burdens: Sequence[Burden], prefix: tuple[str, ...], cost: int) -> Iterator[Daemon]:
    folder.mkdir()
    web = folder / "web.yml"
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(cost)).decode()
    web.write_text(f"basic_auth_users:\n  prometheus: {hashed}\n")
    loads = [burden(folder) for burden in burdens]
    daemon, tools = tool_node(folder, "".join(load.config for load in loads), prefix)
    for load in loads:
        daemon.environment.update(load.environment)
    daemon.arguments = ("--web.config.file", str(web))
    with daemon:
        daemon.until(lambda: len(tools.calls(TOOL)) > 2)
        yield daemon


def _log_in(port: int) -> float:
    """Return the seconds until the first page; bcrypt on a busy machine may outlast a connection, so try again."""
    begun = time.monotonic()
    while True:
        with contextlib.suppress(http.client.RemoteDisconnected):  # the password is still checked
            scrape(port)
            return time.monotonic() - begun
        assert time.monotonic() - begun < PATIENCE_SECONDS


def scrape(port: int) -> tuple[float, str]:
    """Scrape as Prometheus does, on a new connection; return the seconds and the page."""
    begun = time.monotonic()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as client:
        client.request("GET", "/metrics", headers=LOGIN)
        answer = client.getresponse()
        page = answer.read().decode()
    assert answer.status == 200, page
    return time.monotonic() - begun, page


def _readings(page: str) -> list[str]:
    lines = (line for line in page.splitlines() if line.startswith("accelerator_") and 'vendor="iluvatar"' in line)
    return sorted(line for line in lines if "_total" not in line.partition("{")[0])
