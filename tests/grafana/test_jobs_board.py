"""What each query of the board of jobs answers for 2,000 cards: rows and numbers, and sums that are the cards' own."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from grafana.boards import panels_of
from grafana.owned_fleet import CARDS, HAD, HAVE, OF_JOBS, RANGE_SECONDS, Exposition, Had, Key, grouped, summed
from kits.captures import ROOT
from kits.prometheus import ConfiguredPrometheus, tool

pytestmark = [pytest.mark.long, pytest.mark.needs("prometheus", "promtool"), pytest.mark.timeout(300)]
BOARD = json.loads((ROOT / "grafana" / "dashboards" / "telemetry-jobs.json").read_text())
RULES = ROOT / "deploy" / "prometheus" / "rules"
TARGETS = {
    (panel["title"], panel["type"], target["refId"]): target["expr"]
    for panel in panels_of(BOARD)
    for target in panel["targets"]
}
WHO = ("owner_kind", "owner", "user", "account")
GROUP = ("user", "pod_namespace", "account")
JOB = ("job_id", "user")
OF_CARD = ("instance", "device", "owner")
ALL: Key = ()
WATTS = sum(card.watts for card in CARDS)
OWNED_JOULES = sum(had.seconds * had.card.watts for had in HAD)
Rows = tuple[Sequence[str], Mapping[Key, float]]


def share(had: Had) -> float:
    return had.share


def watts(had: Had) -> float:
    return had.share * had.card.watts


def ratio(above: Mapping[Key, float], below: Mapping[Key, float]) -> dict[Key, float]:
    return {key: above[key] / below[key] for key in below}


def in_groups(had: Sequence[Had], labels: Sequence[str]) -> Mapping[Key, list[Had]]:
    groups: dict[Key, list[Had]] = {}
    for one in had:
        groups.setdefault(grouped(one, labels), []).append(one)
    return groups


def bill(title: str, labels: Sequence[str]) -> dict[tuple[str, str, str], Rows]:
    seconds = summed(HAD, labels, lambda had: had.seconds)
    busy = summed(HAD, labels, lambda had: had.seconds * had.card.busy)
    joules = summed(HAD, labels, lambda had: had.seconds * had.card.watts)
    peaks = {key: max(one.memory_bytes for one in had) for key, had in in_groups(HAD, labels).items()}
    hours, watt_hours = ({key: value / 3600 for key, value in sums.items()} for sums in (seconds, joules))
    answers = (hours, ratio(busy, seconds), watt_hours, peaks)
    return {(title, "table", ref): (labels, rows) for ref, rows in zip("ABCD", answers, strict=True)}


def of_jobs() -> dict[tuple[str, str, str], Rows]:
    groups = in_groups(OF_JOBS, JOB)
    answers: tuple[Mapping[Key, float], ...] = (
        {key: len(had) for key, had in groups.items()},
        {key: len({one.card.node for one in had}) for key, had in groups.items()},
        {key: min(one.card.busy for one in had) for key, had in groups.items()},
        {key: statistics.median(one.card.busy for one in had) for key, had in groups.items()},
    )
    return {("Slowest card of each job", "table", ref): (JOB, rows) for ref, rows in zip("ABCD", answers, strict=True)}


def now() -> dict[tuple[str, str, str], Rows]:
    busy = summed(HAVE, WHO, lambda had: had.share * had.card.busy)
    answers = (
        summed(HAVE, WHO, share),
        ratio(busy, summed(HAVE, WHO, share)),
        summed(HAVE, WHO, watts),
        summed(HAVE, WHO, lambda had: had.memory_bytes),
    )
    return {("Who has cards", "table", ref): (WHO, rows) for ref, rows in zip("ABCD", answers, strict=True)}


def one(value: float) -> Rows:
    return (), {ALL: value}


EXPECTED: Mapping[tuple[str, str, str], Rows] = {
    ("Owners", "stat", "A"): one(len(in_groups(HAVE, ("owner_kind", "owner")))),
    ("Cards had", "stat", "A"): one(sum(map(share, HAVE))),
    ("Free cards", "stat", "A"): one(len(CARDS) - len({had.card for had in HAVE})),
    ("Power", "stat", "A"): one(sum(map(watts, HAVE))),
    ("Power", "stat", "B"): one(WATTS - sum(map(watts, HAVE))),
    ("Energy in the time shown", "stat", "A"): one(OWNED_JOULES / 3600),
    ("Energy in the time shown", "stat", "B"): one((WATTS * RANGE_SECONDS - OWNED_JOULES) / 3600),
    ("Cards had", "timeseries", "A"): (GROUP, summed(HAVE, GROUP, share)),
    ("Power", "timeseries", "A"): (GROUP, summed(HAVE, GROUP, watts)),
    ("Idle holders", "table", "A"): (OF_CARD, summed([had for had in HAVE if had.card.busy < 0.02], OF_CARD, share)),
    ("Strangers", "table", "A"): (
        OF_CARD,
        summed([had for had in HAVE if had.card.foreign_bytes], OF_CARD, lambda had: had.card.foreign_bytes),
    ),
    ("Names that fit no card", "table", "A"): (("instance", "source"), {("node0", "kubelet"): 2.0}),
    **now(),
    **bill("By user", ("user",)),
    **bill("By account", ("account",)),
    **bill("By namespace", ("pod_namespace",)),
    **bill("By job", JOB),
    **of_jobs(),
}


class Fleet:
    """A Prometheus with the fleet's last minutes in it, asked at their end."""

    def __init__(self, prometheus: ConfiguredPrometheus, end: int) -> None:
        self._prometheus = prometheus
        self._end = end

    def ask(self, expression: str, labels: Sequence[str]) -> Mapping[Key, float]:
        """The numbers by these labels. Two series with the same would be one row too few."""
        text = re.sub(r'"\$\w+"', '".*"', expression.replace("$__range", f"{RANGE_SECONDS}s"))
        data = self._prometheus.ask("query?" + urllib.parse.urlencode({"query": text, "time": self._end}))
        assert data is not None, text
        found = [(tuple(each["metric"].get(label, "") for label in labels), each["value"]) for each in data["result"]]
        rows = {key: float(value) for key, (_, value) in found}
        assert len(rows) == len(found), text
        return rows


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    end = int(time.time()) // 60 * 60
    page = folder / "fleet.om"
    with page.open("w") as file:
        file.writelines(Exposition(end).lines())
    blocks = [tool("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(page), str(folder / "tsdb")]
    subprocess.run(blocks, check=True, capture_output=True)
    config = folder / "prometheus.yml"
    config.write_text("{}\n")
    with ConfiguredPrometheus(config) as prometheus:
        prometheus.wait(f"query?query=accelerator_up&time={end}", "result")
        yield Fleet(prometheus, end)


def test_all_queries_of_the_board_are_expected() -> None:
    assert TARGETS.keys() == EXPECTED.keys()


@pytest.mark.parametrize("target", EXPECTED, ids=" ".join)
def test_a_query_gives_its_rows_and_numbers(fleet: Fleet, target: tuple[str, str, str]) -> None:
    labels, rows = EXPECTED[target]
    assert fleet.ask(TARGETS[target], labels) == pytest.approx(rows, rel=0.001)


@pytest.mark.parametrize("title", ["By user", "By account", "By namespace", "By job"])
def test_rows_and_nobody_add_up_to_the_cards_own(fleet: Fleet, title: str) -> None:
    of_rows = sum(fleet.ask(TARGETS[title, "table", "C"], EXPECTED[title, "table", "C"][0]).values())
    nobodys = fleet.ask(TARGETS["Energy in the time shown", "stat", "B"], ())[ALL]
    assert of_rows + nobodys == pytest.approx(WATTS * RANGE_SECONDS / 3600, rel=0.001)


def test_the_rule_keeps_whole_cards_of_jobs(fleet: Fleet) -> None:
    groups = [group for file in RULES.glob("*.yml") for group in yaml.safe_load(file.read_text())["groups"]]
    name = "accelerator:allocation_utilization_ratio:rate5m"
    (rule,) = (rule for group in groups for rule in group["rules"] if rule.get("record") == name)
    assert fleet.ask(rule["expr"], OF_CARD) == pytest.approx(summed(OF_JOBS, OF_CARD, lambda had: had.card.busy))
