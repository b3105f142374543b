"""The board of jobs asked of a real Prometheus: two nodes with pods and jobs, whose shares add up to the cards' own."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from grafana.boards import panels_of
from kits.captures import ROOT
from kits.daemon import COMMAND, Daemon, clean_environment
from kits.fake_kubelet import FakeKubelet
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from kits.pod_resources import listed, pod
from kits.ports import free_address
from kits.prometheus import Prometheus, impatient
from kits.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.needs("cc", "prometheus", "root"),  # a folder of jobs that is not root's is not believed
    pytest.mark.timeout(300),
]
RANGE = "15s"
BOARD = json.loads((ROOT / "grafana" / "dashboards" / "telemetry-jobs.json").read_text())
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
CONFIG = """
[attribution]
enabled = true
kubelet_socket = "{socket}"
job_directory = "{folder}/jobs"
[sources.nvml]
interval = 0.5
[sources.kubelet]
interval = 0.5
[sources.slurm]
interval = 0.5
"""
# Each job's user and cards; two of them share one.
JOBS = {"41": ("alice", "4"), "42": ("bob", "5"), "43": ("alice", "5"), "44": ("carol", "6")}
WATTS = {str(card): 100.0 + 50.0 * card for card in range(8)}
# By their own energy counters, which say something else than their power; those of the other cards stand still.
COUNTED_WATTS = {"0": 120.0, "1": 640.0, "4": 75.0}
SHARES = {
    "ml/one/main": {"0": 0.5},
    "ml/two/main": {"0": 0.5},
    "ml/wide/main": {"1": 1.0, "2": 1.0},
    "ml/short/main": {"3": 1.0},
    "41": {"4": 1.0},
    "42": {"5": 0.5},
    "43": {"5": 0.5},
    "44": {"6": 1.0},
}


@dataclass
class Node:
    """A daemon with a kubelet and a folder of jobs; `uuids` by the devices' labels."""

    daemon: Daemon
    kubelet: FakeKubelet
    folder: Path

    def uuids(self) -> Mapping[str, str]:
        return {device["device"]: device["uuid"] for device in self.daemon.document()["devices"]}

    def job(self, what: str, number: str) -> None:
        user, card = JOBS[number]
        variables = {
            "SLURM_JOB_ID": number,
            "SLURM_JOB_USER": user,
            "SLURM_JOB_ACCOUNT": "physics",
            "SLURM_JOB_GPUS": card,
        }
        command = [*COMMAND, "job", what, "--directory", str(self.folder / "jobs")]
        done = subprocess.run(command, env=clean_environment(variables), capture_output=True, text=True, check=True)
        assert done.stderr == ""


def node(stack: ExitStack, folder: Path, fake: FakeNvml) -> Node:
    folder.mkdir(exist_ok=True)
    (folder / "jobs").mkdir(mode=0o755)
    kubelet = stack.enter_context(FakeKubelet(folder))
    config = CONFIG.format(socket=kubelet.socket, folder=folder)
    daemon = Daemon(folder, config, environment=fake.environment, listen=free_address())
    return Node(stack.enter_context(daemon), kubelet, folder)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Node, Node, Prometheus]]:
    whole = FakeNvml(tmp_path / "whole", load_profile("h100").with_gpus(8))
    for card, watts in WATTS.items():
        whole.field(int(card), 185, watts * 1000)
        whole.field(int(card), 186, watts * 1000)
        whole.processes(int(card), [])
    for card, watts in COUNTED_WATTS.items():
        whole.tell(int(card), "nvmlDeviceGetTotalEnergyConsumption", f"8123456789+{watts * 1000:.0f}")  # millijoules
    with ExitStack() as stack:
        cards = node(stack, tmp_path / "node1", whole)
        parts = node(stack, tmp_path / "node2", FakeNvml(tmp_path / "parts", "h100-mig"))
        addresses = [cards.daemon.address, parts.daemon.address]
        yield cards, parts, stack.enter_context(Prometheus(tmp_path, addresses, impatient(RULES, tmp_path)))


def pods(uuids: Mapping[str, str], *, with_short: bool) -> bytes:
    given = [
        pod("ml", "one", {"main": {"nvidia.com/gpu": (f"{uuids['0']}::0",)}}),
        pod("ml", "two", {"main": {"nvidia.com/gpu": (f"{uuids['0']}::1",)}}),
        pod("ml", "wide", {"main": {"nvidia.com/gpu": (uuids["1"], uuids["2"])}}),
    ]
    short = pod("ml", "short", {"main": {"nvidia.com/gpu": (uuids["3"],)}})
    return listed(*given, short) if with_short else listed(*given)


def expression(title: str, position: int = 0) -> str:
    """A query of the board as Grafana sends it."""
    (panel,) = (panel for panel in panels_of(BOARD) if panel["title"] == title and panel["type"] != "timeseries")
    text = panel["targets"][position]["expr"].replace("$__range", RANGE)
    return re.sub(r'"\$\w+"', '".*"', text)


