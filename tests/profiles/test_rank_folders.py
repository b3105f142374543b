"""Folders of several ranks: which card each was, who holds up the others, and that nobody's address is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from profiles.made_ranks import PLANTED, answered, ascend_rank, combined, mindspore_cluster
from telemetry_exporters import profile_json
from telemetry_exporters.profile_screen import screen
from telemetry_exporters.style import Colour


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
