"""The dashboards follow good practice: every panel has a description, a unit and the chosen data source."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.boards import SOURCE, panels_of
from telemetry_grafana.dashboards.query import query
from telemetry_grafana.outputs import PAGES
from telemetry_grafana.promql import QueryError

UIDS = [page.uid for page in PAGES]
# Tables that should be empty have a text of their own.
NONE_IS_WELL = {
    *("Firing alerts", "Maintenance", "Partitions"),
    *(
        "Most throttled",
        "Work below the median",
        "Clock below the median",
        "Temperature above the median",
        "Idle owners",
        "Foreign processes",
        "Slowest card of each job",
        "Unknown device names",
    ),
}
# A field of annotations that the Prometheus data source reads, but the SDK does not know.
OF_THE_SOURCE = {"step", "titleFormat", "textFormat", "tagKeys"}


@cache
def texts() -> dict[str, str]:
    return {page.uid: page.to_json() for page in PAGES}


@cache
def boards() -> dict[str, dict[str, Any]]:
    return {uid: json.loads(text) for uid, text in texts().items()}


def panels(kind: str = "") -> dict[str, dict[str, Any]]:
    return {
        f"{uid} {panel['title']} {panel['id']}": panel
        for uid, board in boards().items()
        for panel in panels_of(board)
        if kind in ("", panel["type"])
    }


def targets() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    return [(name, panel, target) for name, panel in panels().items() for target in panel["targets"]]


@pytest.mark.parametrize("uid", UIDS)
def test_the_sdk_reads_back_what_it_wrote(uid: str) -> None:
    board = boards()[uid]
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    for mark, read_back in zip(board["annotations"]["list"], again["annotations"]["list"], strict=True):
        read_back |= {key: mark[key] for key in OF_THE_SOURCE}
    assert again == board


@pytest.mark.parametrize("uid", UIDS)
def test_panels_have_ids_of_their_own_and_do_not_overlap(uid: str) -> None:
    board = boards()[uid]
    rows = [item for item in board["panels"] if item["type"] == "row"]
    assert max(Counter(panel["id"] for panel in (*rows, *panels_of(board))).values()) == 1
    for panels in (board["panels"], *(row["panels"] for row in rows if row["collapsed"])):
        cells = Counter(
            (x, y)
            for position in (panel["gridPos"] for panel in panels)
            for x in range(position["x"], position["x"] + position["w"])
            for y in range(position["y"], position["y"] + position["h"])
        )
        assert [cell for cell, count in cells.items() if count > 1] == []
        assert max(x for x, _ in cells) < 24


def test_each_panel_has_a_description() -> None:
    for name, panel in panels().items():
        assert panel["title"][0].isupper(), name
        assert panel["description"].endswith("."), name
        assert panel["datasource"] == SOURCE, name
        assert panel["fieldConfig"]["defaults"]["unit"], name
        none_is_well = panel["title"] in NONE_IS_WELL
        assert (panel["fieldConfig"]["defaults"]["noValue"] == "not collected") != none_is_well, name
        assert panel["targets"], name


def test_query_uses_the_variables_and_adds_no_zero() -> None:
    """Missing data must not look like a healthy state."""
    for name, _, target in targets():
        assert target["datasource"] == SOURCE, name
        # Tokens of pods, models and jobs are counted by cluster, not by card.
        assert '$job"' in target["expr"] or re.search(
            r'(pod|model_name|job_id):\w+:\w+\{cluster=~"\$cluster"\}', target["expr"]
        ), name
        for window in re.findall(r"rate\([^\[]*\[([^\]]*)\]", target["expr"]):
            assert window == "$__rate_interval", name
        joins = re.findall(r"\bon \(([^)]*)\)", target["expr"])
        assert all({"job", "instance"} <= {label.strip() for label in join.split(",")} for join in joins), name
        assert "vector(" not in target["expr"], name


def test_a_table_shows_named_columns_only() -> None:
    for name, panel in panels("table").items():
        by_id = {step["id"]: step["options"] for step in panel["transformations"]}
        shown = by_id["filterFieldsByName"]["include"]["names"]
        values = [column for column in shown if column.startswith("Value")]
        assert {"Time", "job", "id", "__name__"}.isdisjoint(shown), name
        assert set(values) <= set(by_id["organize"]["renameByName"]), name
        # Grafana omits the query's name if there is only one query.
        assert len(panel["targets"]) > 1 or values in ([], ["Value", "Value #A"]), name


def test_query_for_an_unknown_metric_does_not_build() -> None:
    with pytest.raises(QueryError):
        query("accelerator_heat{$cards}")