def numbers_by(prometheus: Prometheus, query: str, label: str) -> dict[str, float]:
    """The numbers of a query by one label of its series."""
    error, series = prometheus.query(query)
    assert error == "", error
    return {item["metric"].get(label, ""): float(item["value"][1]) for item in series}


def one(prometheus: Prometheus, query: str) -> float:
    return numbers_by(prometheus, query, "").get("", 0.0)


def grown(prometheus: Prometheus, counter: str, instance: str) -> dict[str, float]:
    """By how much the counter of each card has grown, summed over its owners."""
    return numbers_by(prometheus, f'sum by (device) (increase({counter}{{instance="{instance}"}}[{RANGE}]))', "device")


def assert_the_board_adds_up(prometheus: Prometheus, instance: str) -> None:
    """What owners have of each card of theirs is all that the card did: by its own energy counter where that grows."""
    busy, by_power, by_counter = (
        grown(prometheus, f"accelerator_{counter}_total", instance)
        for counter in ("busy_seconds", "energy_estimated_joules", "energy_joules")
    )
    energy = {card: (by_counter if card in COUNTED_WATTS else by_power)[card] for card in WATTS}
    for counter, of_cards in (("busy_seconds", busy), ("energy_joules", energy)):
        of_owners = grown(prometheus, f"accelerator_allocation_{counter}_total", instance)
        for card in ("0", "1", "2", "4", "5"):
            assert of_owners[card] == pytest.approx(of_cards[card], rel=0.001), (counter, card)
    # The counters are polled every 10 s, at the same time for all cards.
    for card in ("1", "4"):
        assert energy[card] / energy["0"] == pytest.approx(COUNTED_WATTS[card] / COUNTED_WATTS["0"], rel=0.02)


def settled(prometheus: Prometheus, number: int) -> bool:
    whole = "count(count_over_time(accelerator_allocation_energy_joules_total[20s]) >= 19)"
    return one(prometheus, whole) >= number


def test_the_board_of_two_nodes(nodes: tuple[Node, Node, Prometheus]) -> None:
    cards, parts, prometheus = nodes
    cards.daemon.until(lambda: len(cards.uuids()) == 8)
    uuids = cards.uuids()
    cards.kubelet.list = lambda _context: pods(uuids, with_short=True)
    parts.daemon.until(lambda: {"0", "0:0", "0:1"} == set(parts.uuids()))
    instances = parts.uuids()
    parts.kubelet.list = lambda _context: listed(
        pod("lab", "small", {"main": {"nvidia.com/mig-1g.10gb": (instances["0:0"],)}}),
        pod("lab", "large", {"main": {"nvidia.com/mig-3g.40gb": (instances["0:1"],)}}),
    )
    for number in JOBS:
        cards.job("start", number)
    until(lambda: settled(prometheus, len(SHARES) + 3), "a quarter of a minute of all owners")
    expected = {owner: sum(shares.values()) for owner, shares in SHARES.items()}
    expected |= {"lab/small/main": 1 / 7, "lab/large/main": 3 / 7}
    assert numbers_by(prometheus, expression("Who has cards"), "owner") == pytest.approx(expected)
    assert one(prometheus, expression("Allocated cards")) == pytest.approx(sum(expected.values()))
    assert one(prometheus, expression("Free cards")) == 1.0
    power = numbers_by(prometheus, expression("Who has cards", 2), "owner")
    of_shares = {name: sum(share * WATTS[card] for card, share in shares.items()) for name, shares in SHARES.items()}
    assert {name: power[name] for name in of_shares} == pytest.approx(of_shares, rel=0.001)
    all_power = one(prometheus, "sum(accelerator_power_watts)")
    owned, unallocated = (one(prometheus, expression("Power", position)) for position in (0, 1))
    assert owned + unallocated == pytest.approx(all_power, rel=0.001)
    hours = numbers_by(prometheus, expression("By user"), "user")
    assert {user: hours[user] * 3600 / 15 for user in ("alice", "bob", "carol")} == pytest.approx(
        {"alice": 1.5, "bob": 0.5, "carol": 1.0}, rel=0.05
    )
    assert_the_board_adds_up(prometheus, cards.daemon.address)
    cards.kubelet.list = lambda _context: pods(uuids, with_short=False)
    cards.job("end", "44")
    until(lambda: one(prometheus, expression("Free cards")) == 3.0, "the end of a pod and of a job")
    gone = 'count(accelerator_allocation_ratio{owner=~"ml/short/main|44"}) or vector(0)'
    assert one(prometheus, gone) == 0.0
    assert "carol" in numbers_by(prometheus, expression("By user"), "user"), "who has ended is still in the bill"
