"""The variables of every dashboard: data source, cluster, job, node, vendor, model, device; every vendor has them."""

from __future__ import annotations

from collections.abc import Collection

from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

DATA_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_NODE = 'cluster=~"$cluster",job=~"$job",instance=~"$node"'
_ALL = VariableOption(text="All", value="$__all", selected=True)
# Each asks for a series that every node, or every card of every vendor, has.
_QUERIES = (
    ("cluster", "Cluster", "telemetry_build_info"),
    ("job", "Job", 'telemetry_build_info{cluster=~"$cluster"}'),
    ("node", "Node", 'telemetry_build_info{cluster=~"$cluster",job=~"$job"}'),
    ("vendor", "Vendor", f"accelerator_up{{{_NODE}}}"),
    ("model", "Model", f'accelerator_up{{{_NODE},vendor=~"$vendor"}}'),
    ("device", "Device", f'accelerator_up{{{_NODE},vendor=~"$vendor",model=~"$model"}}'),
)
_LABELS = {"node": "instance"}
NAMES = ("datasource", *(name for name, _, _ in _QUERIES))


def data_source() -> DatasourceVariable:
    """Which Prometheus."""
    return DatasourceVariable("datasource").label("Data source").type("prometheus").hide(VariableHide.DONT_HIDE)


def choices(few: Collection[str]) -> list[QueryVariable]:
    """Cluster, job, node, vendor, model and device, each with several or all values; those in `few` do not offer all."""
    return [_choice(*item) if item[0] in few else _or_all(_choice(*item)) for item in _QUERIES]


def _choice(name: str, label: str, series: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(label)
        .datasource(DATA_SOURCE)
        .query({"query": f"label_values({series}, {_LABELS.get(name, name)})", "refId": f"variable-{name}"})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
        .multi(True)
    )


def _or_all(choice: QueryVariable) -> QueryVariable:
    # A model may be unknown, which is an empty label; where there is one cluster only, nobody has its label.
    return choice.include_all(True).all_value(".*").current(_ALL)
