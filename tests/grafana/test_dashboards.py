"""The dashboards keep the rules of practice: every panel says what it shows, in a unit, from the chosen data source."""

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
from kits.captures import ROOT
from telemetry_grafana.dashboards import variables
from telemetry_grafana.dashboards.catalogue import PAGES
from telemetry_grafana.dashboards.query import query
from telemetry_grafana.promql import QueryError

FOLDER = ROOT / "grafana" / "dashboards"
UIDS = [page.uid for page in PAGES]
# Tables of what there should be none of say so themselves.
NONE_IS_WELL = {
    *("Firing alerts", "Maintenance", "Partitions"),
    *("Idle holders", "Strangers", "Slowest card of each job", "Names that fit no card"),
}
# What the Prometheus data source reads in an annotation, and the SDK does not know.
OF_THE_SOURCE = {"step", "titleFormat", "textFormat", "tagKeys"}


@cache
def texts() -> dict[str, str]:
    return {page.uid: page.to_json() for page in PAGES}


@cache
def boards() -> dict[str, dict[str, Any]]:
    return {uid: json.loads(text) for uid, text in texts().items()}


def panels(kind: str = "") -> dict[str, dict[str, Any]]:
    """All panels of a kind, or of all kinds, by their board and title."""
    return {
        f"{uid} {panel['title']} {panel['id']}": panel
        for uid, board in boards().items()
        for panel in panels_of(board)
        if kind in ("", panel["type"])
    }


def targets() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    return [(name, panel, target) for name, panel in panels().items() for target in panel["targets"]]


def test_the_files_are_what_the_code_makes() -> None:
    assert {path.stem: path.read_text() for path in FOLDER.glob("*.json")} == texts(), "run make docs"


@pytest.mark.parametrize("uid", UIDS)
def test_the_sdk_reads_back_what_it_wrote(uid: str) -> None:
    board = boards()[uid]
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    for mark, read_back in zip(board["annotations"]["list"], again["annotations"]["list"], strict=True):
        read_back |= {key: mark[key] for key in OF_THE_SOURCE}
    assert again == board


@pytest.mark.parametrize("uid", UIDS)
def test_a_dashboard_imports_everywhere_and_leads_to_the_others(uid: str) -> None:
    board = boards()[uid]
    assert "id" not in board
    assert (board["uid"], board["timezone"], board["refresh"]) == (uid, "browser", "30s")
    assert 36 <= board["schemaVersion"] <= 41
    assert board["description"]
    assert [(link["tags"], link["includeVars"], link["keepTime"]) for link in board["links"]] == [
        (board["tags"], True, True)
    ]
    assert [item["name"] for item in board["templating"]["list"]] == list(variables.NAMES)


@pytest.mark.parametrize("uid", UIDS)
def test_a_choice_narrows_those_after_it(uid: str) -> None:
    choices = [item for item in boards()[uid]["templating"]["list"] if item["type"] == "query"]
    for position, choice in enumerate(choices):
        asked = re.findall(r"=~\"\$(\w+)\"", choice["query"]["query"])
        assert asked == [before["name"] for before in choices[:position]]


@pytest.mark.parametrize(
    ("uid", "few"),
    [("telemetry-fleet", set()), ("telemetry-node", {"node"}), ("telemetry-card", {"node", "vendor", "device"})],
)
def test_a_page_about_one_thing_does_not_offer_all(uid: str, few: set[str]) -> None:
    """Thousands of cards over one another say nothing, and cost the browser and Prometheus minutes."""
    choices = [item for item in boards()[uid]["templating"]["list"] if item["type"] == "query"]
    assert {item["name"] for item in choices if not item.get("includeAll")} == few
    assert all(item["multi"] for item in choices)


@pytest.mark.parametrize("uid", UIDS)
def test_panels_have_ids_of_their_own_and_do_not_overlap(uid: str) -> None:
    board = boards()[uid]
    rows = [item for item in board["panels"] if item["type"] == "row"]
    assert max(Counter(panel["id"] for panel in (*rows, *panels_of(board))).values()) == 1
    for panels in (board["panels"], *(row["panels"] for row in rows if row["collapsed"])):
        cells = Counter(
            (x, y)
            for place in (panel["gridPos"] for panel in panels)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        )
        assert [cell for cell, count in cells.items() if count > 1] == []
        assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize(("uid", "most"), [("telemetry-card", 58), ("telemetry-node", 72), ("telemetry-fleet", 70)])
def test_rows_for_rare_questions_are_closed(uid: str, most: int) -> None:
    """Grafana asks the queries of a closed row when it is opened; the rest is what somebody scrolls through daily."""
    board = boards()[uid]
    assert max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"]) <= most
    closed = [item["collapsed"] for item in board["panels"] if item["type"] == "row"]
    assert closed == sorted(closed)
    assert all(row["panels"] for row in board["panels"] if row.get("collapsed"))


