"""A dashboard: its variables, links to the others, rows of panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard, DashboardLink, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DashboardLinkType, GridPos

from telemetry_grafana.dashboards import variables
from telemetry_grafana.dashboards.marks import OF_ALL, OF_FEW, marks
from telemetry_grafana.dashboards.panels import Panel

TAG = "device-telemetry"
_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Page:
    """A dashboard by its name in the address, its title and what it is for, with the panels of each row by its title.

    Rows in `folded` come last and are closed: their queries are asked when somebody opens them. The variables in `few` begin with their first value: what would draw thousands of lines for all does not offer all.
    """

    uid: str
    title: str
    description: str
    sections: Mapping[str, Sequence[Panel]]
    few: frozenset[str] = field(default=frozenset())
    folded: Mapping[str, Sequence[Panel]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The file that Grafana imports or provisions."""
        return JSONEncoder(sort_keys=True, indent=2).encode(self._built()) + "\n"

    def _built(self) -> Any:
        builder = (
            Dashboard(self.title)
            .uid(self.uid)
            .description(self.description)
            .tags([TAG])
            .time("now-6h", "now")
            .refresh("30s")
            .timezone("browser")
            .tooltip(DashboardCursorSync.CROSSHAIR)
            .editable()
            .link(_to_the_others())
            .with_variable(variables.data_source())
        )
        for choice in variables.choices(self.few):
            builder = builder.with_variable(choice)
        dashboard = builder.build()
        dashboard.annotations.list_val = marks(OF_FEW if self.few else OF_ALL)
        dashboard.panels = list(self._rows())
        return dashboard

    def _rows(self) -> Iterator[Any]:
        """The rows with their panels, those of a closed row within it."""
        ids = count(1)
        top = 0
        for title, panels in self.sections.items():
            yield _row(title, next(ids), top).build()
            top += 1
            for panel, place in _laid_out(panels, top):
                yield panel.builder.id(next(ids)).grid_pos(place).build()
                top = max(top, place.y + place.h)
        for title, panels in self.folded.items():
            row = _row(title, next(ids), top).collapsed(True)
            top += 1
            for panel, place in _laid_out(panels, top):
                row = row.with_panel(panel.builder.id(next(ids)).grid_pos(place))
            yield row.build()


def _row(title: str, number: int, top: int) -> Row:
    return Row(title).id(number).grid_pos(GridPos(h=1, w=_WIDTH, x=0, y=top))


def _laid_out(panels: Sequence[Panel], top: int) -> Iterator[tuple[Panel, GridPos]]:
    """The panels from left to right; a panel without room begins a new line."""
    left = tallest = 0
    for panel in panels:
        if left + panel.width > _WIDTH:
            top, left, tallest = top + tallest, 0, 0
        yield panel, GridPos(h=panel.height, w=panel.width, x=left, y=top)
        left, tallest = left + panel.width, max(tallest, panel.height)


def _to_the_others() -> DashboardLink:
    return (
        DashboardLink("Device telemetry")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )
