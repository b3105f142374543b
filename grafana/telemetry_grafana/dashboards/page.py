"""Builds a dashboard from rows of panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard, DashboardLink, DatasourceVariable, QueryVariable, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    AnnotationQuery,
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from telemetry_grafana.dashboards.panels import DATA_SOURCE, Panel
from telemetry_grafana.dashboards.query import SELECTORS, query
from telemetry_grafana.promql import NODE

_ALL = VariableOption(text="All", value="$__all", selected=True)
# (name, label, series). The series exist for every node, or for every card of every vendor.
_VARIABLES = (
    ("cluster", "Cluster", "telemetry_build_info"),
    ("job", "Job", 'telemetry_build_info{cluster=~"$cluster"}'),
    ("node", "Node", 'telemetry_build_info{cluster=~"$cluster",job=~"$job"}'),
    ("vendor", "Vendor", f"accelerator_up{{{SELECTORS['nodes']}}}"),
    ("model", "Model", f"accelerator_up{{{SELECTORS['vendors']}}}"),
    ("device", "Device", f'accelerator_up{{{SELECTORS["vendors"]},model=~"$model"}}'),
)
_SOURCE = DatasourceVariable("datasource").label("Data source").type("prometheus").hide(VariableHide.DONT_HIDE)
_LABELS_BY_VARIABLE = {"node": "instance"}


def _build_variable(name: str, label: str, series: str, *, with_all: bool) -> QueryVariable:
    variable = (
        QueryVariable(name)
        .label(label)
        .datasource(DATA_SOURCE)
        .query({"query": f"label_values({series}, {_LABELS_BY_VARIABLE.get(name, name)})", "refId": f"variable-{name}"})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
        .multi(True)
    )
    # `.*` also matches a missing label, such as `model` of an unknown model.
    return variable.include_all(True).all_value(".*").current(_ALL) if with_all else variable


_ANNOTATION_STEP = "60s"
# Annotations compare a value with the last value of the previous hour, so an outage does not repeat them.
_PREVIOUS_HOUR = "[1h] offset $__interval"


class _Annotation(AnnotationQuery):
    """An annotation from Prometheus, with settings that the SDK does not support."""

    def __init__(self, name: str, color: str, expression: str, title: str, text: str) -> None:
        super().__init__(name=name, datasource=DATA_SOURCE, icon_color=color, expr=expression)
        self._extras = {"step": _ANNOTATION_STEP, "titleFormat": title, "textFormat": text, "tagKeys": "instance"}

    def to_json(self) -> dict[str, object]:
        """Return the annotation as JSON, including the settings that the SDK does not support."""
        return {**super().to_json(), **self._extras}


_FIRING = 'ALERTS{$alerted,alertstate="firing"SEVERITY}'
_EVENT = "accelerator_event_last_timestamp_seconds{$cards}"
_STARTED = "process_start_time_seconds{$nodes}"
# (name, colour, query, title, text). Grafana replaces `{{label}}` in title and text.
_ANNOTATIONS = (
    (
        "Alerts",
        "red",
        # Only the start of an alert is marked, because regions of several alerts would hide the lines.
        f"{_FIRING} unless {_FIRING} offset $__interval",
        "{{alertname}}",
        "{{severity}} {{instance}} {{vendor}} {{device}}",
    ),
    (
        "Events",
        "orange",
        f"{_EVENT} unless {_EVENT} == last_over_time({_EVENT}{_PREVIOUS_HOUR}) and on ({NODE}) last_over_time(telemetry_build_info{{$nodes}}{_PREVIOUS_HOUR})",
        "{{code}}",
        "{{instance}} {{vendor}} {{device}}",
    ),
    (
        "Restarts",
        "blue",
        f"{_STARTED} != last_over_time({_STARTED}{_PREVIOUS_HOUR}) and on ({NODE}) telemetry_build_info{{$nodes}}",
        "The daemon was restarted",
        "{{instance}}",
    ),
    ("Maintenance", "purple", "telemetry_maintenance{$nodes}", "Maintenance", "{{instance}}"),
)


def _annotations(*, includes_warnings: bool) -> list[AnnotationQuery]:
    # The many annotations for the warnings of a whole fleet would hide the panels.
    severity = "" if includes_warnings else ',severity="critical"'
    return [
        _Annotation(name, color, query(promql.replace("SEVERITY", severity)).expression, title, text)
        for name, color, promql, title, text in _ANNOTATIONS
    ]


_TAG = "device-telemetry"
_LINK_TO_OTHER_DASHBOARDS = (
    DashboardLink("Device telemetry")
    .type(DashboardLinkType.DASHBOARDS)
    .tags([_TAG])
    .as_dropdown(True)
    .include_vars(True)
    .keep_time(True)
)
_GRID_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Page:
    """A dashboard. Variables in `preselected` start with a single value instead of All."""

    uid: str
    title: str
    description: str
    sections: Mapping[str, Sequence[Panel]]
    preselected: frozenset[str] = field(default=frozenset())
    collapsed: Mapping[str, Sequence[Panel]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the file that Grafana imports or provisions."""
        return JSONEncoder(sort_keys=True, indent=2).encode(self._build_dashboard()) + "\n"

    def _build_dashboard(self) -> Any:
        builder = (
            Dashboard(self.title)
            .uid(self.uid)
            .description(self.description)
            .tags([_TAG])
            .time("now-6h", "now")
            .refresh("30s")
            .timezone("browser")
            .tooltip(DashboardCursorSync.CROSSHAIR)
            .editable()
            .link(_LINK_TO_OTHER_DASHBOARDS)
            .with_variable(_SOURCE)
        )
        for name, label, series in _VARIABLES:
            builder = builder.with_variable(_build_variable(name, label, series, with_all=name not in self.preselected))
        dashboard = builder.build()
        dashboard.annotations.list_val = _annotations(includes_warnings=bool(self.preselected))
        dashboard.panels = list(self._build_rows())
        return dashboard

    def _build_rows(self) -> Iterator[Any]:
        ids = count(1)
        top = 0
        for title, panels in self.sections.items():
            yield _build_row(title, next(ids), top).build()
            top += 1
            for panel, position in _place_panels(panels, top):
                yield panel.builder.id(next(ids)).grid_pos(position).build()
                top = max(top, position.y + position.h)
        for title, panels in self.collapsed.items():
            row = _build_row(title, next(ids), top).collapsed(True)
            top += 1
            for panel, position in _place_panels(panels, top):
                row = row.with_panel(panel.builder.id(next(ids)).grid_pos(position))
            yield row.build()


def _build_row(title: str, row_id: int, top: int) -> Row:
    return Row(title).id(row_id).grid_pos(GridPos(h=1, w=_GRID_WIDTH, x=0, y=top))


def _place_panels(panels: Sequence[Panel], top: int) -> Iterator[tuple[Panel, GridPos]]:
    """Yield each panel with its position on the page. Panels fill lines from left to right."""
    x = line_height = 0
    for panel in panels:
        if x + panel.width > _GRID_WIDTH:
            top, x, line_height = top + line_height, 0, 0
        yield panel, GridPos(h=panel.height, w=panel.width, x=x, y=top)
        x, line_height = x + panel.width, max(line_height, panel.height)
