"""Every query of every panel, sent to a real Prometheus that scrapes simulated nodes of many vendors."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from grafana.boards import panels_of
from kits.captures import ROOT
from kits.daemon import Daemon
from kits.prometheus import Prometheus, impatient
from kits.waiting import comes_true, until

pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.timeout(300)]

NODES = (
    "3xnvidia,2xamd,2xhygon",
    "2xgb200,4xascend,2xmoorethreads",
    "1xh100mig,1xcambricon,1xmetax,1xiluvatar,1xenflame,1xintel,1xkunlunxin",
)
OWNERS = "[attribution]\nenabled = true\n[steps]\nenabled = true\n"
RULES = ROOT / "deploy" / "prometheus" / "rules"
ALL = {"cluster": ".*", "job": ".*", "node": ".*", "vendor": ".*", "model": ".*", "device": ".*"}
BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "grafana" / "dashboards").glob("*.json"))}
PANELS = {
    f"{uid} {panel['title']}": [target["expr"] for target in panel["targets"]]
    for uid, board in BOARDS.items()
    for panel in panels_of(board)
}
EXPRESSIONS = [
    *(target["expr"] for board in BOARDS.values() for panel in panels_of(board) for target in panel["targets"]),
    *(mark["expr"] for mark in BOARDS["telemetry-fleet"]["annotations"]["list"]),
]
LATE_SECONDS = 60.0
# Panels that stay empty, and why.
EMPTY = {
    "telemetry-fleet Firing alerts": "alerts come by chance",
    "telemetry-node Firing alerts": "alerts come by chance",
    "telemetry-fleet Maintenance": "no node is in maintenance",
    "telemetry-jobs Foreign processes": "a forgotten process on a card of another owner comes by chance",
    "telemetry-jobs Unknown device names": "all fit",
    "telemetry-jobs Tokens by model": "no inference server is scraped",
    "telemetry-jobs Tokens by pod": "no inference server is scraped",
}


class Fleet:
    def __init__(self, prometheus: Prometheus, cards: list[Mapping[str, str]]) -> None:
        self.prometheus = prometheus
        self.cards = cards

    def ask(self, expression: str, chosen: Mapping[str, str]) -> tuple[str, list[Any]]:
        """Run a panel's query as Grafana sends it."""
        text = expression.replace("$__rate_interval", "15s").replace("$__range", "1m").replace("$__interval", "1m")
        for name, value in chosen.items():
            text = text.replace(f'"${name}', json.dumps(value)[:-1])
        assert re.search(r"\$[a-zA-Z_{]", text) is None, text
        return self.prometheus.query(text)

    def shows(self, panel: str) -> bool:
        """Return whether any query of the panel has an answer. On a busy machine the last scrapes may be late."""
        return comes_true(lambda: any(self.ask(text, ALL)[1] for text in PANELS[panel]), LATE_SECONDS)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        daemons = [
            stack.enter_context(Daemon(tmp_path_factory.mktemp("node"), OWNERS, arguments=("--demo", node)))
            for node in NODES
        ]
        folder = tmp_path_factory.mktemp("prometheus")
        rules = impatient(sorted(RULES.glob("*.yml")), folder)
        addresses = [daemon.address for daemon in daemons]
        prometheus = stack.enter_context(Prometheus(folder, addresses, rules))
        # Rates need a few scrapes, recorded series of rates a few more; slow polls run once a minute.
        until(lambda: len(prometheus.query("accelerator:utilization_ratio:zscore")[1]) > 3, "recorded scores")
        until(lambda: len(prometheus.query("count_over_time(up[1m]) > 20")[1]) == len(NODES), "scrapes")
        until(lambda: prometheus.query("rate(accelerator_pcie_receive_bytes_total[15s])")[1], "a slow counter")
        cards = [item["metric"] for item in prometheus.query("accelerator_up")[1]]
        yield Fleet(prometheus, cards)


def test_every_panel_shows_something(fleet: Fleet) -> None:
    """Each panel has a query with an answer for simulated cards, or is listed with a reason."""
    assert {name for name in PANELS.keys() - EMPTY.keys() if not fleet.shows(name)} == set()
    certain = {name for name, reason in EMPTY.items() if "chance" not in reason}
    assert not any(fleet.ask(text, ALL)[1] for name in certain for text in PANELS[name])


def test_every_query_is_good_for_all_for_one_card_and_for_one_vendor(fleet: Fleet) -> None:
    card = next(card for card in fleet.cards if card["vendor"] == "nvidia")
    one_card = {
        "cluster": ".*",
        "job": card["job"],
        "node": re.escape(card["instance"]),
        "vendor": "nvidia",
        "model": ".*",
        "device": card["device"],
    }
    one_vendor = {**ALL, "vendor": "ascend"}
    errors = [fleet.ask(expression, chosen)[0] for expression in EXPRESSIONS for chosen in (ALL, one_card, one_vendor)]
    assert [error for error in errors if error] == []


def test_the_choice_of_a_card_filters(fleet: Fleet) -> None:
    expressions = [text for text in EXPRESSIONS if 'device=~"$device"' in text and text.startswith("accelerator")]
    assert len(expressions) > 20
    for expression in expressions:
        found = fleet.ask(expression, {**ALL, "vendor": "nvidia", "device": "0"})[1]
        assert {(item["metric"]["vendor"], item["metric"]["device"]) for item in found} <= {("nvidia", "0")}


def test_nothing_recorded_is_recorded_twice(fleet: Fleet) -> None:
    rules = fleet.prometheus.ask("rules")["groups"]
    assert [rule["lastError"] for group in rules for rule in group["rules"] if rule.get("lastError")] == []
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}
