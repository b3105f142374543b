"""The kinds of panels: each function returns a panel from title, description, unit and queries."""

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

from telemetry_grafana.dashboards.query import RANKED, Query, query

DATA_SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
# The text of a panel without data, so that missing data does not look like health.
_NOT_COLLECTED = "not collected"
_NOT_ON_THIS_CARD = "n/a"
GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"
# The colours of a figure that is neither good nor bad, and of a state without meaning.
_PLAIN, GREY = "text", "#6b7078"
_Builder = Any  # the SDK's builders have no common type but a protocol of `build`
Steps = Sequence[tuple[float | None, str]]
Words = Mapping[str, tuple[str, str]]


def rising(yellow: float, red: float | None = None) -> Steps:
    """Return thresholds: green below these values, and yellow and red from them on."""
    steps = (None, GREEN), (yellow, YELLOW)
    return steps if red is None else (*steps, (red, RED))


# One hue, since a busy card is no trouble; no step is as dark as the background of an empty cell.
_DARK_TO_LIGHT: Steps = (
    (None, "#1f4a7a"),
    (0.05, "#2d68a8"),
    (0.25, "#4688cc"),
    (0.5, "#6fa8e0"),
    (0.75, "#9fc8f0"),
    (0.95, "#d2e7fb"),
)
_LIMIT: Mapping[str, object] = {
    "custom.lineStyle": {"fill": "dash", "dash": [8, 8]},
    "custom.hideFrom": {"legend": True, "tooltip": False, "viz": False},
    "color": {"mode": "fixed", "fixedColor": RED},
}
# Grafana shows an error for a status history with more points than half its pixels.
_MOST_CELLS = 240
_ROWS_ON_A_PAGE = 32


@dataclass(frozen=True, slots=True)
class Axis:
    """The vertical axis: a fixed lower end, and ends that it includes at least."""

    lowest: float | None = 0.0
    soft_low: float | None = None
    soft_high: float | None = None


# The axis follows numbers that are small for the unit.
FREE = Axis()
AROUND_ZERO = Axis(lowest=None)
_AXES: Mapping[str, Axis] = {"percentunit": Axis(soft_high=1.0), "celsius": Axis(None, 20.0, 90.0)}
_RANKED_DECIMALS: Mapping[str, int] = {"percentunit": 1, "celsius": 0}
# Without it, Grafana draws zeros on an axis to 100.
_FROM_ZERO = Axis(soft_high=1.0)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel with its size, in 24ths of the width and in lines."""

    builder: _Builder
    width: int
    height: int

    def sized(self, width: int = 24, height: int = 8) -> Panel:
        """Return the panel with that size."""
        return replace(self, width=width, height=height)

    def saying(self, otherwise: str) -> Panel:
        """Return the panel with this text for the case without data."""
        return replace(self, builder=self.builder.no_value(otherwise))


def lines(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    limits: Sequence[Query] = (),
    axis: Axis | None = None,
    least_step: str = "",
) -> Panel:
    """Return a panel of series over time with dashed `limits`. `least_step` is for rates of values that are polled less often than scraped."""
    panel = (
        timeseries.Panel()
        .span_nulls(False)
        .line_width(1)
        .show_points(common.VisibilityMode.NEVER)
        .mappings([_nothing()])
        .legend(_legend())
        .tooltip(VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING))
    )
    panel = _along(panel, axis or _AXES.get(unit, _FROM_ZERO))
    for position in range(len(queries), len(queries) + len(limits)):
        panel = panel.override_by_query(_reference(position), _set(_LIMIT))
    return Panel(_filled(panel, title, description, unit, (*queries, *limits), least_step), 12, 8)


def _along(panel: _Builder, axis: Axis) -> _Builder:
    if axis.lowest is not None:
        panel = panel.min(axis.lowest)
    if axis.soft_low is not None:
        panel = panel.axis_soft_min(axis.soft_low)
    return panel if axis.soft_high is None else panel.axis_soft_max(axis.soft_high)


def _legend() -> VizLegendOptions:
    options = VizLegendOptions().show_legend(True).display_mode(common.LegendDisplayMode.LIST)
    return options.placement(common.LegendPlacement.BOTTOM)


def with_unit(panel: Panel, unit: str, position: int) -> Panel:
    """Return the panel with another unit for the query at a position, for which Grafana adds an axis."""
    return replace(panel, builder=panel.builder.override_by_query(_reference(position), _set({"unit": unit})))


def stacked(title: str, description: str, unit: str, *queries: Query) -> Panel:
    """Return a panel of series over time whose sum matters."""
    panel = lines(title, description, unit, *queries)
    stacking = StackingConfig().mode(common.StackingMode.NORMAL).group("A")
    return replace(panel, builder=panel.builder.stacking(stacking).fill_opacity(30))


def number(title: str, description: str, text: str, unit: str = "short", steps: Steps = ((None, _PLAIN),)) -> Panel:
    """Return a panel with one figure, the current result of a query."""
    panel = _figure().thresholds(_thresholds(steps))
    return Panel(_filled(panel, title, description, unit, (_now(text),)), 3, 4)


def word(title: str, description: str, words: Words, text: str) -> Panel:
    """Return a panel with one figure as a word; `words` maps values to text and colour."""
    panel = _figure().mappings([_worded(words), _nothing()])
    return Panel(_filled(panel, title, description, "short", (_now(text),)), 3, 4)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure among several: its name, the text of its query, its unit, and colours for its values."""

    name: str
    text: str
    unit: str = "short"
    steps: Steps = ((None, _PLAIN),)


