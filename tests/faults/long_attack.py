"""All attackers at once, on every route, under the unit's memory limit: scrapes continue with correct readings."""

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from faults.bad_source import fill_state, flooding_plugin
from faults.control_group import control_group
from faults.siege import Burden, Load, Mob, Siege, besiege, scrape
from kits.attackers import attack
from kits.daemon import Daemon
from kits.processes import holdings, peak_mib

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "telemetry.service"
STALLED = tuple(Mob(mode, 1000) for mode in ("silent", "half", "drip"))
GUESSERS = {
    "elsewhere": (Mob("guess", 32),),
    "at 32 addresses": tuple(Mob("guess", 1, f"127.0.1.{number}") for number in range(1, 33)),
    "at the scraper's address": (Mob("guess", 32, "127.0.0.1"),),
}
FLOODS = tuple(Mob(mode, 32) for mode in ("ask", "deaf"))
ROUTES = (
    "/",
    "/metrics",
    "/metrics?name[]=accelerator_power_watts",
    "/metrics/dcgm-exporter",
    "/api/v1/history",
    "/api/v1/snapshot",
    "stall",
)
UNREAD = {
    **{route: (Mob(route, 3000),) for route in ROUTES},
    "all": tuple(Mob(route, 3000 // len(ROUTES)) for route in ROUTES),
}
SECONDS = 20.0
WARNING_SECONDS = 12.0  # by then each guesser has failed at least once, at a quarter of a second for a check
RANK_TABLE_BYTES = 64 << 20
Record = Callable[[str, object], None]


def twelve_thousand_new_devices_at_each_poll(folder: Path) -> Load:
    return Load(flooding_plugin(folder, 12_000))


def a_hundred_thousand_remembered_devices(folder: Path) -> Load:
    fill_state(folder, 100_000)
    return Load()


def a_rank_table_of_64_megabytes(folder: Path) -> Load:
    path = folder / "hccl.json"
    path.write_text('{"server_list": [' + " " * RANK_TABLE_BYTES + "]}")
    return Load(environment={"TELEMETRY_RANK_TABLE": str(path)})


# Other loads of a node at the same time.
BURDENS: Sequence[Burden] = (
    twelve_thousand_new_devices_at_each_poll,
    a_hundred_thousand_remembered_devices,
    a_rank_table_of_64_megabytes,
)


def under_the_units_limit(
    folder: Path, record_property: Record, mobs: Sequence[Mob], burdens: Sequence[Burden] = ()
) -> Siege:
    found = re.search(r"^MemoryMax=(\d+)M$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    with control_group("memory", "memory.limit_in_bytes", "memory.max", int(found[1]) << 20) as join:
        siege = besiege(folder, mobs, SECONDS, burdens, join, warning_seconds=WARNING_SECONDS)
    print(siege.figures())
    for name, figure in siege.figures().items():
        record_property(name, figure)
    assert siege.stop_seconds < 3.0
    return siege


@pytest.mark.parametrize("guessers", GUESSERS.values(), ids=GUESSERS)
def test_node_bears_stalled_clients_and_guessers(
    tmp_path: Path, record_property: Record, guessers: Sequence[Mob]
) -> None:
    siege = under_the_units_limit(tmp_path, record_property, (*STALLED, *guessers))
    assert siege.p99_seconds() < 1.0


def test_node_bears_all_attacks_at_once(tmp_path: Path, record_property: Record) -> None:
    siege = under_the_units_limit(tmp_path, record_property, (*STALLED, *GUESSERS["elsewhere"]), BURDENS)
    assert siege.p99_seconds() < 1.0


def test_node_bears_floods_of_requests(tmp_path: Path, record_property: Record) -> None:
    """They use all CPUs, so the time of a scrape depends on the machine."""
    under_the_units_limit(tmp_path, record_property, (*STALLED, *GUESSERS["elsewhere"], *FLOODS))


@pytest.mark.parametrize("mobs", UNREAD.values(), ids=UNREAD)
def test_node_bears_clients_that_read_no_answer(tmp_path: Path, record_property: Record, mobs: Sequence[Mob]) -> None:
    siege = Siege()
    with Daemon(tmp_path, arguments=("--demo", "32xnvidia")) as daemon, contextlib.ExitStack() as attackers:
        daemon.until(lambda: "accelerator_power_watts{" in daemon.page())
        port = int(daemon.address.rpartition(":")[2])
        for mob in mobs:
            attackers.enter_context(attack(port, mob.mode, mob.count, mob.source))
        daemon.until(lambda: holdings(daemon.pid).descriptors > 200)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            siege.scrape_seconds.append(scrape(port)[0])
            time.sleep(0.02)
        siege.peak_mib = peak_mib(daemon.pid)
        status, siege.stop_seconds = daemon.stop()
        assert (status, daemon.logged("level=error")) == (0, 0)
    print(siege.figures())
    for name, figure in siege.figures().items():
        record_property(name, figure)
    assert siege.p99_seconds() < 1.0
