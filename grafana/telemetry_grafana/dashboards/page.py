"""A dashboard: its variables, annotations, links to the other dashboards, and rows of panels."""

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
# Each reads a series that every node, or every card of every vendor, has.
_VARIABLES = (
    ("cluster", "Cluster", "telemetry_build_info"),
    ("job", "Job", 'telemetry_build_info{cluster=~"$cluster"}'),
    ("node", "Node", 'telemetry_build_info{cluster=~"$cluster",job=~"$job"}'),
    ("vendor", "Vendor", f"accelerator_up{{{SELECTORS['nodes']}}}"),
    ("model", "Model", f"accelerator_up{{{SELECTORS['vendors']}}}"),
    ("device", "Device", f'accelerator_up{{{SELECTORS["vendors"]},model=~"$model"}}'),
)
_SOURCE = DatasourceVariable("datasource").label("Data source").type("prometheus").hide(VariableHide.DONT_HIDE)
_LABELS = {"node": "instance"}


def _choice(name: str, label: str, series: str, *, of_all: bool) -> QueryVariable:
    """Return a variable that allows several values, and all of them with `of_all`."""
    choice = (
        QueryVariable(name)
        .label(label)
        .datasource(DATA_SOURCE)
        .query({"query": f"label_values({series}, {_LABELS.get(name, name)})", "refId": f"variable-{name}"})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
        .multi(True)
    )
    # An unknown model is an empty label; with one cluster, its label may be missing.
    return choice.include_all(True).all_value(".*").current(_ALL) if of_all else choice


_STEP = "60s"
# The time before this step; an hour, so that nothing is repeated after an outage of the daemon or Prometheus.
_BEFORE = "[1h] offset $__interval"


class _Mark(AnnotationQuery):
    """An annotation for the Prometheus data source, with settings that the SDK lacks."""

    def __init__(self, name: str, color: str, expression: str, title: str, text: str) -> None:
        super().__init__(name=name, datasource=DATA_SOURCE, icon_color=color, expr=expression)
        self._format = {"step": _STEP, "titleFormat": title, "textFormat": text, "tagKeys": "instance"}

    def to_json(self) -> dict[str, object]:
        """Return the annotation with the settings of the data source."""
        return {**super().to_json(), **self._format}


_FIRING = 'ALERTS{$alerted,alertstate="firing"SEVERITY}'
_EVENT = "accelerator_event_last_timestamp_seconds{$cards}"
_STARTED = "process_start_time_seconds{$nodes}"
# Name, colour, query, title and text of each annotation. Grafana fills the labels of the query's result into both texts.
_MARKS = (
    (
        "Alerts",
        "red",
        # Only the start, because regions of several alerts would cover each other and the lines.
        f"{_FIRING} unless {_FIRING} offset $__interval",
        "{{alertname}}",
        "{{severity}} {{instance}} {{vendor}} {{device}}",
    ),
    (
        "Events",
        "orange",
        f"{_EVENT} unless {_EVENT} == last_over_time({_EVENT}{_BEFORE}) and on ({NODE}) last_over_time(telemetry_build_info{{$nodes}}{_BEFORE})",
        "{{code}}",
        "{{instance}} {{vendor}} {{device}}",
    ),
    (
        "Restarts",
        "blue",
        f"{_STARTED} != last_over_time({_STARTED}{_BEFORE}) and on ({NODE}) telemetry_build_info{{$nodes}}",
        "The daemon was started again",
        "{{instance}}",
    ),
    ("Maintenance", "purple", "telemetry_maintenance{$nodes}", "Maintenance", "{{instance}}"),
)


def _marks(*, of_few: bool) -> list[AnnotationQuery]:
    """Return the annotations of a dashboard, with all alerts or only critical ones. The dashboard has a switch for each."""
    # The warnings of a whole fleet would cover the panels.
    severity = "" if of_few else ',severity="critical"'
    return [
        _Mark(name, color, query(text.replace("SEVERITY", severity)).expression, title, shown)
        for name, color, text, title, shown in _MARKS
    ]


_TAG = "device-telemetry"
_LINK_TO_THE_OTHERS = (
    DashboardLink("Device telemetry")
    .type(DashboardLinkType.DASHBOARDS)
    .tags([_TAG])
    .as_dropdown(True)
    .include_vars(True)
    .keep_time(True)
)
_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Page:
    """A dashboard with the panels of each row. Rows in `folded` are closed at the end; variables in `few` start with their first value."""

    uid: str
    title: str
    description: str
    sections: Mapping[str, Sequence[Panel]]
    few: frozenset[str] = field(default=frozenset())
    folded: Mapping[str, Sequence[Panel]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the file that Grafana imports or provisions."""
        return JSONEncoder(sort_keys=True, indent=2).encode(self._built()) + "\n"

    def _built(self) -> Any:
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
            .link(_LINK_TO_THE_OTHERS)
            .with_variable(_SOURCE)
        )
        for name, label, series in _VARIABLES:
            builder = builder.with_variable(_choice(name, label, series, of_all=name not in self.few))
        dashboard = builder.build()
        dashboard.annotations.list_val = _marks(of_few=bool(self.few))
        dashboard.panels = list(self._rows())
        return dashboard

    def _rows(self) -> Iterator[Any]:
        """Yield the rows with their panels; the panels of a closed row are within it."""
        ids = count(1)
        top = 0
        for title, panels in self.sections.items():
            yield _row(title, next(ids), top).build()
            top += 1
            for panel, position in _laid_out(panels, top):
                yield panel.builder.id(next(ids)).grid_pos(position).build()
                top = max(top, position.y + position.h)
        for title, panels in self.folded.items():
            row = _row(title, next(ids), top).collapsed(True)
            top += 1
            for panel, position in _laid_out(panels, top):
                row = row.with_panel(panel.builder.id(next(ids)).grid_pos(position))
            yield row.build()


def _row(title: str, number: int, top: int) -> Row:
    return Row(title).id(number).grid_pos(GridPos(h=1, w=_WIDTH, x=0, y=top))


def _laid_out(panels: Sequence[Panel], top: int) -> Iterator[tuple[Panel, GridPos]]:
    """Yield the panels from left to right; a panel without room begins a new line."""
    left = tallest = 0
    for panel in panels:
        if left + panel.width > _WIDTH:
            top, left, tallest = top + tallest, 0, 0
        yield panel, GridPos(h=panel.height, w=panel.width, x=left, y=top)
        left, tallest = left + panel.width, max(tallest, panel.height)
