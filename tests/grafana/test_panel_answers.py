"""What panels and sums answer, by promtool: rates of what is polled once a minute, sources that fail, cards with partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from grafana.boards import panels_of
from grafana.promtool import RECORDING, Question, Series, Story, assert_told, groups_of
from kits.captures import ROOT

BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "grafana" / "dashboards").glob("*.json"))}
PANELS = {(uid, panel["title"]): panel for uid, board in BOARDS.items() for panel in panels_of(board)}
MARKS = {mark["name"]: mark for mark in BOARDS["telemetry-node"]["annotations"]["list"]}
SCRAPED_EVERY = 15
NODE = 'job="j",instance="n"'
CARD = f'{NODE},vendor="v",device="0",id="i",model="m"'
# Counters that no source reads more often than once a minute, or than once in five.
SLOW = {
    "PCIe traffic": (60, ("accelerator_pcie_receive_bytes_total", "accelerator_pcie_transmit_bytes_total")),
    "Traffic between cards": (60, ("accelerator_link_receive_bytes_total", "accelerator_link_transmit_bytes_total")),
    "PCIe errors": (300, ("accelerator_pcie_replays_total",)),
    "Link errors": (60, ("accelerator_link_crc_errors_total", "accelerator_link_replay_errors_total")),
}

pytestmark = pytest.mark.needs("promtool")


def ask(folder: Path, series: Series, answers: Mapping[str, float], at: str, every: str) -> None:
    """The one number that each query answers."""
    questions = [Question(query, at, {"{}": value}) for query, value in answers.items()]
    assert_told(folder, groups_of(RECORDING), [Story(series, questions, scraped_every=every)])


def sent(target: Mapping[str, str]) -> str:
    """A panel's query for all cards as Grafana sends it, over an hour: the window of rates is four of the least steps."""
    least = re.fullmatch(r"([0-9]+)m", target.get("interval", ""))
    window = 4 * max(SCRAPED_EVERY, 60 * int(least[1]) if least else 0)
    text = target["expr"].replace("$__rate_interval", f"{window}s").replace("$__range", "1h")
    return re.sub(r'"\$[a-z]+\|?"', '".*"', text.replace("$__interval", "1m"))


