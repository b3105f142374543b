"""The terminal's view of everything: every reading or those that are asked for, with their sources, and processes."""

import pytest

from kits import snapshots as kit
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.terminal.table import Chosen, Detail, table
from telemetry_parsers.model import MergedReading, Metric


def lines_of(snapshot, width=0, detail=Detail.BRIEF):
    return table(snapshot, width, Colour.NEVER, detail).splitlines()


def test_a_device_that_is_shown_alone_is_judged_beside_its_peers():
    """Its links are down while those of others of its model are up."""
    power = kit.reading("power_watts", 80.0)
    links = [(kit.reading("link_up", 1.0, "0"), kit.reading("link_up", float(place > 0), "1")) for place in range(8)]
    snapshot = kit.snapshot(*(kit.device(place, power, *each) for place, each in enumerate(links)))
    assert alone(snapshot, "GPU-00000000").splitlines()[3].endswith("1 link down")
    assert "1 link down" in alone(snapshot, "GPU-00000000", Detail.EVERYTHING)
    assert alone(snapshot, "GPU-00000001").endswith("  ok\n")


def alone(snapshot, device_id, detail=Detail.BRIEF):
    return table(snapshot, 0, Colour.NEVER, detail, chosen=Chosen(ids=frozenset({device_id})))


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        (("power*",), {"power", "power cap"}),
        (("accelerator_power_watts",), {"power"}),
        (("*_load1", "util*"), {"utilization", "load1"}),
        (("no_such_metric",), set()),
    ],
)
def test_patterns_choose_metrics_and_not_what_is_said_of_the_devices(patterns, wanted):
    load = MergedReading("telemetry_host_load1", "", 0.25, "host")
    lost = kit.device(1, up=False)
    snapshot = kit.snapshot(kit.full_device(), lost, host=(load,), sources=(kit.source(),))
    text = table(snapshot, 0, Colour.NEVER, Detail.EVERYTHING, chosen=Chosen(patterns=patterns))
    assert {line.split("  ")[1] for line in text.splitlines() if line.endswith((" nvml", " host"))} == wanted
    assert "nvidia 1 NVIDIA H100 80GB HBM3 (lost)\n" in text


def test_a_plugins_metric_is_among_everything():
    metric = Metric("accelerator_acme_tank_ratio", "gauge", "ratio", "Level of the tank.", 0, 1, "tank")
    snapshot = kit.snapshot(kit.device(0, MergedReading("acme_tank_ratio", "left", 0.5, "acme")))
    text = table(snapshot, 0, Colour.NEVER, Detail.EVERYTHING, {metric.key: metric})
    assert "  acme tank left  50 %  acme\n" in text
