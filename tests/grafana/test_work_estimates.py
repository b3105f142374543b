"""Estimates of achieved work on a real Prometheus, of a real daemon that reads a fake NVML: they follow the clock, end with what they are made of, and exceed nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from kits.captures import ROOT
from kits.daemon import Daemon
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from kits.prometheus import Prometheus, impatient
from kits.waiting import until

pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.needs("cc"), pytest.mark.long]

RULES = ROOT / "deploy" / "prometheus" / "rules" / "telemetry-recording.yml"
SM_CLOCK, GRAPHICS_CLOCK = "nvmlDeviceGetClockInfo.1", "nvmlDeviceGetClockInfo.0"
TENSOR, HMMA, BANDWIDTH = 5, 7, 10


@dataclass
class Node:
    """One simulated H100 behind NVML's interface, and the Prometheus that scrapes it."""

    nvml: FakeNvml
    prometheus: Prometheus

    def clocks(self, megahertz: int) -> None:
        for call in (SM_CLOCK, GRAPHICS_CLOCK):
            self.nvml.tell(0, call, megahertz)

    def pipes(self, percent: float) -> None:
        for metric in (TENSOR, HMMA):
            self.nvml.gpm(0, metric, percent)

    def ask(self, query: str) -> float | None:
        found = self.prometheus.query(query)[1]
        return float(found[0]["value"][1]) if found else None

    def until_about(self, query: str, wanted: float) -> None:
        until(
            lambda: (told := self.ask(query)) is not None and abs(told - wanted) <= wanted * 1e-6,
            f"{query} = {wanted:g}",
        )


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with ExitStack() as stack:
        nvml = FakeNvml(tmp_path_factory.mktemp("nvml"), load_profile("h100").with_gpus(1))
        made = Node(nvml, None)  # type: ignore[arg-type]  # it is put in below
        made.clocks(1755)
        made.pipes(50.0)
        nvml.gpm(0, BANDWIDTH, 25.0)
        folder = tmp_path_factory.mktemp("prometheus")
        daemon = stack.enter_context(Daemon(tmp_path_factory.mktemp("node"), environment=dict(nvml.environment)))
        made.prometheus = stack.enter_context(Prometheus(folder, [daemon.address], impatient([RULES], folder)))
        until(lambda: made.ask("accelerator:flops:estimate"), "an estimate")
        yield made


def test_an_estimate_follows_the_clock_ends_with_its_input_and_exceeds_nothing(node: Node) -> None:
    per_cycle = node.ask('accelerator_flops_per_cycle{dtype="bf16"}')
    assert per_cycle is not None
    node.until_about('accelerator:flops_ceiling:estimate{dtype="bf16"}', per_cycle * 1755e6)
    node.until_about('accelerator:flops:estimate{dtype="bf16"}', per_cycle * 1755e6 * 0.5)
    # A throttled clock brings both down at the same activity; what the peak loses to it is told.
    node.clocks(345)
    node.until_about('accelerator:flops_ceiling:estimate{dtype="bf16"}', per_cycle * 345e6)
    node.until_about('accelerator:flops:estimate{dtype="bf16"}', per_cycle * 345e6 * 0.5)
    # At full activity the estimate is the ceiling of that clock, and no more.
    node.pipes(100.0)
    node.until_about('accelerator:flops:estimate{dtype="bf16"}', per_cycle * 345e6)
    assert node.ask("accelerator:flops:estimate > accelerator:flops_ceiling:estimate * 1.000001") is None
    assert node.ask("accelerator:peak_flops_ratio:estimate > 1") is None
    peak = node.ask("accelerator_peak_memory_bytes_per_second")
    assert peak is not None
    node.until_about("accelerator:memory_bytes_per_second:estimate", peak * 0.25)
    # Without the activity there is no estimate: shares of time stand in for nothing.
    for metric in (TENSOR, HMMA):
        node.nvml.refuse(0, f"gpm.{metric}")
    until(lambda: node.ask("accelerator:flops:estimate") is None, "the end of the estimate")
    assert node.ask("accelerator_utilization_ratio") is not None
    assert node.ask("accelerator:flops_ceiling:estimate") is not None
