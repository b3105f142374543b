"""Writes the metric catalogue as documentation."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from telemetry_exporters.text import aligned
from telemetry_parsers.metrics import CATALOGUE, OWN_LABELS, OWNER_LABELS
from telemetry_parsers.model import Metric

_INTRODUCTION = """\
# Metrics

Generated from the catalogue (`parsers/telemetry_parsers/metrics.py`) by `make docs`.

- Every device series has the labels `vendor`, `device`, `id` and `model`, and at most one more label. The values of
  these four labels never change once the device has been seen. `id` is unique per node: join with `on (cluster, job, instance, id)`.
- Other device properties (`uuid`, `bus_id`, `serial`, `driver`, `parent`, `partition`, `numa_node`, `power_kind`,
  firmware versions …) are labels of `accelerator_info`. If a property is unknown, its label is missing.
  `simulated="true"` marks simulated devices, and `replayed="true"` marks devices from a recording. `model_now` is the current model if it differs from the label `model`.
- If a reading is missing, so is its series; it is never replaced with 0, -1 or NaN. The JSON document contains the reason.
- A lost device has only `accelerator_up` (0), `accelerator_info` and its event counts.
- A value outside its metric's range is treated as missing, with the reason `implausible`.
- JSON (`/api/v1/snapshot`, `telemetry snapshot --format json`) contains each metric under its JSON key. For a metric with
  an additional label, the JSON value is an object whose keys are the label's values.
- All vendors share the label values below. A vendor's own name (`[a-z0-9_]+`, such as `hbm0`) is used only if none of
  these values fits.
- `/metrics` ends with the node's clock (`telemetry_time_seconds`) and the usual `process_…` metrics of the daemon. The
  textfile omits both, because node_exporter exposes its own.
- In OpenMetrics, the family names of counters and info metrics omit `_total` and `_info`. Sample names do not change.
"""
# Maps the first metric of a group to the group's title.
_GROUPS: Mapping[str, str] = {
    "info": "Core readings",
    "power_average_watts": "Power and energy",
    "temperature_slowdown_celsius": "Temperature and fan",
    "memory_free_bytes": "Memory",
    "engine_utilization_ratio": "Activity",
    "clock_hertz": "Clocks and performance",
    "pcie_link_generation": "PCIe",
    "link_up": "Links between devices",
    "ecc_enabled": "Faults, health and other metrics",
    "allocation_ratio": "Owners, if attribution is enabled",
    "telemetry_host_cpu_utilization_ratio": "Host",
    "telemetry_build_info": "The daemon itself",
}
_LABELS_BY_METRIC = {**OWN_LABELS, **OWNER_LABELS}
_HEADINGS = ("Metric", "Kind", "Unit", "Label", "Range", "Meaning", "JSON key")


def metrics_markdown() -> str:
    """Return the content of docs/metrics.md."""
    sections = [_INTRODUCTION]
    for title, metrics in _metrics_by_group():
        rows = [_HEADINGS, tuple("-" * len(heading) for heading in _HEADINGS), *map(_table_row, metrics)]
        sections.append(f"## {title}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows))
    return "\n".join(sections)


def _metrics_by_group() -> Iterator[tuple[str, list[Metric]]]:
    title, group = "", list[Metric]()
    for metric in CATALOGUE:
        if metric.key in _GROUPS:
            if group:
                yield title, group
            title, group = _GROUPS[metric.key], []
        group.append(metric)
    yield title, group


def _table_row(metric: Metric) -> tuple[str, ...]:
    return (
        f"`{metric.name}`",
        metric.kind,
        metric.unit,
        _label_text(metric),
        _range_text(metric),
        metric.help.replace("|", r"\|"),
        f"`{metric.key}`" if metric.scope in ("device", "host") and metric.key not in ("info", "up", "unread") else "",
    )


def _label_text(metric: Metric) -> str:
    if metric.name in _LABELS_BY_METRIC:
        names = ", ".join(f"`{name}`" for name in _LABELS_BY_METRIC[metric.name])
        return f"{names}: {' '.join(metric.words)}" if metric.words else names
    if not metric.label:
        return ""
    return f"`{metric.label}`: {' '.join(metric.words) or 'as the vendor names it'}"


def _range_text(metric: Metric) -> str:
    if metric.kind == "info":
        return "1"
    low, high = f"{metric.low:g}", f"{metric.high:g}"
    return f"from {low}" if high == "inf" else f"{low} to {high}"


def metrics_list(plugin_metrics: Iterable[Metric] = ()) -> str:
    """Return one line per metric, including plugin metrics: name, kind, unit, label, help."""
    rows = [
        (
            metric.name,
            metric.kind,
            metric.unit or "-",
            metric.label or ",".join(_LABELS_BY_METRIC.get(metric.name, ())) or "-",
            metric.help,
        )
        for metric in (*CATALOGUE, *plugin_metrics)
    ]
    return "".join(f"{line}\n" for line in aligned(rows))


if __name__ == "__main__":
    sys.stdout.write(metrics_markdown())
