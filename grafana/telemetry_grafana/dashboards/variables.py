"""The variables of every dashboard: data source, job, node, vendor, model, device; none asks for what some vendor lacks."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

DATA_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_ALL = VariableOption(text="All", value="$__all", selected=True)
# Each asks for a series that every node, or every card of every vendor, has.
_QUERIES = (
    ("job", "Job", "telemetry_build_info"),
    ("node", "Node", 'telemetry_build_info{job=~"$job"}'),
    ("vendor", "Vendor", 'accelerator_up{job=~"$job",instance=~"$node"}'),
    ("model", "Model", 'accelerator_up{job=~"$job",instance=~"$node",vendor=~"$vendor"}'),
    ("device", "Device", 'accelerator_up{job=~"$job",instance=~"$node",vendor=~"$vendor",model=~"$model"}'),
)
_LABELS = {"node": "instance"}
NAMES = ("datasource", *(name for name, _, _ in _QUERIES))


def data_source() -> DatasourceVariable:
    """Which Prometheus."""
    return DatasourceVariable("datasource").label("Data source").type("prometheus").hide(VariableHide.DONT_HIDE)


def choices() -> list[QueryVariable]:
    """Job, node, vendor, model and device; several of each, or all."""
    return [_choice(*item) for item in _QUERIES]


def _choice(name: str, label: str, series: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(label)
        .datasource(DATA_SOURCE)
        .query({"query": f"label_values({series}, {_LABELS.get(name, name)})", "refId": f"variable-{name}"})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
        .multi(True)
        .include_all(True)
        # A model may be unknown, which is an empty label.
        .all_value(".*")
        .current(_ALL)
    )
