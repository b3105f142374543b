"""One node: its cards side by side over time."""

from __future__ import annotations

from telemetry_grafana.dashboards.page import Page, Section
from telemetry_grafana.dashboards.panels import GREEN, RED, heatmap, lines, states
from telemetry_grafana.dashboards.query import of_node, query

_YES = {"0": ("no", GREEN), "1": ("yes", RED)}

NODE = Page(
    uid="telemetry-node",
    title="Accelerators: node",
    description="The cards of one node, or of a few, side by side.",
    sections=(
        Section(
            "Heat and power",
            (
                lines(
                    "Temperature",
                    "The hottest sensor of each card other than memory and board; dashed: the lowest limit of its own.",
                    "celsius",
                    of_node("accelerator:temperature_celsius{$cards}"),
                    of_node("accelerator:temperature_limit_celsius{$cards}", "limit"),
                ),
                lines(
                    "Memory temperature",
                    "Memory and HBM sensors, the hottest of each card.",
                    "celsius",
                    of_node('max without (sensor) (accelerator_temperature_celsius{$cards,sensor=~"memory|hbm.*"})'),
                ),
                lines(
                    "Power",
                    "The vendor's main figure; accelerator_info says whether it is an average.",
                    "watt",
                    of_node("accelerator_power_watts{$cards}"),
                    of_node("accelerator_power_cap_watts{$cards}", "limit"),
                ),
                lines(
                    "Fans", "Speed as a share of the maximum.", "percentunit", of_node("accelerator_fan_ratio{$cards}")
                ),
            ),
        ),
        Section(
            "Work",
            (
                lines(
                    "Utilization",
                    "True averages, from the seconds that the daemon integrates.",
                    "percentunit",
                    of_node("clamp_max(rate(accelerator_busy_seconds_total{$cards}[$__rate_interval]), 1)"),
                ),
                lines(
                    "Memory",
                    "Device memory in use as a share of all.",
                    "percentunit",
                    of_node("accelerator_memory_used_ratio{$cards}"),
                ),
                lines(
                    "What utilization hides",
                    "Share of time and units in which the card computed: multiprocessors and tensor units, where the card counts them.",
                    "percentunit",
                    of_node("accelerator_sm_active_ratio{$cards}", "multiprocessors"),
                    of_node("accelerator_tensor_active_ratio{$cards}", "tensor units"),
                ),
                lines(
                    "Memory traffic",
                    "Share of time in which memory was read or written, or of its bandwidth, whichever the card counts.",
                    "percentunit",
                    of_node("accelerator_memory_activity_ratio{$cards}", "activity"),
                    of_node("accelerator_memory_bandwidth_ratio{$cards}", "bandwidth"),
                ),
            ),
        ),
        Section(
            "Clocks",
            (
                lines(
                    "Clocks",
                    "Graphics or multiprocessor clock.",
                    "hertz",
                    of_node('max without (domain) (accelerator_clock_hertz{$cards,domain=~"graphics|sm"})'),
                ),
                lines(
                    "Memory clocks",
                    "Memory clock.",
                    "hertz",
                    of_node('accelerator_clock_hertz{$cards,domain="memory"}'),
                ),
                states(
                    "Why the clocks are held down",
                    "A row for each reason that was in force in the time shown.",
                    _YES,
                    query(
                        "accelerator_throttled{$cards} and on (job, instance, id, reason)"
                        " max_over_time(accelerator_throttled{$cards}[1h]) == 1",
                        "{{vendor}} {{device}} {{reason}}",
                    ),
                ),
            ),
        ),
        Section(
            "Presence and host",
            (
                states(
                    "Cards",
                    "Whether each card is listed; nothing while nobody knows (source failed, released).",
                    {"0": ("lost", RED), "1": ("up", GREEN)},
                    of_node("accelerator_up{$cards}"),
                ),
                heatmap(
                    "Utilization at a glance",
                    "A row for each card.",
                    "percentunit",
                    of_node("accelerator:utilization_ratio:rate5m{$cards}"),
                ),
                lines(
                    "Host CPU",
                    "Share of the host's CPU time in use.",
                    "percentunit",
                    query("telemetry_host_cpu_utilization_ratio{$nodes}", "{{instance}}"),
                ),
                lines(
                    "Host memory",
                    "Host memory in use, and all.",
                    "bytes",
                    query("telemetry_host_memory_used_bytes{$nodes}", "{{instance}} used"),
                    query("telemetry_host_memory_total_bytes{$nodes}", "{{instance}} all"),
                ),
            ),
        ),
    ),
)
