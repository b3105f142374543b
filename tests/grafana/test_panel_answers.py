"""Results of panels and sums by promtool: rates of slow polls, failing sources, cards with partitions."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from grafana.boards import panels_of
from grafana.promtool import RECORDING, Group, Question, Series, Story, assert_answers, groups_of
from kits.captures import ROOT

SCRAPED_EVERY = 15
NODE = 'job="j",instance="n"'
CARD = f'{NODE},vendor="v",device="0",id="i",model="m"'
# Counters that are read at most once a minute, or once in five minutes.
SLOW = {
    "PCIe traffic": (60, ("accelerator_pcie_receive_bytes_total", "accelerator_pcie_transmit_bytes_total")),
    "Traffic between cards": (60, ("accelerator_link_receive_bytes_total", "accelerator_link_transmit_bytes_total")),
    "PCIe errors": (300, ("accelerator_pcie_replays_total",)),
    "Link errors": (60, ("accelerator_link_crc_errors_total", "accelerator_link_replay_errors_total")),
}

pytestmark = pytest.mark.needs("promtool")


@cache
def boards() -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in (ROOT / "grafana" / "dashboards").glob("*.json")}


@cache
def panels() -> dict[tuple[str, str], dict[str, Any]]:
    return {(uid, panel["title"]): panel for uid, board in boards().items() for panel in panels_of(board)}


def ask(folder: Path, series: Series, answers: Mapping[str, float], at: str, rules: Sequence[Group] = ()) -> None:
    assert_answers(
        folder, rules, [Story(series, [Question(query, at, {"{}": value}) for query, value in answers.items()])]
    )


def sent(target: Mapping[str, str]) -> str:
    """Return a panel's query for all cards as Grafana sends it for an hour; the rate window is four minimum steps."""
    least = re.fullmatch(r"([0-9]+)m", target.get("interval", ""))
    window = 4 * max(SCRAPED_EVERY, 60 * int(least[1]) if least else 0)
    text = target["expr"].replace("$__rate_interval", f"{window}s").replace("$__range", "1h")
    return re.sub(r'"\$[a-z]+\|?"', '".*"', text.replace("$__interval", "1m"))


