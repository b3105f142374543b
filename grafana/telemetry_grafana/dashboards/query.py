"""Queries of panels: checked against the catalogue, with the dashboard's variables in their selectors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import Template
from typing import Literal

from telemetry_grafana.promql import CARD, NODE, PARTITIONS, checked
from telemetry_grafana.rules import recording
from telemetry_parsers.vendors import VENDOR_WORDS

Form = Literal["range", "instant", "table"]

_OF_CARDS = re.compile(r"accelerator_\w+\{\$cards[^}]*\}")

# `{$cards}` in a query selects the cards that the variables choose, `{$nodes}` the daemons of their nodes.
SELECTORS = {
    "jobs": 'cluster=~"$cluster",job=~"$job"',
    "nodes": 'cluster=~"$cluster",job=~"$job",instance=~"$node"',
    "cards": 'cluster=~"$cluster",job=~"$job",instance=~"$node",vendor=~"$vendor",model=~"$model",device=~"$device"',
    "vendors": 'cluster=~"$cluster",job=~"$job",instance=~"$node",vendor=~"$vendor"',
    # An alert about a whole job or fleet names no node.
    "alerted": 'cluster=~"$cluster",job=~"$job",instance=~"$node|"',
    "models": 'cluster=~"$cluster",job=~"$job",vendor=~"$vendor",model=~"$model"',
}

_CARD_PLACE, _NODE_OF_VENDOR = f"{NODE}, vendor, device", f"{NODE}, vendor"
# Nodes with cards of several vendors, where a card's number needs the vendor beside it.
_MIXED = f"(count by ({NODE}) (group by ({NODE}, vendor) (last_over_time(telemetry_devices{{$nodes}}[$__range] @ end()))) > 1)"
# A model whose name begins with its vendor's name, which is a group of its own.
_NAMED_AFTER_VENDOR = "(?i)" + "|".join(f"{word} ({word}.*)" for word in VENDOR_WORDS)
_ITS_GROUP = "".join(f"$${group + 1}" for group in range(len(VENDOR_WORDS)))
# As many series fit into a legend.
_MOST = 8
# A card in a ranking. A long name is cut at its end, so the node's domain is there and not the card's number. Grafana counts
# characters, not their width: the last blank makes room for wide ones.
RANKED = "{{vendor}} {{device}} {{instance}} "


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel; `legend` names its series by labels in double braces."""

    expression: str
    legend: str
    form: Form = "range"


def query(text: str, legend: str = "", form: Form = "range") -> Query:
    """Return a query from its text. Raises QueryError for an unknown metric or label."""
    expression = Template(text.replace("$__", "$$__")).substitute(SELECTORS)
    return Query(checked(" ".join(expression.split()), recording.recorded()), legend, form)


def _names(name: str, of_one: str, of_mixed: str, those: str, key: str) -> str:
    """Return a series of value 1 for each key with a joined label, of more labels on nodes with several vendors."""
    # One result for the whole time shown, because joining the names at each step took as long as all the rest.
    of_all = f"group by ({key}) (last_over_time({those}[$__range] @ end()))"
    plain = f'label_join({of_all} unless on ({NODE}) {_MIXED}, "{name}", " ", {of_one})'
    return f'({plain} or label_join({of_all} and on ({NODE}) {_MIXED}, "{name}", " ", {of_mixed}))'


_CARD_NAMES = _names(
    "card", '"instance", "device"', '"instance", "vendor", "device"', "accelerator_up{$cards}", _CARD_PLACE
)
_NODE_NAMES = _names("node", '"instance"', '"instance", "vendor"', "telemetry_devices{$vendors}", _NODE_OF_VENDOR)
# A second blank sorts 2 before 10.
_ORDERED_CARD_NAMES = f'label_replace({_CARD_NAMES}, "card", "$$1  $$2", "card", "(.*) ([0-9])")'


def named(text: str, names: str = _CARD_NAMES) -> str:
    """Return the series of cards with the label `card`: node and number, with the vendor between them on nodes with several vendors."""
    return f"({text}) * on ({_CARD_PLACE}) group_left (card) {names}"


def named_nodes(text: str) -> str:
    """Return the series of a vendor's cards of a node with the label `node`: its name, with the vendor on nodes with several vendors."""
    return f"({text}) * on ({_NODE_OF_VENDOR}) group_left (node) {_NODE_NAMES}"


def by_model(text: str, more: str = "") -> Query:
    """Return the series of models, with vendor and model as their legend. Some vendors' names are part of the model."""
    joined = f'label_join({text}, "name", " ", "vendor", "model")'
    return query(
        f'label_replace({joined}, "name", "{_ITS_GROUP}", "name", "{_NAMED_AFTER_VENDOR}")', f"{{{{name}}}}{more}"
    )


def by_card(text: str) -> Query:
    """Return a series for each card, ordered by node and number. Prometheus itself sorts 10 before 2."""
    return query(named(text, _ORDERED_CARD_NAMES), "{{card}}")


def of_cards(*series: tuple[str, str]) -> tuple[Query, ...]:
    """Return a query for each text, its legend after the card's, and an entry "n/a" for the models without any of the series."""
    queries = [query(text, f"{{{{device}}}} {legend}".rstrip()) for text, legend in series]
    return (*queries, not_reported(*_selectors(series)))


def side_by_side(*series: tuple[str, str]) -> tuple[Query, ...]:
    """Return a query for each text for the cards of a node, and an entry "n/a" for the models without any of the series."""
    return (*(of_node(text, legend) for text, legend in series), not_reported(*_selectors(series)))


def _selectors(series: Sequence[tuple[str, str]]) -> Iterable[str]:
    return dict.fromkeys(selector for text, _ in series for selector in _OF_CARDS.findall(text))


def not_reported(*selectors: str) -> Query:
    """Return an entry "n/a" for each model whose whole cards are up and have none of these series."""
    any_selector = " or ".join(selectors)
    return by_model(
        f"0 / 0 * count by (vendor, model) (accelerator_up{{$cards}} == 1"
        f" unless on ({CARD}) {PARTITIONS} unless on ({CARD}) ({any_selector}))",
        ": n/a",
    )


def highest(text: str, legend: str, by: str, most: int = _MOST, among: str = "") -> Query:
    """Return the series with the highest values in the time shown, as many as fit into a legend; `among` narrows the choice."""
    return query(_highest(text, by, most, among), legend)


def _highest(text: str, by: str, most: int = _MOST, among: str = "") -> str:
    return f"{text} and on ({by}) topk({most}, max_over_time({text}[$__range] @ end()){among})"


def highest_nodes(text: str) -> Query:
    """Return the highest values of a recorded series of each vendor's cards of a node."""
    return query(named_nodes(_highest(text, _NODE_OF_VENDOR)), "{{node}}")


def fastest(counter: str, legend: str, by: str, among: str = "") -> Query:
    """Return the rates of the counters that grew most in the time shown; `among` narrows the choice."""
    chosen = f"topk({_MOST}, increase({counter}[$__range] @ end()){among})"
    return query(f"rate({counter}[$__rate_interval]) and on ({by}) {chosen}", legend)


def of_node(text: str, more: str = "") -> Query:
    """Return a series for each card of a node, or of the few that are chosen."""
    return query(named(text), f"{{{{card}}}} {more}".rstrip())
