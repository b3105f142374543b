"""The dashboard of all cards."""

from __future__ import annotations

from telemetry_grafana.dashboards import shared
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import (
    Column,
    Figure,
    card_table,
    heatmap_panel,
    line_panel,
    number_panel,
    numbers_panel,
    ranking_panel,
    rising,
    stacked_panel,
)
from telemetry_grafana.dashboards.query import query, query_by_card, query_by_model, top_nodes_query, with_node_label

_NODE_LABELS = "cluster, job, instance, vendor"
_NODE_POWER = "instance:accelerator_power_watts:sum{$vendors}"
_POWER_SHARE = "instance:accelerator_power_cap_used_ratio:avg{$vendors}"
_MAX_NODES_WITHOUT_LIMIT = 10
_UTILIZATION, _IDLE_BELOW = "accelerator:utilization_ratio:rate5m{$cards}", 0.02
# The driver itself may use a few percent of the memory.
_HELD_MEMORY = (
    "accelerator_memory_used_bytes{$cards} and on (cluster, job, instance, id) (accelerator_memory_used_ratio{$cards} > 0.05)"
    f" and on (cluster, job, instance, id) ({_UTILIZATION} < {_IDLE_BELOW})"
)
_IN_MAINTENANCE = card_table(
    "Maintenance",
    "Nodes in maintenance, and when the maintenance ends.",
    ("instance",),
    (
        Column(
            "ends in", "telemetry_maintenance_ends_in_seconds{$nodes} and telemetry_maintenance{$nodes} == 1", "dtdhms"
        ),
    ),
    sort=("ends in",),
).with_empty_text("no node")

FLEET = Page(
    uid="telemetry-fleet",
    title="Accelerators: fleet",
    description="All cards of all vendors: their number, problems and use.",
    sections={
        "Now": (
            number_panel("Nodes", "Nodes whose daemon answers.", "count(telemetry_build_info{$nodes})"),
            shared.NODES_DOWN,
            shared.CARDS,
            shared.LOST,
            shared.FAILING,
            shared.FAILING_SOURCES,
            numbers_panel(
                "Heat and power",
                f"{shared.THROTTLED_TEXT} Power: the sum of all cards. Maintenance: the number of nodes in maintenance.",
                shared.THROTTLED,
                shared.POWER,
                Figure("Maintenance", "sum(telemetry_maintenance{$nodes})"),
            ).with_size(width=6, height=4),
            shared.FIRING_ALERTS.with_size(height=7),
        ),
        "Cards that stand out": (
            ranking_panel(
                "Hottest",
                "The temperature of a card is its hottest sensor other than memory and board.",
                "celsius",
                "topk(10, accelerator:temperature_celsius{$cards})",
                shared.HEAT_STEPS,
            ),
            ranking_panel(
                "Most throttled",
                "Share of the last hour in which heat or the power brake throttled the clocks.",
                "percentunit",
                "topk(10, max by (cluster, job, instance, vendor, device)"
                f" (avg_over_time(accelerator_throttled{{$cards,{shared.THROTTLING}}}[1h])) > 0)",
                rising(0.05, 0.5),
            ).with_empty_text("no card"),
            ranking_panel(
                "Idle cards with memory in use",
                "Memory in use on cards that do nothing, for example because of a hung job or a forgotten notebook.",
                "bytes",
                f"topk(10, {_HELD_MEMORY}) or label_replace("
                f"0 * count(accelerator:utilization_ratio:rate5m{{$cards}}) unless count({_HELD_MEMORY}),"
                ' "instance", "none", "", "")',
                rising(1),
            ),
        ),
        "All cards": (shared.ALL_CARDS.with_size(height=12),),
        "Over time": (
            line_panel(
                "Utilization by model",
                "True five-minute averages, from the busy seconds that each daemon counts. Includes all nodes, not only the chosen ones.",
                "percentunit",
                query_by_model("model:accelerator_utilization_ratio:avg{$models}"),
            ),
            line_panel(
                "Memory by model",
                "Device memory in use as a share of the total. Includes all nodes, not only the chosen ones.",
                "percentunit",
                query_by_model("model:accelerator_memory_used_ratio:avg{$models}"),
            ),
            stacked_panel(
                "Power by model",
                "Power drawn by the cards of each model. Includes all nodes, not only the chosen ones.",
                "watt",
                query_by_model("model:accelerator_power_watts:sum{$models}"),
            ),
            line_panel(
                "Power of nodes against their limits",
                "Power as a share of the limits, for the nodes that came closest to their limits. n/a: the cards report no limit; "
                "of these nodes, those with the highest power are shown.",
                "percentunit",
                top_nodes_query(_POWER_SHARE),
                query(
                    with_node_label(
                        f"0 / 0 * topk({_MAX_NODES_WITHOUT_LIMIT}, {_NODE_POWER} @ end() unless on ({_NODE_LABELS}) {_POWER_SHARE} @ end())"
                    ),
                    "{{node}}: no limit reported",
                ),
            ),
        ),
        "Each card": (
            heatmap_panel(
                "Utilization",
                "A row for each card, from dark (idle) to light (busy). Empty: nothing was collected or reported.",
                "percentunit",
                query_by_card("accelerator:utilization_ratio:rate5m{$cards}"),
            ),
        ),
    },
    collapsed={
        "Maintenance": (_IN_MAINTENANCE.with_size(height=5),),
        "Memory of each card": (
            heatmap_panel(
                "Memory in use",
                "Device memory in use as a share of the total. A row for each card, from dark (free) to light (full).",
                "percentunit",
                query_by_card("accelerator_memory_used_ratio{$cards}"),
            ),
        ),
        "Cards and power over time": (
            stacked_panel(
                "Cards by model",
                "Whole cards that are up, by vendor and model.",
                "short",
                query_by_model("sum by (vendor, model) (telemetry_devices{$vendors})"),
            ),
            line_panel(
                "Cards at work",
                "Cards that computed within five minutes, idle cards, and idle cards whose memory is in use.",
                "short",
                query(f"count({_UTILIZATION} >= {_IDLE_BELOW})", "at work"),
                query(f"count({_UTILIZATION} < {_IDLE_BELOW})", "idle"),
                query(f"count({_HELD_MEMORY})", "idle, memory in use"),
            ),
            line_panel(
                "Utilization, memory, power",
                "Utilization, memory in use, and power as a share of the limits. Each line shows a whole Prometheus job, not only the chosen cards.",
                "percentunit",
                query("fleet:accelerator_utilization_ratio:avg{$jobs}", "{{cluster}} {{job}} utilization"),
                query("fleet:accelerator_memory_used_ratio:avg{$jobs}", "{{cluster}} {{job}} memory"),
                query("fleet:accelerator_power_cap_used_ratio:avg{$jobs}", "{{cluster}} {{job}} power"),
            ),
            line_panel(
                "Power against the limits",
                "Power drawn by all cards that report a limit; dashed: the sum of these limits.",
                "watt",
                query(
                    "sum(accelerator_power_watts{$cards} and on (cluster, job, instance, id) accelerator_power_cap_watts{$cards})",
                    "drawn",
                ),
                limits=(
                    query(
                        "sum(accelerator_power_cap_watts{$cards} and on (cluster, job, instance, id) accelerator_power_watts{$cards})",
                        "limits",
                    ),
                ),
            ),
            line_panel(
                "Power by node",
                "Power drawn by each node's cards, for the nodes that draw most.",
                "watt",
                top_nodes_query(_NODE_POWER),
            ),
        ),
    },
)
