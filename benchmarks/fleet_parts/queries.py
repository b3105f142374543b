"""What queries take of a Prometheus that was just watched: those of a board that is opened, and those of a group of rules."""

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
from telemetry_exporters.judgement.thresholds import in_promql

BOARDS = ROOT / "grafana" / "dashboards"
# Six hours on a panel as wide as a screen of 1,600 px: a point each 15 s.
_POINTS = 1440
_MARKS_POINTS = 360
_VARIABLE = re.compile(r'"\$([a-z]+)(\|?)"')
_SETTLED_SECONDS = 10.0


@dataclass(frozen=True)
class Asked:
    """A query at the end of the data: over all of it in so many points, or now if they are none."""

    title: str
    expression: str
    points: int = 0


@dataclass(frozen=True)
class Taken:
    """What a query took."""

    title: str
    cpu_seconds: float
    seconds: float


@dataclass(frozen=True)
class Data:
    """What there is to ask: until when, over how many seconds, and how much faster than in life it came."""

    end: float
    seconds: float
    speed: float
    one_card: Mapping[str, str]


def still(server: Server, interval_seconds: float, seconds: float) -> Data:
    """What was watched, once nothing is scraped any more."""
    cards = [each["metric"] for each in server.query(f'accelerator_up{{job="{JOB}"}}')]
    # Of all vendors' cards, NVIDIA's tell most.
    card = max(cards, key=lambda each: (each["vendor"] == "nvidia", each["instance"], each["device"]))
    end = time.time()
    put_targets(server.targets_file, [])
    time.sleep(_SETTLED_SECONDS)
    return Data(end, seconds, STEP_SECONDS / interval_seconds, {**card, "node": card["instance"]})


def of_boards(server: Server, data: Data) -> str:
    """A table: what each board takes when it is opened with all cards, or with one node or card where it shows one."""
    rows = []
    for file in sorted(BOARDS.glob("*.json")):
        taken = [_ask(server, each, data) for each in _opened(json.loads(file.read_text("utf-8")), data)]
        dearest = max(taken, key=lambda each: each.cpu_seconds)
        rows.append([file.stem, len(taken), *_sums(taken), f"{dearest.title}: {dearest.cpu_seconds:.2f} s"])
    return table(["board", "queries", "CPU", "time, one after the other", "the dearest, by CPU"], rows)


def of_rules(server: Server, data: Data) -> str:
    """A table: what each group takes when it is evaluated once."""
    rows = []
    # What wants half an hour of busy cards is content with what there was.
    patience = f">= {in_promql()['busy_minutes']}"
    for group in (each for file in sorted(RULES.glob("*.yml")) for each in yaml.safe_load(file.read_text())["groups"]):
        asked = [Asked(rule.get("record") or rule["alert"], rule["expr"]) for rule in group["rules"]]
        taken = [_ask(server, Asked(each.title, each.expression.replace(patience, ">= 1")), data) for each in asked]
        dearest = max(taken, key=lambda each: each.cpu_seconds)
        every = group.get("interval", f"{STEP_SECONDS:.0f}s")
        rows.append([group["name"], every, len(taken), *_sums(taken), f"{dearest.title}: {dearest.cpu_seconds:.2f} s"])
    return table(["group", "every", "rules", "CPU", "time, one after the other", "the dearest, by CPU"], rows)


def _sums(taken: Sequence[Taken]) -> tuple[str, str]:
    return f"{sum(each.cpu_seconds for each in taken):.2f} s", f"{sum(each.seconds for each in taken):.1f} s"


def _opened(board: Mapping[str, Any], data: Data) -> Iterator[Asked]:
    """What Grafana asks for: marks, and the panels of open rows."""
    few = {each["name"] for each in board["templating"]["list"] if not each.get("includeAll")}
    chosen = {name: data.one_card[name] for name in few if name in data.one_card}
    for mark in (each for each in board["annotations"]["list"] if each.get("expr")):
        yield Asked(f"marks of {mark['name']}", _filled(mark["expr"], chosen, data), _MARKS_POINTS)
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            points = 0 if target.get("instant") else min(_POINTS, panel.get("maxDataPoints", _POINTS))
            yield Asked(panel["title"], _filled(target["expr"], chosen, data), points)


def _filled(expression: str, chosen: Mapping[str, str], data: Data) -> str:
    """The text as Grafana sends it; windows that it sets are as much shorter as the samples are closer together."""
    windows = {
        "rate_interval": 4 * STEP_SECONDS / data.speed,
        "range": data.seconds,
        "interval": data.seconds / _POINTS,
    }
    text = expression
    for name, seconds in windows.items():
        text = text.replace(f"$__{name}", f"{seconds * 1000:.0f}ms")
    return _VARIABLE.sub(lambda found: json.dumps(chosen.get(found[1], ".*") + found[2]), text)


def _ask(server: Server, asked: Asked, data: Data) -> Taken:
    form: dict[str, object] = {"query": asked.expression, "time": data.end}
    if asked.points:
        times = {"start": data.end - data.seconds, "end": data.end, "step": data.seconds / asked.points}
        form = {"query": asked.expression, **times}
    path = f"/api/v1/{'query_range' if asked.points else 'query'}"
    before, start = server.usage().cpu_seconds, time.monotonic()
    title = asked.title
    try:
        server.fetch(path, urllib.parse.urlencode(form).encode())
    except urllib.error.HTTPError as error:  # such as one that would load too many samples: that is a result, too
        with error:
            title += f" ({error.code})"
    return Taken(title, server.usage().cpu_seconds - before, time.monotonic() - start)
