"""The whole fleet: how many cards, which are lost or held back, how much power, memory and work."""

from __future__ import annotations

from telemetry_grafana.dashboards.page import Page, Section
from telemetry_grafana.dashboards.panels import (
    GREEN,
    RED,
    YELLOW,
    Column,
    card_table,
    heatmap,
    lines,
    number,
    ranking,
    stacked,
)
from telemetry_grafana.dashboards.query import cards, column, now, query

_ROW = "by (job, instance, vendor, device, id, model)"
_BAD = ((None, GREEN), (1, RED))
_DOUBTFUL = ((None, GREEN), (1, YELLOW))
_HOT = ((None, GREEN), (80, YELLOW), (95, RED))

FLEET = Page(
    uid="telemetry-fleet",
    title="Accelerators: fleet",
    description="All cards of all vendors: what there is, what is wrong, what is used.",
    sections=(
        Section(
            "Now",
            (
                number("Cards", "Whole cards that are up.", "short", now("sum(telemetry_devices{$vendors})")),
                number(
                    "Lost",
                    "Cards that were there and are not listed any more by a source that works.",
                    "short",
                    now("sum(accelerator_up{$cards} == bool 0)"),
                    _BAD,
                ),
                number(
                    "Held back",
                    "Cards that say that their clocks are held down.",
                    "short",
                    now("count(max by (job, instance, id) (accelerator_throttled{$cards}) == 1) or vector(0)"),
                    _DOUBTFUL,
                ),
                number(
                    "Sources that fail",
                    "Tools and libraries that are there and do not give what they should: their cards are not watched.",
                    "short",
                    now("sum(telemetry_source_up{$nodes} == bool 0)"),
                    _BAD,
                ),
                number("Power", "Power drawn by all cards.", "watt", now("sum(accelerator_power_watts{$cards})")),
                number(
                    "Nodes",
                    "Nodes whose daemon answers.",
                    "short",
                    now("count(telemetry_build_info{$nodes})"),
                ),
            ),
        ),
        Section(
            "What there is",
            (
                stacked(
                    "Cards by model",
                    "Whole cards that are up, by vendor and model.",
                    "short",
                    query("sum by (vendor, model) (telemetry_devices{$vendors})", "{{vendor}} {{model}}"),
                ),
                lines(
                    "Utilization by model",
                    "True averages over five minutes, from the seconds that each daemon integrates.",
                    "percentunit",
                    query("model:accelerator_utilization_ratio:avg{$models}", "{{vendor}} {{model}}"),
                ),
                stacked(
                    "Power by node",
                    "Power drawn by the cards of each node.",
                    "watt",
                    query("sum by (instance) (instance:accelerator_power_watts:sum{$vendors})", "{{instance}}"),
                ),
                lines(
                    "Power against the limits",
                    "All power drawn, and the sum of the limits of the cards that tell their power.",
                    "watt",
                    query("sum(accelerator_power_watts{$cards})", "drawn"),
                    query(
                        "sum(accelerator_power_cap_watts{$cards} and on (job, instance, id) accelerator_power_watts{$cards})",
                        "limits",
                    ),
                ),
            ),
        ),
        Section(
            "Each card",
            (
                heatmap(
                    "Utilization",
                    "A row for each card. Empty cells: nothing was collected, or the card does not tell.",
                    "percentunit",
                    cards("accelerator:utilization_ratio:rate5m{$cards}"),
                ),
                heatmap(
                    "Memory in use",
                    "Device memory in use as a share of all. A row for each card.",
                    "percentunit",
                    cards("accelerator_memory_used_ratio{$cards}"),
                ),
            ),
        ),
        Section(
            "Who stands out",
            (
                ranking(
                    "Hottest",
                    "The temperature of a card is its hottest sensor other than memory and board.",
                    "celsius",
                    now("topk(10, accelerator:temperature_celsius{$cards})", "{{instance}} {{vendor}} {{device}}"),
                    _HOT,
                ),
                ranking(
                    "Most held back",
                    "Share of the last hour in which the clocks were held down for any reason.",
                    "percentunit",
                    now(
                        "topk(10, max by (instance, vendor, device) (avg_over_time(accelerator_throttled{$cards}[1h])))",
                        "{{instance}} {{vendor}} {{device}}",
                    ),
                    ((None, GREEN), (0.05, YELLOW), (0.5, RED)),
                ),
                ranking(
                    "Idle with memory held",
                    "Memory in use on cards that do nothing: hung jobs, forgotten notebooks.",
                    "bytes",
                    now(
                        "topk(10, accelerator_memory_used_bytes{$cards} and on (job, instance, id)"
                        " (accelerator:utilization_ratio:rate5m{$cards} < 0.02))",
                        "{{instance}} {{vendor}} {{device}}",
                    ),
                    ((None, YELLOW),),
                ),
            ),
        ),
        Section(
            "All cards",
            (
                card_table(
                    "All cards",
                    "Each card now; n/a: this card does not tell. A click on the number opens the card.",
                    ("instance", "vendor", "device", "model"),
                    (
                        Column(
                            "up",
                            "bool_yes_no",
                            column(f"max {_ROW} (accelerator_up{{$cards}})"),
                            ((None, RED), (1, GREEN)),
                        ),
                        Column(
                            "temperature",
                            "celsius",
                            column(f"max {_ROW} (accelerator:temperature_celsius{{$cards}})"),
                            _HOT,
                        ),
                        Column("power", "watt", column(f"max {_ROW} (accelerator_power_watts{{$cards}})")),
                        Column("limit", "watt", column(f"max {_ROW} (accelerator_power_cap_watts{{$cards}})")),
                        Column(
                            "utilization",
                            "percentunit",
                            column(f"max {_ROW} (accelerator_utilization_ratio{{$cards}})"),
                        ),
                        Column(
                            "memory", "percentunit", column(f"max {_ROW} (accelerator_memory_used_ratio{{$cards}})")
                        ),
                        Column("held back", "bool_yes_no", column(f"max {_ROW} (accelerator_throttled{{$cards}})")),
                    ),
                ),
            ),
        ),
    ),
)
