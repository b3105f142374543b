"""The queries of a public dashboard as Grafana sends them, with the values of its variables."""

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kits.prometheus import ConfiguredPrometheus

_INTERVALS = {
    "__rate_interval": "15s",
    "__interval": "15s",
    "__range": "30s",
    "__range_s": "30",
    "__interval_ms": "15000",
    "interval": "15s",
}
_ROUNDS = 3
_VARIABLE = re.compile(r"\$\{(\w+)(?::\w+)?\}|\$(\w+)|\[\[(\w+)\]\]")
_LABEL_VALUES = re.compile(r"\s*label_values\(\s*(?:(?P<of>.*),)?\s*(?P<label>\w+)\s*\)\s*\Z", re.DOTALL)
_QUERY_RESULT = re.compile(r"\s*query_result\((?P<query>.*)\)\s*\Z", re.DOTALL)


def queries(board: Path, prometheus: ConfiguredPrometheus, given: Mapping[str, str]) -> list[str]:
    """Return each query of the panels once, with the variables' values on that Prometheus or in `given`."""
    document = json.loads(board.read_text())
    chosen = _chosen(document, prometheus, given)
    found = (
        expanded(target["expr"], chosen)
        for panel in _panels(document)
        for target in panel.get("targets", ())
        if target.get("expr")
    )
    return list(dict.fromkeys(found))


def expanded(text: str, chosen: Mapping[str, str]) -> str:
    """Return the text with the variables' values; a variable without a choice stands for everything."""
    return _VARIABLE.sub(lambda match: chosen.get(match[1] or match[2] or match[3], ".*"), text)


def _panels(part: Any) -> Iterator[dict[str, Any]]:
    for panel in part.get("panels", ()):
        yield panel
        yield from _panels(panel)
    for row in part.get("rows", ()):
        yield from _panels(row)


def _chosen(document: dict[str, Any], prometheus: ConfiguredPrometheus, given: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each variable. Variables may refer to later ones, so more than one pass is needed."""
    chosen = {**_INTERVALS, **given}
    for _ in range(_ROUNDS):
        for variable in document.get("templating", {}).get("list", ()):
            if variable["name"] in given:
                continue
            query = variable.get("query", "")
            text = (query.get("query", "") if isinstance(query, dict) else query) or ""
            chosen[variable["name"]] = _value(variable, expanded(text, chosen), prometheus)
    return chosen


def _value(variable: dict[str, Any], text: str, prometheus: ConfiguredPrometheus) -> str:
    if variable["type"] != "query":
        return text.split(",", maxsplit=1)[0].strip()
    values = _values(text, variable.get("regex", ""), prometheus)
    return (
        "|".join(re.escape(value).replace("\\", "\\\\") for value in values)
        if variable.get("multi")
        else "".join(values[:1])
    )


def _values(query: str, regex: str, prometheus: ConfiguredPrometheus) -> list[str]:
    if match := _LABEL_VALUES.match(query):
        selector = f"?{urllib.parse.urlencode({'match[]': match['of'].strip()})}" if match["of"] else ""
        return list(prometheus.ask(f"label/{match['label']}/values{selector}") or ())
    if match := _QUERY_RESULT.match(query):
        # JavaScript writes named groups without a P; the group `value` is the inserted text.
        body = regex.removeprefix("/").rpartition("/")[0] if regex.startswith("/") else regex
        pattern = re.compile(re.sub(r"\(\?<(?=\w)", "(?P<", body) or "(?P<value>.*)")
        lines = map(_line, prometheus.query(match["query"])[1])
        found = (match["value"] for line in lines for match in pattern.finditer(line))
        return list(dict.fromkeys(filter(None, found)))
    return []


def _line(result: dict[str, Any]) -> str:
    """Format a result as Grafana does for `query_result`."""
    labels = ",".join(f'{name}="{value}"' for name, value in result["metric"].items())
    return f"{{{labels}}} {result['value'][1]}"
