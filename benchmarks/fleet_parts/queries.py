"""The cost of queries on a Prometheus with measured data: the queries of an opened dashboard, and those of a group of rules."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from fleet_parts.nodes import STEP_SECONDS
from fleet_parts.series import table
from fleet_parts.servers import JOB, ROOT, RULES, Server
from fleet_parts.serving import put_targets
from telemetry_exporters.judgement.thresholds import values_in_promql

BOARDS = ROOT / "grafana" / "dashboards"
# A panel of a 1,600 px wide screen shows a point each 15 s for six hours.
_POINTS = 1440
_ANNOTATION_POINTS = 360
_VARIABLE = re.compile(r'"\$([a-z]+)(\|?)"')
_SETTLE_SECONDS = 10.0


@dataclass(frozen=True)
class Query:
    """A query over all of the data with this number of points, or an instant query at its end if the number is 0."""

    title: str
    expression: str
    points: int = 0


@dataclass(frozen=True)
class QueryCost:
    """The cost of a query."""

    title: str
    cpu_seconds: float
    seconds: float


@dataclass(frozen=True)
class QueriedRange:
    """The queried data: end, length in seconds, speed relative to real time, and the labels of one card."""

    end: float
    seconds: float
    speed: float
    one_card: Mapping[str, str]


def stop_scraping(server: Server, interval_seconds: float, seconds: float) -> QueriedRange:
    """Stop the scrapes, and return the range of the data."""
    cards = [card["metric"] for card in server.query(f'accelerator_up{{job="{JOB}"}}')]
    # NVIDIA's cards have the most series.
    card = max(cards, key=lambda card: (card["vendor"] == "nvidia", card["instance"], card["device"]))
    end = time.time()
    put_targets(server.targets_file, [])
    time.sleep(_SETTLE_SECONDS)  # running scrapes end, so they do not disturb the measured queries
    return QueriedRange(end, seconds, STEP_SECONDS / interval_seconds, {**card, "node": card["instance"]})


def board_costs(server: Server, queried: QueriedRange) -> str:
    """Return a table with the cost of opening each dashboard. All cards are selected, or one card if the dashboard requires it."""
    rows = []
    for file in sorted(BOARDS.glob("*.json")):
        costs = [_run(server, query, queried) for query in _board_queries(json.loads(file.read_text("utf-8")), queried)]
        rows.append([file.stem, len(costs), *_total_cells(costs)])
    return table(["board", "queries", "CPU", "time, one after the other", "the most expensive, by CPU"], rows)


def rule_costs(server: Server, queried: QueriedRange) -> str:
    """Return a table of the cost of one evaluation of each group."""
    rows = []
    # Rules that average half an hour of busy cards must use the existing data.
    busy_condition = f">= {values_in_promql()['busy_minutes']}"
    files = sorted(RULES.glob("*.yml"))
    for group in (group for file in files for group in yaml.safe_load(file.read_text())["groups"]):
        rules = [(rule.get("record") or rule["alert"], rule["expr"]) for rule in group["rules"]]
        costs = [_run(server, Query(name, promql.replace(busy_condition, ">= 1")), queried) for name, promql in rules]
        every = group.get("interval", f"{STEP_SECONDS:.0f}s")
        rows.append([group["name"], every, len(costs), *_total_cells(costs)])
    return table(["group", "every", "rules", "CPU", "time, one after the other", "the most expensive, by CPU"], rows)


def _total_cells(costs: Sequence[QueryCost]) -> tuple[str, str, str]:
    costliest = max(costs, key=lambda cost: cost.cpu_seconds)
    cpu, seconds = sum(cost.cpu_seconds for cost in costs), sum(cost.seconds for cost in costs)
    return f"{cpu:.2f} s", f"{seconds:.1f} s", f"{costliest.title}: {costliest.cpu_seconds:.2f} s"


def _board_queries(board: Mapping[str, Any], queried: QueriedRange) -> Iterator[Query]:
    """Yield the queries that Grafana sends: annotations, and the panels of open rows."""
    single_value_names = {
        variable["name"] for variable in board["templating"]["list"] if not variable.get("includeAll")
    }
    chosen = {name: queried.one_card[name] for name in single_value_names if name in queried.one_card}
    for annotation in (annotation for annotation in board["annotations"]["list"] if annotation.get("expr")):
        yield Query(
            f"marks of {annotation['name']}", _fill_variables(annotation["expr"], chosen, queried), _ANNOTATION_POINTS
        )
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            points = 0 if target.get("instant") else min(_POINTS, panel.get("maxDataPoints", _POINTS))
            yield Query(panel["title"], _fill_variables(target["expr"], chosen, queried), points)


def _fill_variables(expression: str, chosen: Mapping[str, str], queried: QueriedRange) -> str:
    """Return the query with Grafana's variables filled in. Time windows are shortened, because the samples are denser."""
    windows = {
        "rate_interval": 4 * STEP_SECONDS / queried.speed,
        "range": queried.seconds,
        "interval": queried.seconds / _POINTS,
    }
    text = expression
    for name, seconds in windows.items():
        text = text.replace(f"$__{name}", f"{seconds * 1000:.0f}ms")
    return _VARIABLE.sub(lambda match: json.dumps(chosen.get(match[1], ".*") + match[2]), text)


def _run(server: Server, query: Query, queried: QueriedRange) -> QueryCost:
    parameters: dict[str, object] = {"query": query.expression, "time": queried.end}
    if query.points:
        times = {"start": queried.end - queried.seconds, "end": queried.end, "step": queried.seconds / query.points}
        parameters = {"query": query.expression, **times}
    path = f"/api/v1/{'query_range' if query.points else 'query'}"
    before, start = server.usage().cpu_seconds, time.monotonic()
    title = query.title
    try:
        server.fetch(path, urllib.parse.urlencode(parameters).encode())
    except urllib.error.HTTPError as error:  # A query with too many samples fails, which is a result.
        with error:
            title += f" ({error.code})"
    return QueryCost(title, server.usage().cpu_seconds - before, time.monotonic() - start)
