"""Tables: a row for each series that has the same labels, a column for each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.builders.common import TableSortByFieldState
from grafana_foundation_sdk.models.common import TableCellDisplayMode
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, DynamicConfigValue

from telemetry_exporters.judgement.thresholds import pattern
from telemetry_grafana.dashboards.panels import (
    GREEN,
    RED,
    YELLOW,
    Panel,
    Steps,
    Words,
    filled,
    nothing,
    reference,
    worded,
)
from telemetry_grafana.dashboards.query import query

CARD_LINK = (
    "/d/telemetry-card?${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}&var-node=${__data.fields.instance}"
    "&var-vendor=${__data.fields.vendor}&var-device=${__data.fields.device}&${__url_time_range}"
)
ROW = "by (cluster, job, instance, vendor, device, id, model)"
CARD_LABELS = ("instance", "vendor", "device", "model")
HOT: Steps = ((None, GREEN), (80, YELLOW), (95, RED))
# Degrees that are left.
NEAR: Steps = ((None, RED), (0, YELLOW), (5, GREEN))
# What should not hold a card down; the power limit alone is normal at full load.
THROTTLING = 'reason=~"{}|{}"'.format(pattern("heat_reasons"), pattern("brake_reasons"))
# A partition that is gone while its card is there was removed on purpose, so it is no loss.
_TAKEN_AWAY = (
    '(last_over_time(accelerator_info{parent!=""}[1h]) and on (cluster, job, instance, parent)'
    ' label_replace(accelerator_up, "parent", "$$1", "id", "(.*)"))'
)
# -1 is a card that was there within the hour and has no series now.
STATES: Words = {"1": ("up", GREEN), "0": ("lost", RED), "-1": ("not watched", YELLOW)}
STATE = (
    f"max {ROW} (accelerator_up{{$cards}}) or (max {ROW} (last_over_time(accelerator_up{{$cards}}[1h])) * 0 - 1"
    f" unless on (cluster, job, instance, id) accelerator_up unless on (cluster, job, instance, id) {_TAKEN_AWAY})"
)
# So that a table of eight figures has room on 1,280 pixels.
_FIGURE_PIXELS = 98
_LABEL_PIXELS = {
    "card": 70,
    "vendor": 100,
    "device": 80,
    "numa_node": 100,
    "driver": 130,
    "power_kind": 130,
    "partition": 100,
}
_WIDE_LABEL_PIXELS = {"alertname": 260, "uuid": 365, "model": 180, "serial": 170, "bus_id": 130}
NO_NAME = "–"
_NAME_PIXELS, _NARROWEST_PIXELS = 100, 60


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, the text of its query and the unit; `words` stand for its values, `steps` colour them.

    Without a heading it is not shown: only its labels are.
    """

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
    height: int = 10,
    width: int = 24,
    sort: Sequence[str] = (),
) -> Panel:
    """A table with these labels and columns; where it names the device, a click on it opens the card.

    `sort` names headings, the highest first where a minus stands before.
    """
    names = _value_names(columns)
    panel = (
        table.Panel()
        .filterable(True)
        .min_width(_NARROWEST_PIXELS)
        .sort_by([_sorted_by(name) for name in sort])
        .with_transformation(DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(_only([*labels, *names]))
        .with_transformation(DataTransformerConfig(id_val="organize", options=_organized(labels, names)))
    )
    for each in (each for each in columns if each.heading):
        panel = panel.override_by_name(each.heading, _column(each))
    for label in labels:
        panel = panel.override_by_name(label, _label(label))
    return Panel(
        filled(panel, title, description, "short", [query(each.text, form="table") for each in columns]), width, height
    )


def _sorted_by(name: str) -> TableSortByFieldState:
    return TableSortByFieldState().display_name(name.removeprefix("-")).desc(name.startswith("-"))


def _value_names(columns: Sequence[Column]) -> dict[str, str]:
    """Grafana's names of the values, with their headings; it leaves out the query's name if there is only one query."""
    names = {f"Value #{reference(position)}": each.heading for position, each in enumerate(columns)}
    if len(columns) == 1:
        names = {"Value": columns[0].heading, **names}
    return {name: heading for name, heading in names.items() if heading}


def _only(names: Sequence[str]) -> DataTransformerConfig:
    """Leaves out superfluous columns: a target's own labels, and facts that another column has."""
    return DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": list(names)}})


def _organized(labels: Sequence[str], names: Mapping[str, str]) -> dict[str, object]:
    order = [*labels, *names]
    return {
        "excludeByName": {},
        "indexByName": {name: position for position, name in enumerate(order)},
        "renameByName": dict(names),
    }


def _column(column: Column) -> list[DynamicConfigValue]:
    mappings = [worded(column.words)] if column.words else []
    properties = [
        DynamicConfigValue("unit", column.unit),
        DynamicConfigValue("decimals", column.decimals),
        DynamicConfigValue("mappings", [mapping.to_json() for mapping in (*mappings, nothing())]),
        DynamicConfigValue("custom.width", _FIGURE_PIXELS),
        DynamicConfigValue("custom.filterable", False),
    ]
    if column.steps:
        steps = [{"color": color, "value": value} for value, color in column.steps]
        properties.append(DynamicConfigValue("thresholds", {"mode": "absolute", "steps": steps}))
    if column.steps or column.words:
        properties.append(DynamicConfigValue("custom.cellOptions", {"type": TableCellDisplayMode.COLOR_TEXT.value}))
    return properties


def _label(label: str) -> list[DynamicConfigValue]:
    # A job's id is no number, and what is unknown has no name.
    properties = [DynamicConfigValue("unit", "string"), DynamicConfigValue("noValue", NO_NAME)]
    if label in _LABEL_PIXELS:
        properties.append(DynamicConfigValue("custom.width", _LABEL_PIXELS[label]))
    else:
        properties.append(DynamicConfigValue("custom.minWidth", _WIDE_LABEL_PIXELS.get(label, _NAME_PIXELS)))
    if label == "device":
        link = {"title": "Open the card", "url": CARD_LINK, "targetBlank": False}
        properties.append(DynamicConfigValue("links", [link]))
    return properties