def numbers(title: str, description: str, *figures: Figure) -> Panel:
    """Return a panel of several figures side by side; a figure that no card reports is left out."""
    panel = _figure().text_mode(common.BigValueTextMode.VALUE_AND_NAME).wide_layout(False)
    for position, figure in enumerate(figures):
        settings = _set({"unit": figure.unit, "thresholds": _coloured(figure.steps)})
        panel = panel.override_by_query(_reference(position), settings)
    queries = [_now(figure.text, figure.name) for figure in figures]
    return Panel(_filled(panel, title, description, "short", queries), 3 * len(figures), 4)


def _now(text: str, legend: str = "") -> Query:
    return query(text, legend, "instant")


def _figure() -> _Builder:
    reduced = ReduceDataOptions().calcs(["lastNotNull"])
    return stat.Panel().reduce_options(reduced).graph_mode(common.BigValueGraphMode.NONE)


def ranking(title: str, description: str, unit: str, text: str, steps: Steps) -> Panel:
    """Return a panel with the highest few as bars."""
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
    return Panel(_filled(panel, title, description, unit, (_now(text, RANKED),)), 8, 8)


def heatmap(title: str, description: str, unit: str, series: Query) -> Panel:
    """Return a panel with a row of coloured cells for each series over time."""
    panel = (
        statushistory.Panel()
        # Grafana has a legend for steps, and none for a continuous scheme.
        .color_scheme(FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .thresholds(_thresholds(_DARK_TO_LIGHT))
        .legend(_legend())
        .show_value(common.VisibilityMode.NEVER)
        .col_width(1.0)
        .per_page(_ROWS_ON_A_PAGE)
        .max_data_points(_MOST_CELLS)
        .min(0)
        .max(1.0)
    )
    return Panel(_filled(panel, title, description, unit, (series,)), 24, 15)


def states(title: str, description: str, words: Words, *queries: Query) -> Panel:
    """Return a panel with the state of each series over time; `words` maps values to text and colour."""
    panel = (
        statetimeline.Panel()
        .mappings([_worded(words), _nothing(GREY)])
        .thresholds(_thresholds(((None, GREY),)))
        .show_value(common.VisibilityMode.NEVER)
        .merge_values(True)
        .legend(_legend())
    )
    return Panel(_filled(panel, title, description, "short", queries), 24, 8)


def coarse(panel: Panel) -> Panel:
    """Return the panel with as few points as a heat map, for a query over tens of thousands of series."""
    return replace(panel, builder=panel.builder.max_data_points(_MOST_CELLS))


def _filled(
    panel: _Builder, title: str, description: str, unit: str, queries: Sequence[Query], least_step: str = ""
) -> _Builder:
    """Return the panel with the settings that all panels share."""
    panel = panel.title(title).description(description).unit(unit).datasource(DATA_SOURCE).no_value(_NOT_COLLECTED)
    for position, panel_query in enumerate(queries):
        target = _target(panel_query, _reference(position))
        panel = panel.with_target(target.interval(least_step) if least_step else target)
    return panel


def _target(panel_query: Query, reference: str) -> Dataquery:
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


def _reference(position: int) -> str:
    """Return the name of the query at a position."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[position]


def _thresholds(steps: Steps) -> ThresholdsConfig:
    return (
        ThresholdsConfig()
        .mode(dashboard.ThresholdsMode.ABSOLUTE)
        .steps([dashboard.Threshold(value, color) for value, color in steps])
    )


def _coloured(steps: Steps) -> dict[str, object]:
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for value, color in steps]}


def _set(properties: Mapping[str, object]) -> list[DynamicConfigValue]:
    """Return the properties in which a series or column differs from the panel."""
    return [DynamicConfigValue(name, value) for name, value in properties.items()]


def _worded(words: Words) -> dashboard.ValueMapping:
    """Return the texts and colours of these values."""
    results = {value: dashboard.ValueMappingResult(text, color) for value, (text, color) in words.items()}
    return dashboard.ValueMap(options=results)


def _nothing(color: str = _PLAIN) -> dashboard.ValueMapping:
    """Return the text of a missing number."""
    result = dashboard.ValueMappingResult(_NOT_ON_THIS_CARD, color)
    return dashboard.SpecialValueMap(
        dashboard.DashboardSpecialValueMapOptions(dashboard.SpecialValueMatch.NULL_AND_NAN, result)
    )


_CARD_LINK = (
    "/d/telemetry-card?${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}&var-node=${__data.fields.instance}"
    "&var-vendor=${__data.fields.vendor}&var-device=${__data.fields.device}&${__url_time_range}"
)
# A table of eight figures fits into 1,280 pixels. An arrow of sorting and long units take more.
_FIGURE_PIXELS, _MORE_PIXELS = 98, 20
_LONG_UNITS, _LONGEST_HEADING = frozenset({"flops"}), 12
_LABEL_PIXELS = {"card": 70, "vendor": 112, "device": 80, "driver": 130, "power_kind": 130, "partition": 100}
_WIDE_LABEL_PIXELS = {"alertname": 260, "uuid": 365, "model": 180, "serial": 170, "bus_id": 130}
_NAME_PIXELS, _NARROWEST_PIXELS = 100, 60


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: heading (hidden without one), query text, unit, `words` for values, and `steps` of colours."""

    heading: str
    text: str
    unit: str = "short"
    steps: Steps = ()
    words: Words = field(default_factory=dict)
    decimals: int = 0


def card_table(
    title: str,
    description: str,
    labels: Sequence[str],
    columns: Sequence[Column],
    sort: Sequence[str] = (),
) -> Panel:
    """Return a table with these labels and columns that links to the card. `sort` names headings; a minus sorts the highest first."""
    names = _value_names(columns)
    order = [*labels, *names]
    positions = {name: position for position, name in enumerate(order)}
    panel = (
        table.Panel()
        .filterable(True)
        .min_width(_NARROWEST_PIXELS)
        .sort_by(
            [TableSortByFieldState().display_name(name.removeprefix("-")).desc(name.startswith("-")) for name in sort]
        )
        .with_transformation(DataTransformerConfig("merge", options={}))
        # Without the labels of targets, and facts that another column has.
        .with_transformation(DataTransformerConfig("filterFieldsByName", options={"include": {"names": order}}))
        .with_transformation(
            DataTransformerConfig(
                "organize", options={"excludeByName": {}, "indexByName": positions, "renameByName": names}
            )
        )
    )
    arrows = {name.removeprefix("-") for name in sort}
    for column in (column for column in columns if column.heading):
        is_long = column.unit in _LONG_UNITS or len(column.heading) > _LONGEST_HEADING
        width = _FIGURE_PIXELS + _MORE_PIXELS * ((column.heading in arrows) + is_long)
        panel = panel.override_by_name(column.heading, _set({**_of_column(column), "custom.width": width}))
    for label in labels:
        panel = panel.override_by_name(label, _set(_of_label(label)))
    queries = [query(column.text, form="table") for column in columns]
    return Panel(_filled(panel, title, description, "short", queries), 24, 10)


def _value_names(columns: Sequence[Column]) -> dict[str, str]:
    """Return Grafana's names of the values, with their headings. With one query, Grafana leaves its name out."""
    names = {f"Value #{_reference(position)}": column.heading for position, column in enumerate(columns)}
    if len(columns) == 1:
        names = {"Value": columns[0].heading, **names}
    return {name: heading for name, heading in names.items() if heading}


def _of_column(column: Column) -> dict[str, object]:
    mappings = [_worded(column.words)] if column.words else []
    properties: dict[str, object] = {
        "unit": column.unit,
        "decimals": column.decimals,
        "mappings": [mapping.to_json() for mapping in (*mappings, _nothing())],
        "custom.filterable": False,
    }
    if column.steps:
        properties["thresholds"] = _coloured(column.steps)
    if column.steps or column.words:
        properties["custom.cellOptions"] = {"type": common.TableCellDisplayMode.COLOR_TEXT.value}
    return properties


def _of_label(label: str) -> dict[str, object]:
    # A job's id is a text, and unknown labels are shown as a dash.
    properties: dict[str, object] = {"unit": "string", "noValue": "–"}
    if label in _LABEL_PIXELS:
        properties["custom.width"] = _LABEL_PIXELS[label]
    else:
        properties["custom.minWidth"] = _WIDE_LABEL_PIXELS.get(label, _NAME_PIXELS)
    if label == "device":
        properties["links"] = [{"title": "Open the card", "url": _CARD_LINK, "targetBlank": False}]
    return properties
