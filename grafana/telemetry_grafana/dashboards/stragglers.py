"""The dashboard of stragglers, which compares each card with the median of its model."""

from __future__ import annotations

from telemetry_grafana.dashboards import shared
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import (
    AROUND_ZERO,
    GREEN,
    RED,
    YELLOW,
    Column,
    Panel,
    card_table,
    line_panel,
    ranking_panel,
    rising,
)
from telemetry_grafana.dashboards.query import query, top_series_query, with_node_label
from telemetry_grafana.promql import NODE

_SCORE_STEPS = ((None, RED), (-5, YELLOW), (-3, GREEN), (3, YELLOW), (5, RED))
_COMPARED = (
    ("utilization", "utilization_ratio", "percentunit"),
    ("clock", "clock_hertz", "hertz"),
    ("temperature", "temperature_celsius", "celsius"),
    ("power", "power_watts", "watt"),
)
# The label `of` distinguishes a card's scores. Without it, PromQL's `or` would keep only the first score.
_FURTHEST = " or ".join(
    f'label_replace(abs(accelerator:{name}:zscore{{$cards}}), "of", "{name}", "", "")' for _, name, _ in _COMPARED
)
# A chart shows at most this many cards on each side of the median, or at most this many nodes.
_MAX_ROWS = 10

_SCORES = card_table(
    "Scores",
    "Distance from the peers' median, in robust standard deviations. Scores beyond 5 or -5 are "
    "red. Cards with the furthest scores come first. n/a: fewer than three peers, or not reported.",
    shared.CARD_LABELS,
    (
        Column("furthest", f"max {shared.BY_CARD} ({_FURTHEST})", steps=_SCORE_STEPS, decimals=1),
        *(
            Column(title, f"max {shared.BY_CARD} (accelerator:{name}:zscore{{$cards}})", steps=_SCORE_STEPS, decimals=1)
            for title, name, _ in _COMPARED
        ),
    ),
    sort=("-furthest",),
)


def _deviation_panel(title: str, name: str, unit: str) -> Panel:
    series = f"accelerator:{name}:deviation{{$cards}}"
    return line_panel(
        f"{title.capitalize()} against the median",
        f"The difference between a card's {title} and the median of its model, for the {_MAX_ROWS} cards furthest above the median "
        f"and the {_MAX_ROWS} furthest below. A line far from the others is a card that stands out.",
        unit,
        query(
            f"round({series} and on (cluster, job, instance, id) (topk({_MAX_ROWS}, max_over_time({series}[$__range] @ end()))"
            f" or bottomk({_MAX_ROWS}, min_over_time({series}[$__range] @ end()))), 0.0001)",
            "{{instance}} {{vendor}} {{device}}",
        ),
        axis=AROUND_ZERO,
    )


STRAGGLERS = Page(
    uid="telemetry-stragglers",
    title="Accelerators: stragglers",
    description=(
        "Compares each card with the median of its model in the same Prometheus job. If one training job uses all these "
        "cards, a slow card stands out: its clock is low or its temperature is high, and the cards that wait for it are less busy."
    ),
    sections={
        "Cards that stand out": (
            ranking_panel(
                "Work below the median",
                "How far a card's utilization is below the median of its model.",
                "percentunit",
                "topk(10, -1 * accelerator:utilization_ratio:deviation{$cards} > 0)",
                rising(0.05, 0.2),
            ).with_empty_text("no card does less"),
            ranking_panel(
                "Clock below the median",
                "How far a card's clock is below the median of its model.",
                "hertz",
                "topk(10, -1 * accelerator:clock_hertz:deviation{$cards} > 0)",
                rising(5e7, 2e8),
            ).with_empty_text("no card is slower"),
            ranking_panel(
                "Temperature above the median",
                "How far a card's temperature is above the median of its model.",
                "celsius",
                "topk(10, accelerator:temperature_celsius:deviation{$cards} > 0)",
                rising(8, 15),
            ).with_empty_text("no card is hotter"),
            _SCORES,
        ),
        "Over time": tuple(_deviation_panel(*metric) for metric in _COMPARED),
        "Slow hosts": (
            line_panel(
                "Utilization by node",
                f"The {_MAX_ROWS} nodes with the lowest utilization.",
                "percentunit",
                query(
                    with_node_label(
                        "instance:accelerator_utilization_ratio:avg{$vendors} and on (cluster, job, instance, vendor)"
                        f" bottomk({_MAX_ROWS}, min_over_time(instance:accelerator_utilization_ratio:avg{{$vendors}}[$__range] @ end()))"
                    ),
                    "{{node}}",
                ),
            ),
            line_panel(
                "Host CPU",
                f"The {_MAX_ROWS} busiest hosts. A busy host slows its cards down.",
                "percentunit",
                top_series_query("telemetry_host_cpu_utilization_ratio{$nodes}", "{{instance}}", NODE, _MAX_ROWS),
            ),
        ),
    },
)
