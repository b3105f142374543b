"""Panels in one line each: title, what it shows, unit, queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grafana_foundation_sdk.builders import bargauge, stat, statetimeline, statushistory, table, timeseries
from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TableCellDisplayMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardSpecialValueMapOptions,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from telemetry_grafana.dashboards.query import Query
from telemetry_grafana.dashboards.variables import DATA_SOURCE

# What a panel shows while nothing answers its query: said in words, so that no silence looks like health.
NOTHING = "not collected"
NOT_ON_THIS_CARD = "n/a"
GREEN, YELLOW, RED, GREY, BLUE = "green", "yellow", "red", "text", "blue"
Builder = Any  # the SDK's builders have no common type but a protocol of `build`
Steps = Sequence[tuple[float | None, str]]
CARD_LINK = (
    "/d/telemetry-card?${datasource:queryparam}&${job:queryparam}&var-node=${__data.fields.instance}"
    "&var-vendor=${__data.fields.vendor}&var-device=${__data.fields.device}&${__url_time_range}"
)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel with the room that it takes, in 24ths of the width and in lines."""

    builder: Builder
    width: int
    height: int


def lines(title: str, description: str, unit: str, *queries: Query, minimum: float | None = 0.0) -> Panel:
    """Series over time."""
    panel = (
        timeseries.Panel()
        .span_nulls(False)
        .line_width(1)
        .fill_opacity(5)
        .show_points(VisibilityMode.NEVER)
        .legend(
            VizLegendOptions()
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.RIGHT)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if minimum is not None:
        panel = panel.min(minimum)
    return Panel(_filled(panel, title, description, unit, queries), 12, 8)


def stacked(title: str, description: str, unit: str, *queries: Query) -> Panel:
    """Series over time whose sum counts."""
    panel = lines(title, description, unit, *queries)
    stacking = StackingConfig().mode(StackingMode.NORMAL).group("A")
    return replace(panel, builder=panel.builder.stacking(stacking).fill_opacity(30))


def number(title: str, description: str, unit: str, query: Query, steps: Steps = ((None, GREEN),)) -> Panel:
    """One figure."""
    panel = stat.Panel().reduce_options(ReduceDataOptions().calcs(["lastNotNull"])).thresholds(_thresholds(steps))
    return Panel(_filled(panel, title, description, unit, (query,)), 4, 4)


def ranking(title: str, description: str, unit: str, query: Query, steps: Steps = ((None, BLUE),)) -> Panel:
    """The highest few as bars."""
    panel = (
        bargauge.Panel()
        .orientation(VizOrientation.HORIZONTAL)
        .display_mode(BarGaugeDisplayMode.BASIC)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(steps))
    )
    return Panel(_filled(panel, title, description, unit, (query,)), 8, 8)


def heatmap(title: str, description: str, unit: str, query: Query, highest: float | None = 1.0) -> Panel:
    """A row of coloured cells for each series: node and card against time."""
    panel = (
        statushistory.Panel()
        .color_scheme(FieldColor().mode(FieldColorModeId.CONTINUOUS_GR_YL_RD))
        .show_value(VisibilityMode.NEVER)
        .legend(VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM))
        .min(0)
    )
    if highest is not None:
        panel = panel.max(highest)
    return Panel(_filled(panel, title, description, unit, (query,)), 24, 10)


def states(title: str, description: str, words: Mapping[str, tuple[str, str]], *queries: Query) -> Panel:
    """What each series is in, over time; `words` gives a value's text and colour."""
    panel = (
        statetimeline.Panel()
        .mappings([_words(words), _nothing()])
        .thresholds(_thresholds(((None, GREY),)))
        .show_value(VisibilityMode.NEVER)
        .merge_values(True)
        .legend(VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM))
    )
    return Panel(_filled(panel, title, description, "short", queries), 24, 8)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of cards: its heading, unit and query."""

    heading: str
    unit: str
    query: Query
    steps: Steps = ()


def card_table(
    title: str, description: str, labels: Sequence[str], columns: Sequence[Column], height: int = 12
) -> Panel:
    """A row for each series that has the same labels, a column for each query; a click opens the card."""
    names = {f"Value #{_reference(position)}": column.heading for position, column in enumerate(columns)}
    panel = (
        table.Panel()
        .filterable(True)
        .with_transformation(DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(DataTransformerConfig(id_val="organize", options=_organized(labels, names)))
    )
    for column in columns:
        panel = panel.override_by_name(column.heading, _column(column))
    if "device" in labels:
        panel = panel.override_by_name("device", [_link("Open the card")])
    return Panel(_filled(panel, title, description, "short", [column.query for column in columns]), 24, height)


def _filled(panel: Builder, title: str, description: str, unit: str, queries: Sequence[Query]) -> Builder:
    panel = panel.title(title).description(description).unit(unit).datasource(DATA_SOURCE).no_value(NOTHING)
    for position, query in enumerate(queries):
        panel = panel.with_target(_target(query, _reference(position)))
    return panel


def _target(query: Query, reference: str) -> Dataquery:
    target = Dataquery().expr(query.expression).ref_id(reference).datasource(DATA_SOURCE).legend_format(query.legend)
    if query.form == "range":
        return target.range()
    target = target.instant()
    return target.format(PromQueryFormat.TABLE) if query.form == "table" else target


def _reference(position: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[position]


def _thresholds(steps: Steps) -> ThresholdsConfig:
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps([Threshold(value, color) for value, color in steps])


def _words(words: Mapping[str, tuple[str, str]]) -> ValueMapping:
    results = {value: ValueMappingResult(text, color) for value, (text, color) in words.items()}
    return ValueMap(options=results)


def _nothing() -> ValueMapping:
    result = ValueMappingResult(NOT_ON_THIS_CARD, GREY)
    return SpecialValueMap(DashboardSpecialValueMapOptions(SpecialValueMatch.NULL_AND_NAN, result))


def _organized(labels: Sequence[str], names: Mapping[str, str]) -> dict[str, object]:
    order = [*labels, *names]
    return {
        "excludeByName": {"Time": True, "job": True, "id": True},
        "indexByName": {name: position for position, name in enumerate(order)},
        "renameByName": dict(names),
    }


def _column(column: Column) -> list[DynamicConfigValue]:
    properties = [
        DynamicConfigValue("unit", column.unit),
        DynamicConfigValue("mappings", [_nothing().to_json()]),
    ]
    if column.steps:
        steps = [Threshold(value, color).to_json() for value, color in column.steps]
        properties.append(DynamicConfigValue("thresholds", {"mode": "absolute", "steps": steps}))
        properties.append(DynamicConfigValue("custom.cellOptions", {"type": TableCellDisplayMode.COLOR_TEXT.value}))
    return properties


def _link(title: str) -> DynamicConfigValue:
    return DynamicConfigValue("links", [{"title": title, "url": CARD_LINK, "targetBlank": False}])
