"""Builds panels of several types, such as lines or tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from grafana_foundation_sdk.builders import bargauge, stat, statetimeline, statushistory, table, timeseries
from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    StackingConfig,
    TableSortByFieldState,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, DynamicConfigValue
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from telemetry_grafana.dashboards.query import RANKING_LEGEND, Query, query

DATA_SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
# Shown instead of missing data, because an empty panel could look like a good state.
_NOT_COLLECTED = "not collected"
_NOT_REPORTED = "n/a"
GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"
# _NEUTRAL is for a number that is neither good nor bad, GREY for an unknown state.
_NEUTRAL, GREY = "text", "#6b7078"
_Builder = Any  # the SDK's builders have no useful common type
Steps = Sequence[tuple[float | None, str]]
States = Mapping[str, tuple[str, str]]  # maps each value to (text, colour)


def rising(yellow: float, red: float | None = None) -> Steps:
    """Return colour thresholds that turn from green to yellow, and then to red."""
    steps = (None, GREEN), (yellow, YELLOW)
    return steps if red is None else (*steps, (red, RED))


# The shades have one hue, because a busy card is not a problem.
_DARK_TO_LIGHT: Steps = (
    (None, "#1f4a7a"),
    (0.05, "#2d68a8"),
    (0.25, "#4688cc"),
    (0.5, "#6fa8e0"),
    (0.75, "#9fc8f0"),
    (0.95, "#d2e7fb"),
)
_LIMIT_LINE: Mapping[str, object] = {
    "custom.lineStyle": {"fill": "dash", "dash": [8, 8]},
    "custom.hideFrom": {"legend": True, "tooltip": False, "viz": False},
    "color": {"mode": "fixed", "fixedColor": RED},
}
# Grafana shows an error if a status history has more than one point per two pixels.
_MAX_CELLS = 240
_ROWS_ON_A_PAGE = 32


@dataclass(frozen=True, slots=True)
class Axis:
    """The vertical axis, which always includes the soft limits."""

    lowest: float | None = 0.0
    soft_low: float | None = None
    soft_high: float | None = None


# For values that are far below the usual range of the unit.
NO_SOFT_LIMITS = Axis()
AROUND_ZERO = Axis(lowest=None)
_AXES: Mapping[str, Axis] = {"percentunit": Axis(soft_high=1.0), "celsius": Axis(None, 20.0, 90.0)}
_RANKED_DECIMALS: Mapping[str, int] = {"percentunit": 1, "celsius": 0}
# Without a soft maximum, Grafana would draw an axis up to 100 if all values are 0.
_FROM_ZERO = Axis(soft_high=1.0)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel and its size in units of Grafana's grid, which has 24 columns."""

    builder: _Builder
    width: int
    height: int

    def with_size(self, width: int = 24, height: int = 8) -> Panel:
        """Return the panel with this size in grid units."""
        return replace(self, width=width, height=height)

    def with_empty_text(self, text: str) -> Panel:
        """Return the panel with the text that Grafana shows in place of missing data."""
        return replace(self, builder=self.builder.no_value(text))


def line_panel(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    limits: Sequence[Query] = (),
    axis: Axis | None = None,
    min_step: str = "",
) -> Panel:
    """Return a panel with a line for each series, and a dashed line for each limit."""
    panel = (
        timeseries.Panel()
        .span_nulls(False)
        .line_width(1)
        .show_points(common.VisibilityMode.NEVER)
        .mappings([_missing_mapping()])
        .legend(_legend_options())
        .tooltip(VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING))
    )
    panel = _with_axis(panel, axis or _AXES.get(unit, _FROM_ZERO))
    for index in range(len(queries), len(queries) + len(limits)):
        panel = panel.override_by_query(_query_name(index), _overrides(_LIMIT_LINE))
    return Panel(_with_settings(panel, title, description, unit, (*queries, *limits), min_step), 12, 8)


def _with_axis(panel: _Builder, axis: Axis) -> _Builder:
    if axis.lowest is not None:
        panel = panel.min(axis.lowest)
    if axis.soft_low is not None:
        panel = panel.axis_soft_min(axis.soft_low)
    return panel if axis.soft_high is None else panel.axis_soft_max(axis.soft_high)


def _legend_options() -> VizLegendOptions:
    options = VizLegendOptions().show_legend(True).display_mode(common.LegendDisplayMode.LIST)
    return options.placement(common.LegendPlacement.BOTTOM)


def with_unit(panel: Panel, unit: str, query_index: int) -> Panel:
    """Return the panel with a different unit for one of its queries."""
    return replace(panel, builder=panel.builder.override_by_query(_query_name(query_index), _overrides({"unit": unit})))


def stacked_panel(title: str, description: str, unit: str, *queries: Query) -> Panel:
    """Return a panel of stacked series over time, which also shows their sum."""
    panel = line_panel(title, description, unit, *queries)
    stacking = StackingConfig().mode(common.StackingMode.NORMAL).group("A")
    return replace(panel, builder=panel.builder.stacking(stacking).fill_opacity(30))


