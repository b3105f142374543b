"""The rules that map dcgm-exporter's names of both generations: each series exists once under each name, and ends with its source."""

from pathlib import Path

import pytest

from grafana.promtool import Question, Story, assert_answers, groups_of
from kits.captures import ROOT
from telemetry_exporters.prometheus.compat import dcgm, load_table

pytestmark = pytest.mark.needs("promtool")

GROUPS = groups_of(ROOT / "deploy" / "prometheus" / "optional" / "dcgm-names.yml")
OLD = '{gpu="0",Hostname="n1",DCGM_FI_DRIVER_VERSION="535.1"}'
NEW = '{gpu="1",hostname="n2",DCGM_FI_SYSTEM_DRIVER_VERSION="600.1"}'
BOTH_OLD = '{gpu="0",Hostname="n1",hostname="n1",DCGM_FI_DRIVER_VERSION="535.1",DCGM_FI_SYSTEM_DRIVER_VERSION="535.1",renamed="yes"}'
BOTH_NEW = BOTH_OLD.replace("n1", "n2").replace("535.1", "600.1").replace('gpu="0"', 'gpu="1"')


def test_each_name_has_the_value_of_the_other_generation(tmp_path: Path) -> None:
    """A node of each generation; the sources end after ten minutes, and the rules with them."""
    series, questions = {}, []
    for before, after, factor in dcgm.DEFAULT_RENAMES:
        old, new = f"DCGM_FI_{before}", f"DCGM_FI_{after}"
        series |= {f"{old}{OLD}": "8x10 stale", f"{new}{NEW}": "8x10 stale"}
        wanted = {new: (BOTH_OLD, 8 * factor), old: (BOTH_NEW, 8 / factor)}
        for name, (labels, value) in wanted.items():
            # Relative to the number by hand, in millionths.
            query = f'round({name}{{renamed="yes"}} / {value!r} * 1e6)'
            questions += [Question(query, "8m", {labels: 1e6}), Question(f"{name}", "20m", {})]
    assert_answers(tmp_path, GROUPS, [Story(series, questions)])


def test_capacity_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    parts = {
        f"DCGM_FI_DEV_FB_{part}{OLD}": f"{value}x10" for part, value in (("FREE", 1), ("USED", 2), ("RESERVED", 3))
    }
    series = parts | {f"DCGM_FI_DEV_FB_CAPACITY_BYTES{NEW}": f"{5 << 20}x10"}
    questions = [
        Question('DCGM_FI_DEV_FB_CAPACITY_BYTES{renamed="yes"} * 1', "8m", {BOTH_OLD: 6 << 20}),
        Question('DCGM_FI_DEV_FB_TOTAL{renamed="yes"} * 1', "8m", {BOTH_NEW: 5}),
    ]
    assert_answers(tmp_path, GROUPS, [Story(series, questions)])


def test_rules_have_the_names_of_the_pages() -> None:
    rules = {rule["record"] for group in GROUPS for rule in group["rules"]}
    pages = {f"DCGM_FI_{row.name}" for version in ("4.8", "4.9") for row in load_table("dcgm-exporter", version).rows}
    missing = {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND"}
    assert rules - pages == missing
    assert len(rules) == 2 * len(dcgm.DEFAULT_RENAMES) + 2
