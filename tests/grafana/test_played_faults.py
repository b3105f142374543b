"""Pages of simulated nodes on which a fault is played: the alert that each fault sets off, and no other of speed or heat."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from grafana.played_node import Play
from grafana.promtool import Question, Story, assert_told
from grafana.test_full_load import of_full_load
from telemetry_daemon.simulate.faults import Faults

MINUTES = 102
TOLD = re.compile("accelerator_(busy|clock|energy|memory|power|temperature|throttled|utilization)")
TRAINING = Faults(big_jobs=20.0)
# Hygon's tool tells nothing of the memory's work.
PLAYS: Mapping[str, tuple[tuple[Play, ...], str]] = {
    "a job hangs": ((Play("nvidia", 4, 1, Faults(hung_jobs=0.5)),), "AcceleratorsHung"),
    "a card hangs": ((Play("hygon", 4, 2, Faults(hung_cards=0.5)),), "AcceleratorsHung"),
    "a card is slow": ((Play("moorethreads", 4, 4, Faults(slow_cards=0.2)),), "AcceleratorSlowerThanPeers"),
    "a node is slow": (
        (
            *(Play("amd", 2, seed, TRAINING) for seed in range(1, 4)),
            Play("amd", 2, 5, Faults(big_jobs=20.0, slow_nodes=3.0)),
        ),
        "AcceleratorNodeSlow",
    ),
}


@pytest.mark.long
@pytest.mark.needs("promtool")
def test_each_fault_that_is_played_sets_off_its_alert_once(tmp_path: Path) -> None:
    series = {}
    for fault, (plays, _) in PLAYS.items():
        for number, play in enumerate(plays):
            series |= play.series(f'cluster="{fault}",job="j",instance="node{number}"', MINUTES, TOLD)
    answers = {f'{{alertname="{alert}",cluster="{fault}"}}': 1 for fault, (_, alert) in PLAYS.items()}
    fired = 'count by (alertname, cluster) (count by (alertname, cluster, instance) (last_over_time(ALERTS{alertstate="firing"}[2h])))'
    assert_told(tmp_path, of_full_load(), [Story(series, [Question(fired, f"{MINUTES - 1}m", answers)])])
