"""Folders of several ranks: which card each was, who holds up the others, and that nobody's address is told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from profiles.made_ranks import PLANTED, STEPS, answered, ascend_rank, combined, mindspore_cluster
from telemetry_exporters import profile_json
from telemetry_exporters.profile_screen import screen
from telemetry_exporters.style import Colour
from telemetry_parsers.profiles.combine import Profile


def document(profile: Profile) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(profile_json.render(answered(profile)))
    return told


def test_folders_of_ascend_ranks(tmp_path: Path) -> None:
    for rank in range(4):
        ascend_rank(tmp_path, rank)
    profile = combined(tmp_path)
    assert [member.device.rank for member in profile.members] == [0, 1, 2, 3]
    for member in profile.members:
        device = member.device
        assert device.card.index == device.rank
        assert [step.name for step in device.steps] == [f"step {number}" for number in range(STEPS)]
        assert {(kernel.name, kernel.work, kernel.calls) for kernel in device.kernels} == {
            ("MatMul", "compute", STEPS),
            ("hcom_allReduce", "communication", STEPS),
        }
        assert all(step.split.span_ns == 100_000_000 for step in device.steps)
        assert all(step.split.wait_ns for step in device.steps)
    told = document(profile)
    assert told["ranks"]["straggler"] is None
    assert told["ranks"]["skew_ratio"] == pytest.approx(0.0)


@pytest.mark.parametrize("slow", [0, 2])
def test_the_slow_ascend_rank_is_named(tmp_path: Path, slow: int) -> None:
    for rank in range(4):
        ascend_rank(tmp_path, rank, slow)
    told = document(combined(tmp_path))
    assert told["ranks"]["straggler"]["rank"] == slow
    assert told["ranks"]["straggler"]["excess_ratio"] == pytest.approx(0.2, abs=0.01)
    assert told["verdict"]["cause"] == "straggler"


def test_links_of_a_rank_name_it(tmp_path: Path) -> None:
    for rank in range(4):
        ascend_rank(tmp_path, rank)
    links = combined(tmp_path).links
    assert [(link.kind, link.source, link.target) for link in links] == [
        ("HCCS", str(rank), "all") for rank in range(4)
    ]
    assert {(link.bytes_moved, link.busy_ns) for link in links} == {(STEPS * 20_000_000, STEPS * 1_000_000)}


def test_cards_of_a_cluster_have_the_ranks_of_its_table(tmp_path: Path) -> None:
    mindspore_cluster(tmp_path, nodes=2, cards=2)
    profile = combined(tmp_path)
    assert profile.ranks == 4
    assert [(member.device.rank, member.device.card.index) for member in profile.members] == [
        (0, 0),
        (1, 1),
        (2, 0),
        (3, 1),
    ]
    waits = [member.device.steps[0].split.data_wait_ns for member in profile.members]
    assert waits == [1000 * rank for rank in range(4)]
    assert document(profile)["ranks"]["straggler"] is None


def test_the_slow_rank_of_a_cluster_is_named_by_its_rank(tmp_path: Path) -> None:
    mindspore_cluster(tmp_path, nodes=2, cards=4, slow=6)
    told = document(combined(tmp_path))
    assert told["ranks"]["straggler"]["rank"] == 6
    assert told["verdict"]["cause"] == "straggler"


@pytest.mark.parametrize("missing", ["hccl.json", "host_ips_mapping.txt"])
def test_without_a_rank_table_cards_are_kept_apart_and_have_no_rank(tmp_path: Path, missing: str) -> None:
    mindspore_cluster(tmp_path, nodes=2, cards=2)
    (tmp_path / missing).unlink()
    profile = combined(tmp_path)
    shown = [member.device for member in profile.members]
    assert [(device.rank, device.card.index) for device in shown] == [(None, 0), (None, 0), (None, 1), (None, 1)]
    assert any("no rank table" in remark for remark in profile.remarks)


def test_a_rank_table_of_other_nodes_names_no_rank(tmp_path: Path) -> None:
    mindspore_cluster(tmp_path / "a")
    mindspore_cluster(tmp_path / "b")
    (tmp_path / "a/hccl.json").unlink()
    shutil.copy(tmp_path / "b/hccl.json", tmp_path / "hccl.json")
    ranks = [member.device.rank for member in combined(tmp_path).members]
    assert sorted(ranks, key=str) == [0, 1, 2, 3, None, None, None, None]


@pytest.mark.parametrize("width", [80, 200])
def test_no_address_is_told(tmp_path: Path, width: int) -> None:
    ascend_rank(tmp_path / "ascend", 0)
    mindspore_cluster(tmp_path / "mindspore")
    answer = answered(combined(tmp_path))
    assert PLANTED not in screen(answer, width, Colour.NEVER)
    assert PLANTED not in profile_json.render(answer)
    assert "10.11.12.13" not in repr([member.device for member in answer.profile.members])
