"""Checks the metrics and labels in PromQL against the catalogue."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from telemetry_parsers.metrics import BY_NAME, OWN_LABELS, OWNER_LABELS
from telemetry_parsers.model import Metric

# Metrics of Prometheus itself and of every exporter.
FOREIGN_METRICS = frozenset({"up", "scrape_duration_seconds", "scrape_samples_scraped"}) | frozenset(
    {"process_start_time_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"}
)
# `cluster` exists only if several clusters share a store.
NODE = "cluster, job, instance"
CARD = f"{NODE}, id"
MODEL = "cluster, job, vendor, model"
MODEL_IN_NODE = f"{NODE}, vendor, model"
# Selects partitions. Most counts of cards exclude them.
PARTITIONS = 'accelerator_info{parent!=""}'
DEVICE = f"{NODE}, vendor, device, id, model"
_TARGET_LABELS = frozenset(NODE.split(", "))
_DEVICE_LABELS = frozenset(DEVICE.split(", "))
# Only accelerator_info has these labels.
_INFO_LABELS = frozenset(
    {"uuid", "bus_id", "serial", "driver", "parent", "partition", "numa_node", "power_kind", "peak_origin"}
    | {"simulated", "replayed", "model_now", "profile"}
)
# Prometheus shows the state of its alerts as series.
_ALERT_SERIES = frozenset({"ALERTS", "ALERTS_FOR_STATE"})
_ALERT_LABELS = frozenset({"alertname", "alertstate", "severity"})
# Inference servers' counters have these labels.
_INFERENCE_LABELS = frozenset({"namespace", "pod", "model_name"})
_RANK_LABELS = frozenset({"rank", "server"})
# Labels that panel queries create for their legends.
_NAME_LABELS = frozenset({"card", "node"})
_GROUPING_LABELS = (
    _DEVICE_LABELS | _INFO_LABELS | _RANK_LABELS | _ALERT_LABELS | _NAME_LABELS | _INFERENCE_LABELS
).union((metric.label for metric in BY_NAME.values()), *OWN_LABELS.values(), *OWNER_LABELS.values())

# For these labels, parsers report only the values in the catalogue.
_CLOSED_LABELS = frozenset({"state", "level", "action", "domain", "engine", "dtype"})

_SELECTOR = re.compile(r"\b([a-zA-Z_][a-zA-Z0-9_:]*)\s*(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*\"((?:[^\"\\]|\\.)*)\"\s*(?:,|\Z)")
_OUR_METRIC = re.compile(
    r"(accelerator|telemetry|process|scrape|instance|model|fleet)[_:]|(pod|model_name|job_id):|(up|ALERTS|ALERTS_FOR_STATE)\Z"
)
_SELECTOR_OR_STRING = re.compile(r"(?P<selector>\{[^}]*\})|\"(?:[^\"\\]|\\.)*\"")
_GROUPINGS = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


def prefix_pattern(words: Collection[str]) -> str:
    """Return a regular expression for strings that start with one of these words."""
    return f"({'|'.join(words)}).*"


class QueryError(ValueError):
    """A query contains an unknown metric or label."""


def check_query(query: str, recorded: Mapping[str, Collection[str]] = MappingProxyType({})) -> str:
    """Return the query. Raise QueryError for an unknown metric or label."""
    # A word in a string, such as an argument of label_replace, is not a metric.
    selectors = _SELECTOR_OR_STRING.sub(lambda match: match["selector"] or '""', _GROUPINGS.sub("", query))
    for match in _SELECTOR.finditer(selectors):
        name = match[1]
        if _OUR_METRIC.match(name):
            _check_matchers(name, match[2] or "", labels_of(name, recorded))
    for grouping in _GROUPINGS.finditer(query):
        for label in filter(None, (part.strip() for part in grouping[2].split(","))):
            if label not in _GROUPING_LABELS:
                raise QueryError(f"unknown label {label!r} in: {query}")
    return query


def labels_of(name: str, recorded: Mapping[str, Collection[str]] = MappingProxyType({})) -> frozenset[str]:
    """Return the labels that a metric may have. Raise QueryError if the metric is unknown."""
    if name in recorded:
        return frozenset(recorded[name])
    if name in FOREIGN_METRICS:
        return _TARGET_LABELS
    if name in _ALERT_SERIES:
        return _DEVICE_LABELS | _ALERT_LABELS
    metric = BY_NAME.get(name)
    if metric is None:
        raise QueryError(f"unknown metric {name!r}")
    if metric.scope == "device":
        return _device_labels(metric)
    if metric.scope == "owner":
        return _DEVICE_LABELS | frozenset(OWNER_LABELS[name])
    # Nodes that push their metrics have the label `pushed` (deploy/agents/targets/node.yml).
    return _TARGET_LABELS | {"pushed"} | frozenset(OWN_LABELS.get(name, ()))


def _device_labels(metric: Metric) -> frozenset[str]:
    if metric.key == "info":
        return _DEVICE_LABELS | _INFO_LABELS
    if metric.key == "rank_info":
        return _DEVICE_LABELS | _RANK_LABELS
    return _DEVICE_LABELS | ({metric.label} if metric.label else frozenset())


def _check_matchers(name: str, matchers: str, labels: frozenset[str]) -> None:
    offset = 0
    while matchers[offset:].strip():
        match = _MATCHER.match(matchers, offset)
        if match is None:
            raise QueryError(f"invalid matchers of {name}: {matchers!r}")
        label, _, text = match.groups()
        if label not in labels:
            raise QueryError(f"{name} has no label {label!r}; its labels are {', '.join(sorted(labels))}")
        _check_label_values(name, label, text)
        offset = match.end()


def _check_label_values(name: str, label: str, text: str) -> None:
    """Raise QueryError if `text` contains a word that the label never has as its value."""
    metric = BY_NAME.get(name)
    if metric is None or label not in _CLOSED_LABELS or not metric.words or not re.fullmatch(r"[a-z0-9_|]*", text):
        return
    unknown = [word for word in text.split("|") if word and word not in metric.words]
    if unknown:
        raise QueryError(f"{name} has no {label} {', '.join(unknown)}; the values are {', '.join(metric.words)}")
