"""From a card in trouble to an alert at a real Alertmanager: daemon, Prometheus with our rules, Alertmanager."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_mthreads_gmi import TABLE
from kits.fake_tools import ToolFolder
from kits.prometheus import Alertmanager, Prometheus, impatient
from kits.waiting import until

pytestmark = [pytest.mark.needs("prometheus", "prometheus-alertmanager"), pytest.mark.timeout(300)]

CONFIG = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
FAST = (
    '[sources.mthreads-gmi]\ninterval = 0.5\ndeadline = 5.0\nmode = "always"\n[expect]\ndevices = {moorethreads = 2}\n'
)


@pytest.fixture
def tools(tmp_path: Path) -> ToolFolder:
    folder = ToolFolder(tmp_path / "tools")
    folder.prints("mthreads-gmi", TABLE)
    return folder


@pytest.fixture
def manager(tmp_path: Path, tools: ToolFolder) -> Iterator[Alertmanager]:
    with ExitStack() as stack:
        receiver = stack.enter_context(Alertmanager(tmp_path, CONFIG))
        daemon = stack.enter_context(Daemon(tmp_path, FAST, environment=tools.environment))
        daemon.until_state("mthreads-gmi", "ok")
        prometheus = Prometheus(tmp_path, [daemon.address], impatient(RULES, tmp_path), receiver.address)
        stack.enter_context(prometheus)
        until(lambda: prometheus.query("accelerator_up")[1], "a scrape")
        yield receiver


def test_heat_a_hung_tool_a_missing_and_a_lost_card_arrive_at_alertmanager(
    manager: Alertmanager, tools: ToolFolder, tmp_path: Path
) -> None:
    """Then a maintenance inhibits the open alerts, and resolves none."""

    until(lambda: "AcceleratorsFewerThanExpected" in manager.names(), "one card fewer than expected")
    hot = TABLE.replace("|58C ", "|99C ")
    assert hot != TABLE
    tools.prints("mthreads-gmi", hot)
    until(lambda: {"AcceleratorHot", "AcceleratorTemperatureCritical"} <= manager.names(), "an overheated card")
    assert not {"AcceleratorLost", "TelemetrySourceFailing"} & manager.names()
    tools.hangs("mthreads-gmi")
    until(lambda: "TelemetrySourceFailing" in manager.names(), "a hung tool")
    assert "AcceleratorLost" not in manager.names(), "the state of a card whose tool hangs is unknown"
    card = next(line for line in TABLE.splitlines() if "MTT" in line)
    tools.prints("mthreads-gmi", TABLE.replace(card, card.replace("0 ", "1 ", 1)).replace(":1a:", ":1b:"))
    until(lambda: "AcceleratorLost" in manager.names(), "another card in the place of the first one")
    maintenance = ("maintenance", "on", "--config", str(tmp_path / "telemetry.toml"))
    assert run_main(*maintenance)[0] == 0
    until(lambda: {alert["alertname"] for alert in manager.uninhibited()} == {"TelemetryMaintenance"}, "silence")
    assert "AcceleratorLost" in manager.names()
