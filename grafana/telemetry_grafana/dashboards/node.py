"""One node: its cards side by side over time."""

from __future__ import annotations

from telemetry_grafana.dashboards import figures
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import GREEN, RED, lines, number, states
from telemetry_grafana.dashboards.query import CARD_OF_NODE, of_cards, of_node, query, untold
from telemetry_grafana.dashboards.tables import cards_now
from telemetry_grafana.promql import beginning_with
from telemetry_parsers.metrics import MEMORY_SENSORS

_YES = {"0": ("no", GREEN), "1": ("yes", RED)}
# In force at some moment of the time shown.
_IN_FORCE = "max_over_time(accelerator_throttled{$cards}[$__range] @ end()) == 1"
_MEMORY_SENSORS = f'accelerator_temperature_celsius{{$cards,sensor=~"{beginning_with(MEMORY_SENSORS)}"}}'
_CORE_CLOCK = 'accelerator_clock_hertz{$cards,domain=~"graphics|sm"}'
_MEMORY_CLOCK = 'accelerator_clock_hertz{$cards,domain="memory"}'

NODE = Page(
    uid="telemetry-node",
    title="Accelerators: node",
    description="The cards of one node, or of a few, side by side.",
    few=frozenset({"node"}),
    sections={
        "Now": (
            figures.CARDS,
            figures.LOST,
            figures.FAILING,
            figures.THROTTLED,
            figures.FAILING_SOURCES,
            figures.HOTTEST,
            figures.POWER,
            number(
                "Host CPU",
                "Share of the host's CPU time in use.",
                "max(telemetry_host_cpu_utilization_ratio{$nodes})",
                "percentunit",
            ),
            cards_now(height=11),
        ),
        "Heat and power": (
            lines(
                "Temperature",
                "The hottest sensor of each card other than memory and board; dashed: where its hottest sensor makes the card slow down.",
                "celsius",
                of_node("accelerator:temperature_celsius{$cards}"),
                limits=of_node("accelerator:temperature_limit_celsius{$cards}", "limit"),
            ),
            lines(
                "Memory temperature",
                "Memory and HBM sensors, the hottest of each card.",
                "celsius",
                *of_cards((f"max without (sensor) ({_MEMORY_SENSORS})", ""), card=CARD_OF_NODE),
            ),
            lines(
                "Power",
                "The vendor's main figure; accelerator_info says whether it is an average. Dashed: the power limits.",
                "watt",
                of_node("accelerator_power_watts{$cards}"),
                limits=of_node("accelerator_power_cap_watts{$cards}", "limit"),
            ),
            lines(
                "Fans",
                "Speed as a share of the maximum.",
                "percentunit",
                *of_cards(("accelerator_fan_ratio{$cards}", ""), card=CARD_OF_NODE),
            ),
        ),
        "Work": (
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
                *of_cards(
                    ("accelerator_sm_active_ratio{$cards}", "multiprocessors"),
                    ("accelerator_tensor_active_ratio{$cards}", "tensor units"),
                    card=CARD_OF_NODE,
                ),
            ),
            lines(
                "Memory traffic",
                "Share of time in which memory was read or written, or of its bandwidth, whichever the card counts.",
                "percentunit",
                *of_cards(
                    ("accelerator_memory_activity_ratio{$cards}", "activity"),
                    ("accelerator_memory_bandwidth_ratio{$cards}", "bandwidth"),
                    card=CARD_OF_NODE,
                ),
            ),
        ),
        "Clocks": (
            lines(
                "Clocks",
                "Graphics or multiprocessor clock.",
                "hertz",
                *of_cards((f"max without (domain) ({_CORE_CLOCK})", ""), card=CARD_OF_NODE),
            ),
            lines("Memory clocks", "Memory clock.", "hertz", *of_cards((_MEMORY_CLOCK, ""), card=CARD_OF_NODE)),
            states(
                "Why the clocks are held down",
                "A row for each reason that was in force in the time shown, and one for each card that had none.",
                _YES,
                query(
                    f"accelerator_throttled{{$cards}} and on (cluster, job, instance, id, reason) {_IN_FORCE}",
                    "{{instance}} {{vendor}} {{device}} {{reason}}",
                ),
                query(
                    "max without (reason) (accelerator_throttled{$cards})"
                    f" unless on (cluster, job, instance, id) ({_IN_FORCE})",
                    "{{instance}} {{vendor}} {{device}}",
                ),
                untold("accelerator_throttled{$cards}"),
            ),
        ),
        "Presence and host": (
            states(
                "Cards",
                "Whether each card is listed; nothing while nobody knows (source failed, released).",
                {"0": ("lost", RED), "1": ("up", GREEN)},
                of_node("accelerator_up{$cards}"),
            ),
            lines(
                "Host CPU",
                "Share of the host's CPU time in use.",
                "percentunit",
                query("telemetry_host_cpu_utilization_ratio{$nodes}", "{{instance}}"),
            ),
            lines(
                "Host memory",
                "Host memory in use; dashed: all of it.",
                "bytes",
                query("telemetry_host_memory_used_bytes{$nodes}", "{{instance}}"),
                limits=query("telemetry_host_memory_total_bytes{$nodes}", "{{instance}} all"),
            ),
        ),
    },
)