def test_a_rate_of_what_is_polled_rarely_is_steady(tmp_path: Path) -> None:
    """A constant rate of ten per second from a slow poll is never shown as zero or as a third too high."""
    stories = []
    moments = "[15m:7s]"  # rarely the time of a scrape
    for title, (polled_every, metrics) in SLOW.items():
        repeats = polled_every // SCRAPED_EVERY
        steps = " ".join(f"{10 * polled_every * n}x{repeats - 1}" for n in range(5400 // polled_every))
        panel = panels()["telemetry-card", title]
        a_second = {"Bps": 1.0, "cpm": 60.0}[panel["fieldConfig"]["defaults"]["unit"]]
        for metric in metrics:
            target = next(target for target in panel["targets"] if f"{metric}{{" in target["expr"])
            rate = f"({sent(target)}) / {a_second}"
            queries = (
                f"count(min_over_time(({rate}){moments}) > 7.5)",
                f"count(max_over_time(({rate}){moments}) < 11)",
                f"count(avg_over_time(({rate}){moments}) > 9)",
            )
            series = {f"{metric}{{{CARD}}}": steps}
            questions = [Question(query, "75m", {"{}": 1}) for query in queries]
            stories.append(Story(series, questions, metric, f"{SCRAPED_EVERY}s"))
    assert_answers(tmp_path, [], stories)


def test_a_source_that_fails_is_drawn_before_tools_that_are_not_installed(tmp_path: Path) -> None:
    series = {}
    for number in range(40):
        of = f'{NODE},source="not-here-{number}"'
        series[f'telemetry_source_state{{{of},state="missing"}}'] = "1x70"
        series[f'telemetry_source_state{{{of},state="ok"}}'] = "0x70"
    for source, well in {"failing": "1x50 0x20", "well": "1x70"}.items():
        series[f'telemetry_source_state{{{NODE},source="{source}",state="ok"}}'] = well
        series[f'telemetry_source_state{{{NODE},source="{source}",state="missing"}}'] = "0x70"
    series[f'telemetry_source_state{{{NODE},source="failing",state="failed"}}'] = "0x50 1x20"
    drawn = sent(panels()["telemetry-monitor", "State of each source"]["targets"][0])
    answers = {
        f'count(({drawn}) and on (source) telemetry_source_state{{source="{name}"}})': 1.0
        for name in ("failing", "well")
    }
    ask(tmp_path, series, {**answers, f"count({drawn})": 20}, "65m")


def test_a_partitioned_card_counts_once_in_averages(tmp_path: Path) -> None:
    """Seven busy cards and an idle card with eight partitions, which still counts once."""
    scopes = ("instance", "model", "fleet")
    averages = {scope: f"sum({scope}:accelerator_utilization_ratio:avg)" for scope in scopes}
    series = {}
    for card in range(8):
        of = f'{NODE},vendor="v",device="{card}",id="i{card}",model="m"'
        series[f"accelerator_busy_seconds_total{{{of}}}"] = f"0+{60 if card else 0}x30"
    for part in range(8):
        series |= partition(part, "0x30")
    of_parts = partition(0, "0x30") | partition(1, "0+60x30")
    stories = [
        Story(series, [Question(query, "20m", {"{}": 0.875}) for query in averages.values()], "with the card"),
        Story(of_parts, [Question(averages["fleet"], "20m", {"{}": 0.5})], "a card without readings of its own"),
    ]
    assert_answers(tmp_path, groups_of(RECORDING), stories)


def partition(number: int, busy: str) -> dict[str, str]:
    of = f'{NODE},vendor="v",device="0:{number}",id="i0/{number}",model="m"'
    return {f"accelerator_busy_seconds_total{{{of}}}": busy, f'accelerator_info{{{of},parent="i0"}}': "1x30"}


def test_removed_partition_is_not_counted_as_unread(tmp_path: Path) -> None:
    """Two cards have a partition each. The first is repartitioned; the source of the second is released."""
    series = {}
    for card, up in enumerate(("1x30", "1x20 stale")):
        whole = f'{NODE},vendor="v",device="{card}",id="i{card}",model="m"'
        part = f'{NODE},vendor="v",device="{card}:0",id="i{card}/0",model="m"'
        series[f"accelerator_up{{{whole}}}"] = up
        series[f"accelerator_info{{{whole}}}"] = up
        series[f"accelerator_up{{{part}}}"] = "1x20 stale"
        series[f'accelerator_info{{{part},parent="i{card}"}}'] = "1x20 stale"
    state = sent(panels()["telemetry-fleet", "All cards"]["targets"][0])
    unwatched = f'count(({state}) == -1 and on (id) accelerator_up{{device=~"1.*"}} offset 10m)'
    answers = {f"count({state})": 3.0, f"count(({state}) == 1)": 1, unwatched: 2}
    ask(tmp_path, series, answers, "25m", groups_of(RECORDING))


EVENT = f'accelerator_event_last_timestamp_seconds{{{CARD},code="xid_31"}}'
BUILD = f'telemetry_build_info{{{NODE},version="1",python="3"}}'
STARTED = f"process_start_time_seconds{{{NODE}}}"


def test_annotation_is_where_something_happens(tmp_path: Path) -> None:
    """Annotations are counted at each minute; Grafana joins adjacent ones."""
    marks = {mark["name"]: mark for mark in boards()["telemetry-node"]["annotations"]["list"]}
    stories = []
    for why, (mark, series, marked) in {
        "the first event of a code": ("Events", {EVENT: "_x9 5x60", BUILD: "1x70"}, 1),
        "one more event": ("Events", {EVENT: "5x9 77x60", BUILD: "1x70"}, 1),
        "a node that is new has old events": ("Events", {EVENT: "_x19 5x50", BUILD: "_x19 1x50"}, 0),
        "half an hour without scrapes": ("Events", {EVENT: "5x9 _x20 5x40", BUILD: "1x9 _x20 1x40"}, 0),
        "started again": ("Restarts", {STARTED: "5x20 66x49", BUILD: "1x70"}, 1),
        "again after a while": ("Restarts", {STARTED: "5x20 _x20 66x29", BUILD: "1x20 _x20 1x29"}, 1),
        "somebody else's process": ("Restarts", {STARTED: "5x20 66x49"}, 0),
        "a node that is new": ("Restarts", {STARTED: "_x20 66x49", BUILD: "_x20 1x49"}, 0),
        "a band": ("Maintenance", {f"telemetry_maintenance{{{NODE}}}": "0x20 1x19 0x30"}, 20),
        "an alert is marked where it begins": (
            "Alerts",
            {f'ALERTS{{alertname="a",alertstate="firing",severity="warning",{CARD}}}': "_x20 1x49"},
            1,
        ),
    }.items():
        count = f"sum(count_over_time(({sent(marks[mark])} > 0)[70m:1m])) or absent(no_such_series) * 0"
        stories.append(Story(series, [Question(f"max({count})", "69m30s", {"{}": marked})], why))
    assert_answers(tmp_path, [], stories)


def test_a_card_is_named_by_node_and_number_and_by_vendor_where_a_node_has_several(tmp_path: Path) -> None:
    series = {}
    for node, vendors in {"one": ["v"], "two": ["v", "w"]}.items():
        for vendor in vendors:
            at = f'job="j",instance="{node}",vendor="{vendor}"'
            series[f'telemetry_devices{{{at},model="m"}}'] = "1x20"
            series[f'accelerator_up{{{at},device="10",id="{vendor}{node}",model="m"}}'] = "1x20"
            series[f'accelerator_power_watts{{{at},device="10",id="{vendor}{node}",model="m"}}'] = "5x20"
    power = sent(panels()["telemetry-node", "Power"]["targets"][0])
    answers = {
        f'count(({power}) and on (card) label_replace(vector(1), "card", "{name}", "", ""))': 1.0
        for name in ("one 10", "two v 10", "two w 10")
    }
    ask(tmp_path, series, {**answers, f"count({power})": 3.0}, "15m")


def test_a_node_whose_cards_report_no_limit_is_named(tmp_path: Path) -> None:
    series = {}
    for node, has_limit in {"with": True, "without": False}.items():
        of = f'job="j",instance="{node}",vendor="v",device="0",id="{node}",model="m"'
        series[f"accelerator_power_watts{{{of}}}"] = "100x20"
        series[f'telemetry_devices{{job="j",instance="{node}",vendor="v",model="m"}}'] = "1x20"
        if has_limit:
            series[f"accelerator_power_cap_watts{{{of}}}"] = "400x20"
    drawn, left_out = map(sent, panels()["telemetry-fleet", "Power of nodes against their limits"]["targets"])
    without = f'count(({left_out}) and on (instance) accelerator_power_watts{{instance="without"}})'
    ask(tmp_path, series, {f"sum({drawn})": 0.25, f"count({left_out})": 1, without: 1.0}, "15m", groups_of(RECORDING))


def test_estimates_of_work_follow_the_clock_and_end_with_what_they_are_made_of(tmp_path: Path) -> None:
    series = {
        f'accelerator_flops_per_cycle{{{CARD},dtype="bf16"}}': "1000x60",
        f'accelerator_peak_flops{{{CARD},dtype="bf16"}}': "2e12x60",
        f"accelerator_peak_memory_bytes_per_second{{{CARD}}}": "4e12x60",
        f'accelerator_clock_hertz{{{CARD},domain="sm"}}': "2e9x9 4e8x50",
        f'accelerator_clock_hertz{{{CARD},domain="memory"}}': "3e9x60",
        f'accelerator_pipe_active_ratio{{{CARD},pipe="tensor_hmma"}}': "0.5x19 1x9 stale",
        f"accelerator_memory_bandwidth_ratio{{{CARD}}}": "0.25x60",
        f"accelerator_utilization_ratio{{{CARD}}}": "0.9x60",
    }
    expected = {
        "flops_ceiling": {"5m": 2e12, "15m": 4e11, "40m": 4e11},
        "flops": {"5m": 1e12, "15m": 2e11, "25m": 4e11, "40m": None},
        "peak_flops_ratio": {"5m": 0.5, "15m": 0.1, "40m": None},
        "lost_to_clocks_ratio": {"5m": 0, "15m": 0.8},
        "memory_bytes_per_second": {"5m": 1e12, "40m": 1e12},
        "arithmetic_intensity": {"5m": 1, "40m": None},
    }
    questions = [
        Question(f"sum(accelerator:{name}:estimate)", at, {} if value is None else {"{}": value})
        for name, values in expected.items()
        for at, value in values.items()
    ]
    assert_answers(tmp_path, groups_of(RECORDING), [Story(series, questions)])