@pytest.mark.parametrize("title", SLOW)
def test_a_rate_of_what_is_polled_rarely_is_steady(tmp_path: Path, title: str) -> None:
    """A steady ten a second, as a slow poll tells it: nowhere nothing, and nowhere a third more."""
    polled_every, metrics = SLOW[title]
    repeats = polled_every // SCRAPED_EVERY
    steps = " ".join(f"{10 * polled_every * n}x{repeats - 1}" for n in range(3 * 3600 // polled_every))
    panel = PANELS["telemetry-card", title]
    a_second = {"Bps": 1.0, "cpm": 60.0}[panel["fieldConfig"]["defaults"]["unit"]]
    for metric in metrics:
        target = next(target for target in panel["targets"] if f"{metric}{{" in target["expr"])
        rate = f"({sent(target)}) / {a_second}"
        moments = "[15m:7s]"  # hardly ever those of a scrape
        ask(
            tmp_path,
            {f"{metric}{{{CARD}}}": steps},
            {
                f"count(min_over_time(({rate}){moments}) > 7.5)": 1,
                f"count(max_over_time(({rate}){moments}) < 11)": 1,
                f"count(avg_over_time(({rate}){moments}) > 9) ": 1,
            },
            "2h",
            f"{SCRAPED_EVERY}s",
        )


def test_a_source_that_fails_is_drawn_before_tools_that_nobody_installed(tmp_path: Path) -> None:
    series = {}
    for number in range(40):
        of = f'{NODE},source="not-here-{number}"'
        series[f'telemetry_source_state{{{of},state="missing"}}'] = "1x70"
        series[f'telemetry_source_state{{{of},state="ok"}}'] = "0x70"
    for source, well in {"failing": "1x50 0x20", "well": "1x70"}.items():
        series[f'telemetry_source_state{{{NODE},source="{source}",state="ok"}}'] = well
        series[f'telemetry_source_state{{{NODE},source="{source}",state="missing"}}'] = "0x70"
    series[f'telemetry_source_state{{{NODE},source="failing",state="failed"}}'] = "0x50 1x20"
    drawn = sent(PANELS["telemetry-monitor", "State of each source"]["targets"][0])
    answers = {
        f'count(({drawn}) and on (source) telemetry_source_state{{source="{name}"}})': 1.0
        for name in ("failing", "well")
    }
    ask(tmp_path, series, {**answers, f"count({drawn})": 24}, "65m", "1m")


def test_a_partitioned_card_counts_once_in_averages(tmp_path: Path) -> None:
    """Seven cards at work and one that is idle: with all its eight partitions it is still one card."""
    series = {}
    for card in range(8):
        of = f'{NODE},vendor="v",device="{card}",id="i{card}",model="m"'
        series[f"accelerator_busy_seconds_total{{{of}}}"] = f"0+{60 if card else 0}x30"
    for part in range(8):
        of = f'{NODE},vendor="v",device="0:{part}",id="i0/{part}",model="m"'
        series[f"accelerator_busy_seconds_total{{{of}}}"] = "0x30"
        series[f'accelerator_info{{{of},parent="i0"}}'] = "1x30"
    scopes = ("instance", "model", "fleet")
    ask(tmp_path, series, {f"sum({scope}:accelerator_utilization_ratio:avg)": 0.875 for scope in scopes}, "20m", "1m")


def test_partitions_count_where_their_card_tells_nothing(tmp_path: Path) -> None:
    series = {}
    for part in range(2):
        of = f'{NODE},vendor="v",device="0:{part}",id="p{part}",model="m"'
        series[f"accelerator_busy_seconds_total{{{of}}}"] = f"0+{60 * part}x30"
        series[f'accelerator_info{{{of},parent="i0"}}'] = "1x30"
    ask(tmp_path, series, {"sum(fleet:accelerator_utilization_ratio:avg)": 0.5}, "20m", "1m")


def test_a_partition_that_was_taken_away_is_not_unwatched(tmp_path: Path) -> None:
    """Of two cards with a partition each the first is parted anew, and the second's source is released."""
    series = {}
    for card, up in enumerate(("1x30", "1x20 stale")):
        whole = f'{NODE},vendor="v",device="{card}",id="i{card}",model="m"'
        part = f'{NODE},vendor="v",device="{card}:0",id="i{card}/0",model="m"'
        series[f"accelerator_up{{{whole}}}"] = up
        series[f"accelerator_info{{{whole}}}"] = up
        series[f"accelerator_up{{{part}}}"] = "1x20 stale"
        series[f'accelerator_info{{{part},parent="i{card}"}}'] = "1x20 stale"
    state = sent(PANELS["telemetry-fleet", "All cards"]["targets"][0])
    unwatched = f'count(({state}) == -1 and on (id) accelerator_up{{device=~"1.*"}} offset 10m)'
    answers = {f"count({state})": 3.0, f"count(({state}) == 1)": 1, unwatched: 2}
    ask(tmp_path, series, answers, "25m", "1m")


EVENT = f'accelerator_event_last_timestamp_seconds{{{CARD},code="xid_31"}}'
BUILD = f'telemetry_build_info{{{NODE},version="1",python="3"}}'
STARTED = f"process_start_time_seconds{{{NODE}}}"


@pytest.mark.parametrize(
    ("mark", "series", "marked"),
    [
        pytest.param("Events", {EVENT: "_x9 5x60", BUILD: "1x70"}, 1, id="the first event of a code"),
        pytest.param("Events", {EVENT: "5x9 77x60", BUILD: "1x70"}, 1, id="one more event"),
        pytest.param("Events", {EVENT: "_x19 5x50", BUILD: "_x19 1x50"}, 0, id="a node that is new has old events"),
        pytest.param("Events", {EVENT: "5x9 _x20 5x40", BUILD: "1x9 _x20 1x40"}, 0, id="half an hour without scrapes"),
        pytest.param("Restarts", {STARTED: "5x20 66x49", BUILD: "1x70"}, 1, id="started again"),
        pytest.param("Restarts", {STARTED: "5x20 _x20 66x29", BUILD: "1x20 _x20 1x29"}, 1, id="again after a while"),
        pytest.param("Restarts", {STARTED: "5x20 66x49"}, 0, id="somebody else's process"),
        pytest.param("Restarts", {STARTED: "_x20 66x49", BUILD: "_x20 1x49"}, 0, id="a node that is new"),
        pytest.param("Maintenance", {f"telemetry_maintenance{{{NODE}}}": "0x20 1x19 0x30"}, 20, id="a band"),
        pytest.param(
            "Alerts",
            {f'ALERTS{{alertname="a",alertstate="firing",severity="warning",{CARD}}}': "_x20 1x49"},
            1,
            id="an alert is marked where it begins",
        ),
    ],
)
def test_a_mark_stands_where_something_happens(
    tmp_path: Path, mark: str, series: Mapping[str, str], marked: int
) -> None:
    """Counted at each minute; Grafana makes one band of neighbours."""
    count = f"sum(count_over_time(({sent(MARKS[mark])} > 0)[70m:1m])) or absent(nobody_has_this) * 0"
    ask(tmp_path, series, {f"max({count})": marked}, "69m30s", "1m")


def test_a_card_is_named_by_node_and_number_and_by_vendor_where_a_node_has_several(tmp_path: Path) -> None:
    series = {}
    for node, vendors in {"one": ["v"], "two": ["v", "w"]}.items():
        for vendor in vendors:
            at = f'job="j",instance="{node}",vendor="{vendor}"'
            series[f'telemetry_devices{{{at},model="m"}}'] = "1x20"
            series[f'accelerator_up{{{at},device="10",id="{vendor}{node}",model="m"}}'] = "1x20"
            series[f'accelerator_power_watts{{{at},device="10",id="{vendor}{node}",model="m"}}'] = "5x20"
    power = sent(PANELS["telemetry-node", "Power"]["targets"][0])
    answers = {
        f'count(({power}) and on (card) label_replace(vector(1), "card", "{name}", "", ""))': 1.0
        for name in ("one 10", "two v 10", "two w 10")
    }
    ask(tmp_path, series, {**answers, f"count({power})": 3.0}, "15m", "1m")


def test_a_node_whose_cards_tell_no_limit_is_named(tmp_path: Path) -> None:
    series = {}
    for node, has_limit in {"with": True, "without": False}.items():
        of = f'job="j",instance="{node}",vendor="v",device="0",id="{node}",model="m"'
        series[f"accelerator_power_watts{{{of}}}"] = "100x20"
        series[f'telemetry_devices{{job="j",instance="{node}",vendor="v",model="m"}}'] = "1x20"
        if has_limit:
            series[f"accelerator_power_cap_watts{{{of}}}"] = "400x20"
    drawn, left_out = map(sent, PANELS["telemetry-fleet", "Power of nodes against their limits"]["targets"])
    without = f'count(({left_out}) and on (instance) accelerator_power_watts{{instance="without"}})'
    ask(tmp_path, series, {f"sum({drawn})": 0.25, f"count({left_out})": 1, without: 1.0}, "15m", "1m")
