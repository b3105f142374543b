"""Marks over all panels of a dashboard: firing alerts, events of cards, restarts of the daemon, maintenance."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.models import dashboard

from telemetry_grafana.dashboards.query import NODE, query
from telemetry_grafana.dashboards.variables import DATA_SOURCE

_STEP = "60s"
# What was there before this step; over an hour, so that a daemon or Prometheus that was away tells no news twice.
_BEFORE = "[1h] offset $__interval"


class Mark(dashboard.AnnotationQuery):
    """An annotation as the Prometheus data source reads it; the SDK lacks these settings of it."""

    def __init__(self, name: str, color: str, expression: str, title: str, text: str) -> None:
        super().__init__(name=name, datasource=DATA_SOURCE, icon_color=color, expr=expression)
        self._format = {"step": _STEP, "titleFormat": title, "textFormat": text, "tagKeys": "instance"}

    def to_json(self) -> dict[str, object]:
        """The annotation with the settings of the data source."""
        return {**super().to_json(), **self._format}


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of mark; Grafana fills in the labels of what the query finds in title and text."""

    name: str
    color: str
    query: str
    title: str
    text: str


_FIRING = 'ALERTS{$alerted,alertstate="firing"SEVERITY}'
_EVENT = "accelerator_event_last_timestamp_seconds{$cards}"
_STARTED = "process_start_time_seconds{$nodes}"
_KINDS = (
    _Kind(
        "Alerts",
        "red",
        # Where it begins: regions of several alerts would lie over one another until no line is seen.
        f"{_FIRING} unless {_FIRING} offset $__interval",
        "{{alertname}}",
        "{{severity}} {{instance}} {{vendor}} {{device}}",
    ),
    _Kind(
        "Events",
        "orange",
        f"{_EVENT} unless {_EVENT} == last_over_time({_EVENT}{_BEFORE})"
        f" and on ({NODE}) last_over_time(telemetry_build_info{{$nodes}}{_BEFORE})",
        "{{code}}",
        "{{instance}} {{vendor}} {{device}}",
    ),
    _Kind(
        "Restarts",
        "blue",
        f"{_STARTED} != last_over_time({_STARTED}{_BEFORE}) and on ({NODE}) telemetry_build_info{{$nodes}}",
        "The daemon was started again",
        "{{instance}}",
    ),
    _Kind("Maintenance", "purple", "telemetry_maintenance{$nodes}", "Maintenance", "{{instance}}"),
)


# Of a whole fleet the warnings would be a curtain.
OF_FEW, OF_ALL = "", ',severity="critical"'


def marks(severity: str) -> list[dashboard.AnnotationQuery]:
    """The marks of a dashboard, with the alerts of few nodes or of all; each can be switched off at its head."""
    asked = [(kind, query(kind.query.replace("SEVERITY", severity)).expression) for kind in _KINDS]
    return [Mark(kind.name, kind.color, expression, kind.title, kind.text) for kind, expression in asked]
