"""What panels and sums answer, by promtool: rates of what is polled once a minute, sources that fail, cards with partitions."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from kits.captures import ROOT

RULES = ROOT / "deploy" / "prometheus" / "rules" / "telemetry-recording.yml"
PANELS = {
    (path.stem, panel["title"]): panel
    for path in sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
    for panel in json.loads(path.read_text())["panels"]
}
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


def ask(folder: Path, series: Mapping[str, str], answers: Mapping[str, float], at: str, every: str) -> None:
    """promtool, on the one number that each query answers."""
    asked = [
        {"expr": query, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}
        for query, value in answers.items()
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": every, "input_series": given, "promql_expr_test": asked}
    file = folder / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def sent(target: Mapping[str, str]) -> str:
    """A panel's query for all cards as Grafana sends it, over an hour: the window of rates is four of the least steps."""
    least = re.fullmatch(r"([0-9]+)m", target.get("interval", ""))
    window = 4 * max(SCRAPED_EVERY, 60 * int(least[1]) if least else 0)
    text = target["expr"].replace("$__rate_interval", f"{window}s").replace("$__range", "1h")
    return re.sub(r'"\$[a-z]+"', '".*"', text)


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
