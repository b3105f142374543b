"""Slow host, slow card: each card against the median of the cards of its model."""

from __future__ import annotations

from telemetry_grafana.dashboards.page import Page, Section
from telemetry_grafana.dashboards.panels import GREEN, RED, YELLOW, Column, Panel, card_table, lines, ranking
from telemetry_grafana.dashboards.query import cards, column, now

_ROW = "by (job, instance, vendor, device, id, model)"
_SCORE = ((None, RED), (-3, YELLOW), (-2, GREEN), (2, YELLOW), (3, RED))
_COMPARED = (
    ("utilization", "utilization_ratio", "percentunit"),
    ("temperature", "temperature_celsius", "celsius"),
    ("power", "power_watts", "watt"),
    ("clock", "clock_hertz", "hertz"),
)


def _deviations() -> tuple[Panel, ...]:
    return tuple(
        lines(
            f"{title.capitalize()} against the median",
            f"How far the {title} of each card is from the median of its model; a line far below or above the bundle stands out.",
            unit,
            cards(f"accelerator:{name}:deviation{{$cards}}"),
            minimum=None,
        )
        for title, name, unit in _COMPARED
    )


STRAGGLERS = Page(
    uid="telemetry-stragglers",
    title="Accelerators: stragglers",
    description=(
        "Each card against the median of the cards of its model in the same job of Prometheus. In one training job over all "
        "of them the slow card shows at once: low clocks or high temperature name the cause, low utilization the victims."
    ),
    sections=(
        Section(
            "Who stands out",
            (
                card_table(
                    "Scores",
                    "Standard deviations from the median of the peers; beyond 3 either way is red. n/a: too few peers, or all alike.",
                    ("instance", "vendor", "device", "model"),
                    tuple(
                        Column(title, "short", column(f"max {_ROW} (accelerator:{name}:zscore{{$cards}})"), _SCORE)
                        for title, name, _ in _COMPARED
                    ),
                ),
                ranking(
                    "Least work",
                    "Cards that do most less than the median of their model.",
                    "percentunit",
                    now(
                        "bottomk(10, accelerator:utilization_ratio:deviation{$cards})",
                        "{{instance}} {{vendor}} {{device}}",
                    ),
                    ((None, RED), (-0.2, YELLOW), (-0.05, GREEN)),
                ),
                ranking(
                    "Lowest clocks",
                    "Cards whose clock is most below the median of their model.",
                    "hertz",
                    now("bottomk(10, accelerator:clock_hertz:deviation{$cards})", "{{instance}} {{vendor}} {{device}}"),
                ),
                ranking(
                    "Hottest against their peers",
                    "Cards that are most above the median of their model.",
                    "celsius",
                    now(
                        "topk(10, accelerator:temperature_celsius:deviation{$cards})",
                        "{{instance}} {{vendor}} {{device}}",
                    ),
                    ((None, GREEN), (8, YELLOW), (15, RED)),
                ),
            ),
        ),
        Section("Over time", _deviations()),
        Section(
            "Slow hosts",
            (
                lines(
                    "Utilization by node",
                    "A node whose cards all do less than those of the others.",
                    "percentunit",
                    cards("instance:accelerator_utilization_ratio:avg{$vendors}", "{{instance}} {{vendor}}"),
                ),
                lines(
                    "Host CPU",
                    "A busy host starves its cards.",
                    "percentunit",
                    cards("telemetry_host_cpu_utilization_ratio{$nodes}", "{{instance}}"),
                ),
            ),
        ),
    ),
)