def number_panel(
    title: str, description: str, promql: str, unit: str = "short", steps: Steps = ((None, _NEUTRAL),)
) -> Panel:
    """Return a panel with one number: the current result of a query."""
    panel = _stat_panel().thresholds(_thresholds(steps))
    return Panel(_with_settings(panel, title, description, unit, (_instant_query(promql),)), 3, 4)


def word_panel(title: str, description: str, states: States, promql: str) -> Panel:
    """Return a panel that shows one number as a word."""
    panel = _stat_panel().mappings([_value_mapping(states), _missing_mapping()])
    return Panel(_with_settings(panel, title, description, "short", (_instant_query(promql),)), 3, 4)


@dataclass(frozen=True, slots=True)
class Figure:
    """One of several numbers in a panel."""

    name: str
    promql: str
    unit: str = "short"
    steps: Steps = ((None, _NEUTRAL),)


def numbers_panel(title: str, description: str, *figures: Figure) -> Panel:
    """Return a panel with several numbers side by side."""
    panel = _stat_panel().text_mode(common.BigValueTextMode.VALUE_AND_NAME).wide_layout(False)
    for index, figure in enumerate(figures):
        settings = _overrides({"unit": figure.unit, "thresholds": _threshold_settings(figure.steps)})
        panel = panel.override_by_query(_query_name(index), settings)
    queries = [_instant_query(figure.promql, figure.name) for figure in figures]
    return Panel(_with_settings(panel, title, description, "short", queries), 3 * len(figures), 4)


def _instant_query(promql: str, legend: str = "") -> Query:
    return query(promql, legend, "instant")


def _stat_panel() -> _Builder:
    options = ReduceDataOptions().calcs(["lastNotNull"])
    return stat.Panel().reduce_options(options).graph_mode(common.BigValueGraphMode.NONE)


def ranking_panel(title: str, description: str, unit: str, promql: str, steps: Steps) -> Panel:
    """Return a panel with the highest values as bars."""
    panel = (
        bargauge.Panel()
        .orientation(common.VizOrientation.HORIZONTAL)
        .name_placement(common.BarGaugeNamePlacement.LEFT)
        .sizing(common.BarGaugeSizing.MANUAL)
        .min_viz_height(12)
        .max_viz_height(24)
        .min(0)
        .display_mode(common.BarGaugeDisplayMode.BASIC)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(steps))
    )
    panel = panel.decimals(_RANKED_DECIMALS[unit]) if unit in _RANKED_DECIMALS else panel
    return Panel(_with_settings(panel, title, description, unit, (_instant_query(promql, RANKING_LEGEND),)), 8, 8)


def heatmap_panel(title: str, description: str, unit: str, series: Query) -> Panel:
    """Return a panel with a row of coloured cells for each series over time."""
    panel = (
        statushistory.Panel()
        # Grafana shows a legend for steps, but not for a continuous colour scheme.
        .color_scheme(FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .thresholds(_thresholds(_DARK_TO_LIGHT))
        .legend(_legend_options())
        .show_value(common.VisibilityMode.NEVER)
        .col_width(1.0)
        .per_page(_ROWS_ON_A_PAGE)
        .max_data_points(_MAX_CELLS)
        .min(0)
        .max(1.0)
    )
    return Panel(_with_settings(panel, title, description, unit, (series,)), 24, 15)


def states_panel(title: str, description: str, states: States, *queries: Query) -> Panel:
    """Return a panel with the state of each series over time."""
    panel = (
        statetimeline.Panel()
        .mappings([_value_mapping(states), _missing_mapping(GREY)])
        .thresholds(_thresholds(((None, GREY),)))
        .show_value(common.VisibilityMode.NEVER)
        .merge_values(True)
        .legend(_legend_options())
    )
    return Panel(_with_settings(panel, title, description, "short", queries), 24, 8)


def with_few_points(panel: Panel) -> Panel:
    """Return the panel with a lower resolution in time, for queries over many series."""
    return replace(panel, builder=panel.builder.max_data_points(_MAX_CELLS))


def _with_settings(
    panel: _Builder, title: str, description: str, unit: str, queries: Sequence[Query], min_step: str = ""
) -> _Builder:
    panel = panel.title(title).description(description).unit(unit).datasource(DATA_SOURCE).no_value(_NOT_COLLECTED)
    for index, panel_query in enumerate(queries):
        target = _build_target(panel_query, _query_name(index))
        panel = panel.with_target(target.interval(min_step) if min_step else target)
    return panel


def _build_target(panel_query: Query, reference: str) -> Dataquery:
    target = (
        Dataquery()
        .expr(panel_query.expression)
        .ref_id(reference)
        .datasource(DATA_SOURCE)
        .legend_format(panel_query.legend)
    )
    if panel_query.form == "range":
        return target.range()
    target = target.instant()
    return target.format(PromQueryFormat.TABLE) if panel_query.form == "table" else target


def _query_name(index: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[index]


def _thresholds(steps: Steps) -> ThresholdsConfig:
    return (
        ThresholdsConfig()
        .mode(dashboard.ThresholdsMode.ABSOLUTE)
        .steps([dashboard.Threshold(value, color) for value, color in steps])
    )


def _threshold_settings(steps: Steps) -> dict[str, object]:
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for value, color in steps]}


