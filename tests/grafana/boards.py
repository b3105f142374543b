"""The dashboards as Grafana reads them, including the panels of collapsed rows."""

from typing import Any

SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def panels_of(board: dict[str, Any]) -> list[dict[str, Any]]:
    everything = [panel for item in board["panels"] for panel in (item, *item.get("panels", ()))]
    return [panel for panel in everything if panel["type"] != "row"]
