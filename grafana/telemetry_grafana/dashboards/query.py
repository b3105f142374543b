"""Queries of panels: checked against the catalogue, with the dashboard's variables filled into their selectors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Template
from typing import Literal

from telemetry_grafana.promql import checked
from telemetry_grafana.rules import recording

Form = Literal["range", "instant", "table"]

_OF_CARDS = re.compile(r"accelerator_\w+\{\$cards[^}]*\}")

# `{$cards}` in a query: the cards that the variables choose; `{$nodes}`: the daemons of their nodes.
SELECTORS = {
    "jobs": 'cluster=~"$cluster",job=~"$job"',
    "nodes": 'cluster=~"$cluster",job=~"$job",instance=~"$node"',
    "cards": 'cluster=~"$cluster",job=~"$job",instance=~"$node",vendor=~"$vendor",model=~"$model",device=~"$device"',
    "vendors": 'cluster=~"$cluster",job=~"$job",instance=~"$node",vendor=~"$vendor"',
    "models": 'cluster=~"$cluster",job=~"$job",vendor=~"$vendor",model=~"$model"',
}

# A card of the few that are chosen, in a legend.
CARD_OF_NODE = "{{instance}} {{vendor}} {{device}}"
# A card in a ranking. A long name is cut at its end, so the node's domain stands there and not the card's number. Grafana
# reckons with characters and not their width: the last blank makes room for wide ones.
RANKED = "{{vendor}} {{device}} {{instance}} "


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel; `legend` names its series by labels in double braces."""

    expression: str
    legend: str
    form: Form = "range"


def query(text: str, legend: str = "", form: Form = "range") -> Query:
    """A query from its text. Raises QueryError for an unknown metric or label."""
    expression = Template(text.replace("$__", "$$__")).substitute(SELECTORS)
    return Query(checked(" ".join(expression.split()), recording.recorded()), legend, form)


def by_card(text: str) -> Query:
    """A series for each card, ordered by node and by number: Prometheus' own order has 10 before 2."""
    joined = f'label_join({text}, "card", " ", "instance", "vendor", "device")'
    # A second blank puts 2 before 10.
    return query(f'label_replace({joined}, "card", "$$1  $$2", "card", "(.*) ([0-9])")', "{{card}}")


def of_cards(*series: tuple[str, str], card: str = "{{device}}") -> tuple[Query, ...]:
    """A query for each text, its legend after the card's, and an entry "n/a" for the models that have none of the series."""
    queries = [query(text, f"{card} {legend}".rstrip()) for text, legend in series]
    selectors = dict.fromkeys(selector for text, _ in series for selector in _OF_CARDS.findall(text))
    return (*queries, untold(*selectors))


def untold(*selectors: str) -> Query:
    """An entry "n/a" in the legend for each model whose cards are up and have none of these series."""
    any_selector = " or ".join(selectors)
    return query(
        f"0 / 0 * count by (vendor, model) (accelerator_up{{$cards}} == 1 unless on (cluster, job, instance, id) ({any_selector}))",
        "{{vendor}} {{model}}: n/a",
    )


def highest(text: str, legend: str, by: str, most: int = 15, among: str = "") -> Query:
    """The series with the highest values in the time shown, as many as fit into a legend; `among` narrows the choice."""
    return query(f"{text} and on ({by}) topk({most}, max_over_time({text}[$__range] @ end()){among})", legend)


def fastest(counter: str, legend: str, by: str, among: str = "") -> Query:
    """The rates of the counters that grew most in the time shown; `among` narrows the choice."""
    chosen = f"topk(15, increase({counter}[$__range] @ end()){among})"
    return query(f"rate({counter}[$__rate_interval]) and on ({by}) {chosen}", legend)


def of_node(text: str, more: str = "") -> Query:
    """A series for each card of a node, or of the few that are chosen."""
    return query(text, f"{CARD_OF_NODE} {more}".rstrip())