def _overrides(properties: Mapping[str, object]) -> list[DynamicConfigValue]:
    return [DynamicConfigValue(name, value) for name, value in properties.items()]


def _value_mapping(states: States) -> dashboard.ValueMapping:
    results = {value: dashboard.ValueMappingResult(text, color) for value, (text, color) in states.items()}
    return dashboard.ValueMap(options=results)


def _missing_mapping(color: str = _NEUTRAL) -> dashboard.ValueMapping:
    result = dashboard.ValueMappingResult(_NOT_REPORTED, color)
    return dashboard.SpecialValueMap(
        dashboard.DashboardSpecialValueMapOptions(dashboard.SpecialValueMatch.NULL_AND_NAN, result)
    )


_CARD_LINK = (
    "/d/telemetry-card?${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}&var-node=${__data.fields.instance}"
    "&var-vendor=${__data.fields.vendor}&var-device=${__data.fields.device}&${__url_time_range}"
)
# Eight numbers of this width fit into 1,280 pixels. Sort arrows and long units need more.
_FIGURE_PIXELS, _EXTRA_PIXELS = 98, 20
_LONG_UNITS, _MAX_HEADING_LENGTH = frozenset({"flops"}), 12
_LABEL_PIXELS = {"card": 70, "vendor": 112, "device": 80, "driver": 130, "power_kind": 130, "partition": 100}
_WIDE_LABEL_PIXELS = {"alertname": 260, "uuid": 365, "model": 180, "serial": 170, "bus_id": 130}
_NAME_PIXELS, _MIN_PIXELS = 100, 60


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. A column without a heading is hidden."""

    heading: str
    promql: str
    unit: str = "short"
    steps: Steps = ()
    states: States = field(default_factory=dict)
    decimals: int = 0


def card_table(
    title: str, description: str, labels: Sequence[str], columns: Sequence[Column], sort: Sequence[str] = ()
) -> Panel:
    """Return a table with links to the cards. A leading minus in `sort` means descending order."""
    names = _value_names(columns)
    column_order = [*labels, *names]
    indices = {name: index for index, name in enumerate(column_order)}
    panel = (
        table.Panel()
        .filterable(True)
        .min_width(_MIN_PIXELS)
        .sort_by(
            [TableSortByFieldState().display_name(name.removeprefix("-")).desc(name.startswith("-")) for name in sort]
        )
        .with_transformation(DataTransformerConfig("merge", options={}))
        # Excludes duplicate columns and the labels that Prometheus adds to targets.
        .with_transformation(DataTransformerConfig("filterFieldsByName", options={"include": {"names": column_order}}))
        .with_transformation(
            DataTransformerConfig(
                "organize", options={"excludeByName": {}, "indexByName": indices, "renameByName": names}
            )
        )
    )
    sorted_headings = {name.removeprefix("-") for name in sort}
    for column in (column for column in columns if column.heading):
        is_wide = column.unit in _LONG_UNITS or len(column.heading) > _MAX_HEADING_LENGTH
        width = _FIGURE_PIXELS + _EXTRA_PIXELS * ((column.heading in sorted_headings) + is_wide)
        panel = panel.override_by_name(column.heading, _overrides({**_column_settings(column), "custom.width": width}))
    for label in labels:
        panel = panel.override_by_name(label, _overrides(_label_settings(label)))
    queries = [query(column.promql, form="table") for column in columns]
    return Panel(_with_settings(panel, title, description, "short", queries), 24, 10)


def _value_names(columns: Sequence[Column]) -> dict[str, str]:
    """Map Grafana's names of the value columns to our headings."""
    names = {f"Value #{_query_name(index)}": column.heading for index, column in enumerate(columns)}
    if len(columns) == 1:
        names = {"Value": columns[0].heading, **names}
    return {name: heading for name, heading in names.items() if heading}


def _column_settings(column: Column) -> dict[str, object]:
    mappings = [_value_mapping(column.states)] if column.states else []
    properties: dict[str, object] = {
        "unit": column.unit,
        "decimals": column.decimals,
        "mappings": [mapping.to_json() for mapping in (*mappings, _missing_mapping())],
        "custom.filterable": False,
    }
    if column.steps:
        properties["thresholds"] = _threshold_settings(column.steps)
    if column.steps or column.states:
        properties["custom.cellOptions"] = {"type": common.TableCellDisplayMode.COLOR_TEXT.value}
    return properties


def _label_settings(label: str) -> dict[str, object]:
    # Job IDs must not be formatted as numbers.
    properties: dict[str, object] = {"unit": "string", "noValue": "–"}
    if label in _LABEL_PIXELS:
        properties["custom.width"] = _LABEL_PIXELS[label]
    else:
        properties["custom.minWidth"] = _WIDE_LABEL_PIXELS.get(label, _NAME_PIXELS)
    if label == "device":
        properties["links"] = [{"title": "Open the card", "url": _CARD_LINK, "targetBlank": False}]
    return properties
