"""Cards of all vendors in one node: one page, the same metrics, and a fault of one vendor does not affect others."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.mixed_node import DEVICES, TOOLS, MixedNode
from kits.captures import ROOT
from kits.daemon import Daemon
from kits.page_lint import complaints
from telemetry_parsers.vendors import VENDOR_BY_WORD

sys.path.insert(0, str(ROOT / ".ci"))
import vendor_matrix

pytestmark = [pytest.mark.installed, pytest.mark.needs("cc")]

CORE = frozenset({*vendor_matrix.CORE, "memory_used_ratio"})
# All core readings except those that no known output of the vendor's tools contains.
WANTED = {vendor: CORE - {key for key, _ in VENDOR_BY_WORD[vendor].missing_metrics} for vendor in DEVICES}
Shown = dict[str, list[tuple[str, frozenset[str]]]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> MixedNode:
    return MixedNode(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, node: MixedNode) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon"), node.config, environment=node.environment) as daemon:
        daemon.until(lambda: is_whole(shown(daemon)))
        daemon.until(lambda: daemon.get("/readyz")[0] == 200)
        yield daemon


def shown(running: Daemon) -> Shown:
    found: Shown = {}
    for device in running.document()["devices"]:
        if device["up"]:
            found.setdefault(device["vendor"], []).append((device["id"], CORE & device["readings"].keys()))
    return found


def is_whole(found: Shown) -> bool:
    return all([keys for _, keys in found.get(vendor, ())] == [WANTED[vendor]] * DEVICES[vendor] for vendor in DEVICES)


def test_all_vendors_share_one_page(running: Daemon) -> None:
    assert complaints(running.page().encode()) == []
    found = shown(running)
    origins: dict[str, Any] = {
        device["vendor"]: device["origin"]["temperature_celsius"] for device in running.document()["devices"]
    }
    assert {vendor: len(devices) for vendor, devices in found.items()} == DEVICES
    assert len({identity for devices in found.values() for identity, _ in devices}) == sum(DEVICES.values())
    assert origins.items() >= {vendor: tool.source for vendor, tool in TOOLS.items()}.items()


@pytest.mark.parametrize(
    ("vendor", "fault"),
    [
        ("moorethreads", "garbage"),
        ("kunlunxin", "missing"),
        *(
            pytest.param(vendor, fault, marks=pytest.mark.long)
            for vendor in TOOLS
            for fault in ("garbage", "hangs", "missing")
        ),
    ],
)
def test_fault_of_a_vendor_stays_there(running: Daemon, node: MixedNode, vendor: str, fault: str) -> None:
    before = shown(running)
    node.damage(vendor, fault)
    running.until(lambda: not any(keys for _, keys in shown(running).get(vendor, ())))
    # A tool of another vendor may time out on a busy machine, but is read again during the fault.
    others = before.keys() - {vendor}
    running.until(lambda: all(shown(running).get(other) == before[other] for other in others))
    node.mend(vendor)
    node.tools.end(TOOLS[vendor].name)  # hy-smi is not killed at its deadline: here the driver finally releases it
    running.until_state(TOOLS[vendor].source, "ok")
    running.until(lambda: shown(running).get(vendor) == before[vendor])