@pytest.mark.parametrize("uid", UIDS)
def test_every_dashboard_marks_what_happened(uid: str) -> None:
    marks = {mark["name"]: mark for mark in boards()[uid]["annotations"]["list"]}
    assert list(marks) == ["Alerts", "Events", "Restarts", "Maintenance"]
    assert all(mark["datasource"] == SOURCE and mark["enable"] for mark in marks.values())
    assert all('=~"$node' in mark["expr"] for mark in marks.values())


def test_a_panel_says_what_it_shows() -> None:
    for name, panel in panels().items():
        assert panel["title"][0].isupper(), name
        assert panel["description"].endswith("."), name
        assert panel["datasource"] == SOURCE, name
        assert panel["fieldConfig"]["defaults"]["unit"], name
        none_is_well = panel["title"] in NONE_IS_WELL
        assert (panel["fieldConfig"]["defaults"]["noValue"] == "not collected") != none_is_well, name
        assert panel["targets"], name


def test_a_query_follows_the_variables_and_makes_up_no_nought() -> None:
    """Nothing collected must not look like nothing wrong."""
    for name, _, target in targets():
        assert target["datasource"] == SOURCE, name
        assert '$job"' in target["expr"], name
        for window in re.findall(r"rate\([^\[]*\[([^\]]*)\]", target["expr"]):
            assert window == "$__rate_interval", name
        joins = re.findall(r"\bon \(([^)]*)\)", target["expr"])
        assert all({"job", "instance"} <= {label.strip() for label in join.split(",")} for join in joins), name
        assert "vector(" not in target["expr"], name


def test_a_legend_names_the_series_and_is_shown() -> None:
    """The SDK hides it unless its caller says otherwise."""
    for name, panel, target in targets():
        assert target["legendFormat"] or panel["type"] not in ("timeseries", "state-timeline"), name
    for name, panel in panels("timeseries").items():
        assert panel["options"]["legend"]["showLegend"], name


def test_a_heat_map_has_a_legend_and_no_more_points_than_grafana_draws() -> None:
    """It draws one point for each two pixels of some six hundred, and a legend for steps of colours only."""
    found = panels("status-history")
    assert found
    for name, panel in found.items():
        assert panel["maxDataPoints"] <= 300, name
        assert panel["options"]["legend"]["showLegend"], name
        assert panel["fieldConfig"]["defaults"]["color"]["mode"] == "thresholds", name
        assert len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) == 6, name


def test_a_table_shows_named_columns_only() -> None:
    for name, panel in panels("table").items():
        by_id = {step["id"]: step["options"] for step in panel["transformations"]}
        shown = by_id["filterFieldsByName"]["include"]["names"]
        values = [column for column in shown if column.startswith("Value")]
        assert {"Time", "job", "id", "__name__"}.isdisjoint(shown), name
        assert set(values) <= set(by_id["organize"]["renameByName"]), name
        # Grafana leaves the query's name out where there is one query only.
        assert len(panel["targets"]) > 1 or values in ([], ["Value", "Value #A"]), name


def test_no_card_is_said_to_tell_nothing_beside_what_it_tells() -> None:
    """An entry "n/a" is for the cards that tell none of what a panel shows; the dashed limits are not what it shows."""
    for name, panel in panels().items():
        queries = {target["refId"]: target["expr"] for target in panel["targets"]}
        for override in panel["fieldConfig"]["overrides"]:
            if any(prop["id"] == "custom.lineStyle" for prop in override["properties"]):
                queries.pop(override["matcher"]["options"])
        silent = [query for query in queries.values() if "0 / 0 * count" in query]
        shown = {metric for query in queries.values() for metric in re.findall(r"accelerator_\w+(?={)", query)}
        told = {metric for query in silent for metric in re.findall(r"accelerator_\w+(?={)", query)}
        assert silent == [] or shown == told, name


def shown_in(table: dict[str, Any]) -> list[str]:
    return next(step for step in table["transformations"] if step["id"] == "filterFieldsByName")["options"]["include"][
        "names"
    ]


def test_a_table_of_cards_leads_to_the_card() -> None:
    tables = [panel for panel in panels("table").values() if "device" in shown_in(panel)]
    assert len(tables) > 5
    for panel in tables:
        links = [
            prop["value"][0]["url"]
            for override in panel["fieldConfig"]["overrides"]
            for prop in override["properties"]
            if prop["id"] == "links"
        ]
        assert len(links) == 1
        assert links[0].startswith(
            "/d/telemetry-card?${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}&"
        )
        assert links[0].endswith("${__url_time_range}")


@pytest.mark.parametrize(
    "text", ["accelerator_heat{$cards}", "accelerator_power_watts{$cards,gpu=~'1'}", "telemetry_devices{$cards}"]
)
def test_a_query_for_what_is_not_there_does_not_build(text: str) -> None:
    with pytest.raises(QueryError):
        query(text)
