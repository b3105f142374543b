"""Builds and checks the queries of panels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import Template
from typing import Literal

from telemetry_grafana.promql import CARD, NODE, PARTITIONS, check_query
from telemetry_grafana.rules import recording
from telemetry_parsers.vendors import VENDOR_WORDS

Form = Literal["range", "instant", "table"]

_CARD_SELECTOR = re.compile(r"accelerator_\w+\{\$cards[^}]*\}")

# `{$cards}` in a query selects the chosen cards, `{$nodes}` selects their nodes.
SELECTORS = {
    "jobs": 'cluster=~"$cluster",job=~"$job"',
    "nodes": 'cluster=~"$cluster",job=~"$job",instance=~"$node"',
    "cards": 'cluster=~"$cluster",job=~"$job",instance=~"$node",vendor=~"$vendor",model=~"$model",device=~"$device"',
    "vendors": 'cluster=~"$cluster",job=~"$job",instance=~"$node",vendor=~"$vendor"',
    # Alerts about a whole job or fleet have no node.
    "alerted": 'cluster=~"$cluster",job=~"$job",instance=~"$node|"',
    "models": 'cluster=~"$cluster",job=~"$job",vendor=~"$vendor",model=~"$model"',
}

_CARD_KEY, _NODE_KEY = f"{NODE}, vendor, device", f"{NODE}, vendor"
# On nodes with several vendors, a card's number is unique only together with the vendor.
_MIXED = f"(count by ({NODE}) (group by ({NODE}, vendor) (last_over_time(telemetry_devices{{$nodes}}[$__range] @ end()))) > 1)"
# Matches "VENDOR MODEL" if the model's name itself begins with the vendor's name.
_NAMES_WITH_VENDOR = "(?i)" + "|".join(f"{word} ({word}.*)" for word in VENDOR_WORDS)
_ALL_GROUPS = "".join(f"$${group + 1}" for group in range(len(VENDOR_WORDS)))
# The number of series that fit into a legend.
_MAX_SERIES = 8
# Grafana cuts long names at the end, so the node comes last. The blank at the end leaves room for wide characters.
RANKING_LEGEND = "{{vendor}} {{device}} {{instance}} "


@dataclass(frozen=True, slots=True)
class Query:
    """A panel's query, with a legend that names its series."""

    expression: str
    legend: str
    form: Form = "range"


def query(promql: str, legend: str = "", form: Form = "range") -> Query:
    """Build a query from PromQL with placeholders such as `{$cards}`. Raise QueryError if it is invalid."""
    expression = Template(promql.replace("$__", "$$__")).substitute(SELECTORS)
    return Query(check_query(" ".join(expression.split()), recording.recorded_labels()), legend, form)


def _name_series(name: str, labels: str, labels_if_mixed: str, series: str, key: str) -> str:
    """Return series with a new label `name`: the values of `labels`, or of `labels_if_mixed` on nodes with several vendors."""
    # Without `@ end()`, Prometheus would compute the names at each step, which doubles the query's duration.
    grouped = f"group by ({key}) (last_over_time({series}[$__range] @ end()))"
    single_vendor = f'label_join({grouped} unless on ({NODE}) {_MIXED}, "{name}", " ", {labels})'
    return f'({single_vendor} or label_join({grouped} and on ({NODE}) {_MIXED}, "{name}", " ", {labels_if_mixed}))'


_CARD_NAMES = _name_series(
    "card", '"instance", "device"', '"instance", "vendor", "device"', "accelerator_up{$cards}", _CARD_KEY
)
_NODE_NAMES = _name_series("node", '"instance"', '"instance", "vendor"', "telemetry_devices{$vendors}", _NODE_KEY)
# A second blank before one-digit numbers, so that 2 comes before 10.
_ORDERED_CARD_NAMES = f'label_replace({_CARD_NAMES}, "card", "$$1  $$2", "card", "(.*) ([0-9])")'


def with_card_label(promql: str, names: str = _CARD_NAMES) -> str:
    """Return the expression with the additional label `card`: the node's name and the card number."""
    return f"({promql}) * on ({_CARD_KEY}) group_left (card) {names}"


def with_node_label(promql: str) -> str:
    """Return the expression with the additional label `node`: the node's name."""
    return f"({promql}) * on ({_NODE_KEY}) group_left (node) {_NODE_NAMES}"


def query_by_model(promql: str, suffix: str = "") -> Query:
    """Return a query with a series for each model."""
    with_name = f'label_join({promql}, "name", " ", "vendor", "model")'
    return query(
        f'label_replace({with_name}, "name", "{_ALL_GROUPS}", "name", "{_NAMES_WITH_VENDOR}")', f"{{{{name}}}}{suffix}"
    )


def query_by_card(promql: str) -> Query:
    """Return a query with a series for each card, in the order of card numbers."""
    return query(with_card_label(promql, _ORDERED_CARD_NAMES), "{{card}}")


def card_queries(*series: tuple[str, str]) -> tuple[Query, ...]:
    """Return a query for each pair (PromQL, legend), followed by a `not_reported_query`."""
    queries = [query(promql, f"{{{{device}}}} {legend}".rstrip()) for promql, legend in series]
    return (*queries, not_reported_query(*_card_selectors(series)))


def node_queries(*series: tuple[str, str]) -> tuple[Query, ...]:
    """Return a query for each pair (PromQL, legend) on the chosen nodes, followed by a `not_reported_query`."""
    return (*(node_query(promql, legend) for promql, legend in series), not_reported_query(*_card_selectors(series)))


def _card_selectors(series: Sequence[tuple[str, str]]) -> Iterable[str]:
    return dict.fromkeys(selector for promql, _ in series for selector in _CARD_SELECTOR.findall(promql))


def not_reported_query(*selectors: str) -> Query:
    """Return a query for the models that report none of the selected series."""
    any_selector = " or ".join(selectors)
    return query_by_model(
        f"0 / 0 * count by (vendor, model) (accelerator_up{{$cards}} == 1"
        f" unless on ({CARD}) {PARTITIONS} unless on ({CARD}) ({any_selector}))",
        ": n/a",
    )


def top_series_query(promql: str, legend: str, by: str, max_count: int = _MAX_SERIES, condition: str = "") -> Query:
    """Return a query for the series with the highest values in the time range. `by` are the labels that identify a series."""
    return query(_top_expression(promql, by, max_count, condition), legend)


def _top_expression(promql: str, by: str, max_count: int = _MAX_SERIES, condition: str = "") -> str:
    return f"{promql} and on ({by}) topk({max_count}, max_over_time({promql}[$__range] @ end()){condition})"


def top_nodes_query(promql: str) -> Query:
    """Return a query for the nodes with the highest values."""
    return query(with_node_label(_top_expression(promql, _NODE_KEY)), "{{node}}")


def top_rates_query(counter: str, legend: str, by: str, condition: str = "") -> Query:
    """Return a query for the rates of the counters that grew most."""
    top_counters = f"topk({_MAX_SERIES}, increase({counter}[$__range] @ end()){condition})"
    return query(f"rate({counter}[$__rate_interval]) and on ({by}) {top_counters}", legend)


def node_query(promql: str, suffix: str = "") -> Query:
    """Return a query with a series for each card of the chosen nodes."""
    return query(with_card_label(promql), f"{{{{card}}}} {suffix}".rstrip())
