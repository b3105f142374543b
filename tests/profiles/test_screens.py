"""Screens of 80 and of 200 columns, byte for byte: `--update-golden` writes them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiles.made_ranks import PLANTED, answered, ascend_rank, combined, mindspore_cluster
from profiles.test_first_collective import WAITING
from profiles.test_traces import NOW, event, kineto, step_of_torch
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.text import display_width
from telemetry_profile import profile_document
from telemetry_profile.profile_screen import LINES, render_screen

GOLDEN = Path(__file__).parent / "screens"
LONG = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>>(int, 核心, \x1b[31mred\u202e)"


def traces(folder: Path, events: list[dict[str, Any]], **keys: Any) -> None:
    (folder / "trace.json").write_text(json.dumps(kineto(events, **keys)))


def one_card(folder: Path) -> None:
    traces(folder, step_of_torch())


def many_kernels(folder: Path) -> None:
    runs = [event("kernel", f"{LONG}{n}", NOW + 1000 * n, 900 - n, args={"grid": [4096, 16, 1]}) for n in range(40)]
    traces(folder, [*step_of_torch(), *runs])


def first_collective(folder: Path) -> None:
    traces(folder, WAITING)


def slow_rank(folder: Path) -> None:
    for rank in range(4):
        ascend_rank(folder, rank, slow=2)


def equal_ranks(folder: Path) -> None:
    for rank in range(4):
        ascend_rank(folder, rank)


def cluster(folder: Path) -> None:
    mindspore_cluster(folder, nodes=2, cards=2)


def slow_rank_of_a_cluster(folder: Path) -> None:
    mindspore_cluster(folder, nodes=2, cards=4, slow=6)


def no_rank_table(folder: Path) -> None:
    mindspore_cluster(folder)
    (folder / "hccl.json").unlink()


def no_places_of_nodes(folder: Path) -> None:
    mindspore_cluster(folder)
    (folder / "host_ips_mapping.txt").unlink()


def rank_table_of_other_nodes(folder: Path) -> None:
    mindspore_cluster(folder / "a")
    mindspore_cluster(folder / "b")
    (folder / "a/hccl.json").unlink()
    shutil.copy(folder / "b/hccl.json", folder / "hccl.json")


def sums(folder: Path) -> None:
    rows = f'0,MatMul,AI_CORE,12,600.5,51\n0,"{LONG}",AI_CORE,3,20.25,9\n0,cut\n'
    (folder / "op_statistic.csv").write_text(f"Device_id,OP Type,Core Type,Count,Total Time(us),Max Time(us)\n{rows}")


MADE: dict[str, Callable[[Path], None]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        one_card,
        many_kernels,
        first_collective,
        equal_ranks,
        slow_rank,
        cluster,
        slow_rank_of_a_cluster,
        no_rank_table,
        no_places_of_nodes,
        rank_table_of_other_nodes,
        sums,
    )
}


@pytest.mark.parametrize("name", MADE)
def test_screens_match_golden_files(tmp_path: Path, assert_golden: Callable[[Path, str], None], name: str) -> None:
    MADE[name](tmp_path)
    answer = answered(combined(tmp_path))
    for width in (80, 200):
        shown = render_screen(answer, width, Colour.NEVER)
        lines = shown.splitlines()
        assert len(lines) <= LINES
        assert max(display_width(line) for line in lines) <= width
        assert PLANTED not in shown
        assert_golden(GOLDEN / f"{name}-{width}.txt", shown)
    assert PLANTED not in profile_document.render(answer)
    assert "10.11.12.13" not in repr([member.device for member in answer.profile.members])
    assert_golden(GOLDEN / f"{name}.json", profile_document.render(answer))
