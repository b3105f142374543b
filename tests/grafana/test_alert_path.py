"""From a card in trouble to an alert at a real Alertmanager: daemon, Prometheus with our rules, Alertmanager."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.daemon import Daemon
from kits.fake_mthreads_gmi import TABLE
from kits.fake_tools import ToolFolder
from kits.ports import free_address
from kits.prometheus import Alertmanager, Prometheus, impatient
from kits.stepped_clock import SteppedClock
from kits.waiting import until

pytestmark = [pytest.mark.needs("prometheus", "prometheus-alertmanager"), pytest.mark.timeout(300)]

RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
NOTHING_EXPECTED = '[sources.mthreads-gmi]\ninterval = 0.5\ndeadline = 1.0\nmode = "always"\n'
FAST = NOTHING_EXPECTED + "[expect]\ndevices = {moorethreads = 2}\n"
_FIRST_CARD = TABLE.split("+---")[1].split("\n", 1)[1].split("-----", maxsplit=1)[0]
TWO_CARDS = TABLE.replace(
    "N/A\n-----", f"N/A\n{_FIRST_CARD.replace('0    MTT', '1    MTT').replace(':1a:', ':1b:')}-----", 1
)


@pytest.fixture
def tools(tmp_path: Path) -> ToolFolder:
    folder = ToolFolder(tmp_path / "tools")
    folder.prints("mthreads-gmi", TABLE)
    return folder


@pytest.fixture
def manager(tmp_path: Path, tools: ToolFolder) -> Iterator[Alertmanager]:
    with ExitStack() as stack:
        receiver = stack.enter_context(Alertmanager(tmp_path))
        daemon = stack.enter_context(Daemon(tmp_path, FAST, environment=tools.environment))
        daemon.until_state("mthreads-gmi", "ok")
        prometheus = Prometheus(tmp_path, [daemon.address], impatient(RULES, tmp_path), receiver.address)
        stack.enter_context(prometheus)
        until(lambda: prometheus.query("accelerator_up")[1], "a scrape")
        yield receiver


def test_heat_a_hung_tool_and_a_missing_card_arrive_at_alertmanager(manager: Alertmanager, tools: ToolFolder) -> None:
    until(lambda: "AcceleratorsFewerThanExpected" in manager.names(), "one card fewer than expected")
    hot = TABLE.replace("|58C ", "|99C ")
    assert hot != TABLE
    tools.prints("mthreads-gmi", hot)
    until(lambda: {"AcceleratorHot", "AcceleratorTemperatureCritical"} <= manager.names(), "an overheated card")
    assert not {"AcceleratorLost", "TelemetrySourceFailing"} & manager.names()
    tools.hangs("mthreads-gmi")
    until(lambda: "TelemetrySourceFailing" in manager.names(), "a hung tool")
    assert "AcceleratorLost" not in manager.names(), "nobody knows whether a card is there whose tool hangs"


def test_a_lost_card_arrives(manager: Alertmanager, tools: ToolFolder) -> None:
    card = next(line for line in TABLE.splitlines() if "MTT" in line)
    second = TABLE.replace(card, card.replace("0 ", "1 ", 1)).replace(":1a:", ":1b:")
    assert second != TABLE
    tools.prints("mthreads-gmi", second)
    until(lambda: "AcceleratorLost" in manager.names(), "a lost card")


@pytest.mark.needs("cc")
@pytest.mark.long
def test_a_card_that_comes_and_goes_is_one_alert_on_a_node_whose_clock_is_behind(
    tmp_path: Path, tools: ToolFolder
) -> None:
    tools.prints("mthreads-gmi", TWO_CARDS)
    clock = SteppedClock(tmp_path)
    clock.step(-900)
    with ExitStack() as stack:
        stack.callback(clock.close)
        environment = {**tools.environment, **clock.environment()}
        daemon = stack.enter_context(Daemon(tmp_path, NOTHING_EXPECTED, environment=environment))
        receiver = stack.enter_context(Alertmanager(tmp_path))
        prometheus = Prometheus(tmp_path, [daemon.address], impatient(RULES, tmp_path), receiver.address)
        stack.enter_context(prometheus)
        for table in (TWO_CARDS, TABLE) * 2:
            tools.prints("mthreads-gmi", table)
            up = 1 + (table == TWO_CARDS)
            until(lambda up=up: prometheus.query(f"sum(accelerator_up) == {up}")[1], f"{up} of two cards")
        until(lambda: {"AcceleratorFlapping", "TelemetryClockSkew"} <= receiver.names(), "both alerts")
        lost = 'ALERTS{alertname="AcceleratorLost",alertstate="firing"}'
        until(lambda: not prometheus.query(lost)[1], "that AcceleratorLost is silent")


@pytest.mark.long
def test_a_card_that_is_lost_with_the_daemons_state_arrives(tmp_path: Path, tools: ToolFolder) -> None:
    tools.prints("mthreads-gmi", TWO_CARDS)
    address = free_address()

    def serving() -> Daemon:
        arguments = ("--web.listen-address", address)
        return Daemon(tmp_path, NOTHING_EXPECTED, arguments=arguments, environment=tools.environment)

    with ExitStack() as stack:
        receiver = stack.enter_context(Alertmanager(tmp_path))
        prometheus = stack.enter_context(Prometheus(tmp_path, [address], impatient(RULES, tmp_path), receiver.address))
        with serving() as daemon:
            until(lambda: prometheus.query("instance:accelerators:steady == 2")[1], "two cards")
            assert daemon.stop()[0] == 0
        tools.prints("mthreads-gmi", TABLE)
        with serving() as daemon:
            until(lambda: prometheus.query("sum(accelerator_up) == 1")[1], "one card")
            until(lambda: "AcceleratorLost" in receiver.names(), "the loss that the daemon remembers")
            assert daemon.stop()[0] == 0
        (tmp_path / "state" / "devices.json").unlink()
        with serving():
            fires = (
                'ALERTS{alertname="AcceleratorsFewerThanBefore",alertstate="firing"} and on () min(accelerator_up) == 1'
            )
            until(lambda: prometheus.query(fires)[1], "the loss that nobody remembers")
            until(lambda: "AcceleratorsFewerThanBefore" in receiver.names(), "its alert")
