"""Ranks on devices: by physical id, on the page and in the document."""

from __future__ import annotations

import re
from dataclasses import replace

from kits import snapshots as kit
from telemetry_exporters.documents import snapshot_json
from telemetry_exporters.prometheus.renderer import text_page
from telemetry_parsers.merge.ranks import NodeRanks, with_ranks

RANKS = NodeRanks("1", {0: 36, 1: 37})


def npu(number, **more):
    return kit.device(number, kit.reading("power_watts", 90.0), vendor="ascend", model="910B3", **more)


def page(*devices, ranks=RANKS):
    return text_page(kit.snapshot(*with_ranks(devices, ranks))).decode()


def series(text):
    return [line for line in text.splitlines() if line.startswith("accelerator_rank_info{")]


def test_rank_37_is_a_card() -> None:
    """By the physical id, which the tool tells, or else the index; rank and server are no facts of the device."""
    text = page(npu(0), npu(1))
    assert not [word for word in ("server", "rank") if word in str(re.findall("accelerator_info{.*", text))]
    assert 'rank="37"' in series(page(replace(npu(0), facts=(("phy_id", "1"),))))[0]
    first, second = series(text)
    assert 'rank="36"' in first
    assert 'device="1"' in second
    assert 'rank="37"' in second
    assert 'server="1"' in second
    assert second.endswith("} 1.0")


def test_the_rank_table_is_believed_before_what_processes_say() -> None:
    of_processes = kit.device(0, kit.reading("rank_info", 1.0, "9"), vendor="ascend", model="910B3")
    (line,) = series(page(of_processes))
    assert 'rank="36"' in line


def test_other_vendors_lost_devices_and_doubtful_ones_have_no_rank() -> None:
    nvidia = kit.device(0, kit.reading("power_watts", 90.0))
    lost = replace(npu(0), up=False)
    assert series(page(nvidia, lost, npu(5))) == []
    assert series(page(npu(0), replace(npu(1), index=0))) == []


def test_the_document_tells_the_rank_like_any_reading() -> None:
    snapshot = kit.snapshot(*with_ranks((npu(1),), RANKS))
    (device,) = snapshot_json.document(snapshot)["devices"]
    assert device["readings"]["rank_info"] == {"37": 1.0}
    assert device["origin"]["rank_info"] == "rank-table"
