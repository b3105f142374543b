"""OpenTelemetry's names of the metrics (`hw.*`, semantic conventions 1.44, in development), and the Collector's block that adds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import yaml

# A Prometheus gauge must become a sum if the convention is an UpDownCounter.
Instrument = Literal["Gauge", "Counter", "UpDownCounter"]


class Name(NamedTuple):
    """A metric, its OpenTelemetry name, unit and instrument, and the attributes that all its points share."""

    ours: str
    otel_name: str
    unit: str
    instrument: Instrument
    attributes: Mapping[str, str] = MappingProxyType({})


_GENERAL, _ERRORS = {"hw.gpu.task": "general"}, "{error}"
NAMES = (
    Name("accelerator_utilization_ratio", "hw.gpu.utilization", "1", "Gauge", _GENERAL),
    Name("accelerator_engine_utilization_ratio", "hw.gpu.utilization", "1", "Gauge"),
    Name("accelerator_memory_used_bytes", "hw.gpu.memory.usage", "By", "UpDownCounter"),
    Name("accelerator_memory_total_bytes", "hw.gpu.memory.limit", "By", "UpDownCounter"),
    Name("accelerator_memory_used_ratio", "hw.gpu.memory.utilization", "1", "Gauge"),
    Name("accelerator_pcie_receive_bytes_total", "hw.gpu.io", "By", "Counter", {"network.io.direction": "receive"}),
    Name("accelerator_pcie_transmit_bytes_total", "hw.gpu.io", "By", "Counter", {"network.io.direction": "transmit"}),
    Name("accelerator_power_watts", "hw.power", "W", "Gauge"),
    Name("accelerator_energy_joules_total", "hw.energy", "J", "Counter"),
    Name("accelerator_temperature_celsius", "hw.temperature", "Cel", "Gauge", {"hw.type": "temperature"}),
    Name(
        "accelerator_temperature_slowdown_celsius",
        "hw.temperature.limit",
        "Cel",
        "Gauge",
        {"hw.limit_type": "high.degraded", "hw.type": "temperature"},
    ),
    Name(
        "accelerator_temperature_shutdown_celsius",
        "hw.temperature.limit",
        "Cel",
        "Gauge",
        {"hw.limit_type": "high.critical", "hw.type": "temperature"},
    ),
    Name("accelerator_fan_ratio", "hw.fan.speed_ratio", "1", "Gauge", {"hw.type": "fan"}),
    Name("accelerator_ecc_corrected_total", "hw.errors", _ERRORS, "Counter", {"error.type": "corrected"}),
    Name("accelerator_ecc_uncorrected_total", "hw.errors", _ERRORS, "Counter", {"error.type": "uncorrected"}),
    Name("accelerator_health", "hw.status", "1", "UpDownCounter"),
)
# Maps our labels to attributes. The parent of a sensor or fan is the card.
ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        "id": "hw.id",
        "device": "hw.name",
        "model": "hw.model",
        "vendor": "hw.vendor",
        "sensor": "hw.sensor_location",
        "engine": "hw.gpu.task",
        "state": "hw.state",
    }
)
# Only documented, because the Collector cannot join the labels of accelerator_info.
FACTS: Mapping[str, str] = MappingProxyType(
    {"serial": "hw.serial_number", "driver": "hw.driver_version", "parent": "hw.parent"}
)
_STATES = {"warning": "degraded", "alarm": "degraded", "critical": "failed"}
_COPIED = 'IsMatch(metric.name, "^hw[.][0-9]+$$")'


def table() -> str:
    """Return the names and the attributes as Markdown."""
    head = "| Ours | OpenTelemetry | Unit | Instrument | Attributes |\n| --- | --- | --- | --- | --- |\n"
    rows = (
        f"| `{name.ours}` | `{name.otel_name}` | `{name.unit}` | {name.instrument} | {_attribute_list(name.attributes)} |\n"
        for name in NAMES
    )
    labels = "".join(f"| `{label}` | `{attribute}` |\n" for label, attribute in {**ATTRIBUTES, **FACTS}.items())
    return f"{head}{''.join(rows)}\n| Our label | Attribute |\n| --- | --- |\n{labels}"


def _attribute_list(attributes: Mapping[str, str]) -> str:
    return ", ".join(f'`{name}="{text}"`' for name, text in attributes.items())


def transform() -> str:
    """Return the Collector's processors, which copy each metric to its OpenTelemetry name and attributes.

    Until its attributes are set, a copy is named after its row in NAMES. Each step is its own block, because the statements
    of a block see all metrics as the previous block left them.
    """
    blocks = (("metric", _copies()), ("metric", _sums()), ("datapoint", _attributes()), ("metric", _names()))
    statements = [{"context": context, "statements": list(lines)} for context, lines in blocks]
    processors = {"transform/hw": {"error_mode": "ignore", "metric_statements": statements}}
    return yaml.safe_dump({"processors": processors}, sort_keys=False, width=10_000)


def _is_copy(row: int) -> str:
    return f'metric.name == "hw.{row}"'


def _copies() -> Iterator[str]:
    for row, name in enumerate(NAMES):
        yield f'copy_metric(name="hw.{row}", unit="{name.unit}") where metric.name == "{name.ours}"'


def _sums() -> Iterator[str]:
    for row, name in enumerate(NAMES):
        if name.instrument == "UpDownCounter":
            yield f'convert_gauge_to_sum("cumulative", false) where {_is_copy(row)}'


def _attributes() -> Iterator[str]:
    yield f'set(datapoint.attributes["hw.type"], "gpu") where {_COPIED}'
    for label, attribute in ATTRIBUTES.items():
        value = f'datapoint.attributes["{label}"]'
        yield f'set(datapoint.attributes["{attribute}"], {value}) where {_COPIED} and {value} != nil'
    for state, otel_state in _STATES.items():
        has_state = f'datapoint.attributes["hw.state"] == "{state}"'
        yield f'set(datapoint.attributes["hw.state"], "{otel_state}") where {_COPIED} and {has_state}'
    for row, name in enumerate(NAMES):
        for attribute, text in name.attributes.items():
            yield f'set(datapoint.attributes["{attribute}"], "{text}") where {_is_copy(row)}'
        if "hw.type" in name.attributes:
            yield f'set(datapoint.attributes["hw.parent"], datapoint.attributes["hw.id"]) where {_is_copy(row)}'


def _names() -> Iterator[str]:
    for row, name in enumerate(NAMES):
        yield f'set(metric.name, "{name.otel_name}") where {_is_copy(row)}'
