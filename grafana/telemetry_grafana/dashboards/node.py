"""The dashboard of one node: its cards side by side over time."""

from __future__ import annotations

from telemetry_grafana.dashboards import shared
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import (
    GREEN,
    RED,
    Column,
    Figure,
    card_table,
    line_panel,
    numbers_panel,
    states_panel,
)
from telemetry_grafana.dashboards.query import node_queries, node_query, not_reported_query, query, with_card_label
from telemetry_grafana.promql import CARD, prefix_pattern
from telemetry_parsers.metrics import MEMORY_SENSORS

# Selects throttling reasons that were active in the time range.
_ACTIVE = "max_over_time(accelerator_throttled{$cards}[$__range] @ end()) == 1"
_MEMORY_SENSORS = f'accelerator_temperature_celsius{{$cards,sensor=~"{prefix_pattern(MEMORY_SENSORS)}"}}'
_CORE_CLOCK = 'accelerator_clock_hertz{$cards,domain=~"graphics|sm"}'
_MEMORY_CLOCK = 'accelerator_clock_hertz{$cards,domain="memory"}'


def _card_sum(key: str) -> str:
    return f"sum {shared.BY_CARD} (accelerator_{key}{{$cards}})"


def _partition_value(metric: str) -> str:
    return _label_by_card(f'{metric}{{$cards}} and on ({CARD}) accelerator_info{{$cards,parent!=""}}')


def _label_by_card(promql: str) -> str:
    """Add a label `card` with the number of the card that contains the partition."""
    return f'label_replace(max {shared.BY_CARD} ({promql}), "card", "$$1", "device", "([^:]*):.*")'


_ERRORS = card_table(
    "Errors of each card",
    "Memory errors, PCIe replays and link errors: since the driver was loaded. Pages and rows: memory that is out of use. Events: since the "
    "daemon started. Open: the number of kinds of open events. n/a: not reported, or no event.",
    shared.CARD_LABELS,
    (
        Column("uncorrected", _card_sum("ecc_uncorrected_total"), steps=shared.RED_IF_ANY),
        Column("corrected", _card_sum("ecc_corrected_total"), steps=shared.YELLOW_IF_ANY),
        Column("pages out", _card_sum("retired_pages"), steps=shared.YELLOW_IF_ANY),
        Column("rows out", _card_sum("remapped_rows"), steps=shared.YELLOW_IF_ANY),
        Column("replays", shared.current_value("accelerator_pcie_replays_total")),
        Column("link errors", _card_sum("link_crc_errors_total"), steps=shared.YELLOW_IF_ANY),
        Column(
            "links down", f"sum {shared.BY_CARD} (accelerator_link_up{{$cards}} == bool 0)", steps=shared.RED_IF_ANY
        ),
        Column("events", _card_sum("events_total"), steps=shared.YELLOW_IF_ANY),
        Column("open", _card_sum("event_open"), steps=shared.YELLOW_IF_ANY),
    ),
    sort=("-uncorrected", "-events", "instance", "device"),
)
_PARTITIONS = card_table(
    "Partitions",
    "MIG instances, compute partitions and virtual devices with the card that they belong to.",
    ("instance", "vendor", "card", "device", "model"),
    (
        Column("", _label_by_card('accelerator_info{$cards,parent!=""}')),
        Column("memory", _partition_value("accelerator_memory_total_bytes"), "bytes"),
        Column("in use", _partition_value("accelerator_memory_used_ratio"), "percentunit"),
        Column("utilization", _partition_value("accelerator_utilization_ratio"), "percentunit"),
        Column("units active", _partition_value("accelerator_sm_active_ratio"), "percentunit"),
        Column("tensor units", _partition_value("accelerator_tensor_active_ratio"), "percentunit"),
    ),
    sort=("instance", "device"),
).with_empty_text("no card is divided")

NODE = Page(
    uid="telemetry-node",
    title="Accelerators: node",
    description="The cards of one or a few nodes, side by side.",
    preselected=frozenset({"node"}),
    sections={
        "Now": (
            shared.CARDS,
            shared.LOST,
            shared.FAILING,
            shared.FAILING_SOURCES,
            numbers_panel(
                "Heat, power, host",
                f"{shared.THROTTLED_TEXT} Energy: the cards' energy in the time range. Host: the highest CPU utilization and the shortest uptime of the chosen nodes.",
                shared.THROTTLED,
                Figure("Hottest card", "max(accelerator:temperature_celsius{$cards})", "celsius", shared.HEAT_STEPS),
                shared.POWER,
                shared.ENERGY,
                Figure("Host CPU", "max(telemetry_host_cpu_utilization_ratio{$nodes})", "percentunit"),
                Figure("Host up", "min(telemetry_host_uptime_seconds{$nodes})", "dtdhms"),
            ).with_size(width=12, height=4),
            shared.ALL_CARDS.with_size(height=10),
            shared.FIRING_ALERTS.with_size(height=5),
        ),
        "Heat and power": (
            line_panel(
                "Temperature",
                "The hottest sensor of each card other than memory and board; dashed: the temperature at which the card slows down.",
                "celsius",
                node_query("accelerator:temperature_celsius{$cards}"),
                limits=(node_query("accelerator:temperature_limit_celsius{$cards}", "limit"),),
            ),
            line_panel(
                "Power",
                "The vendor's main power reading. The label `power_kind` of `accelerator_info` shows its kind. Dashed: the power limits.",
                "watt",
                node_query("accelerator_power_watts{$cards}"),
                limits=(node_query("accelerator_power_cap_watts{$cards}", "limit"),),
            ),
        ),
        "Work": (
            line_panel(
                "Utilization",
                "Average utilization, from the busy seconds that the daemon counts.",
                "percentunit",
                node_query("clamp_max(rate(accelerator_busy_seconds_total{$cards}[$__rate_interval]), 1)"),
            ),
            line_panel(
                "Memory",
                "Device memory in use as a share of the total.",
                "percentunit",
                node_query("accelerator_memory_used_ratio{$cards}"),
            ),
        ),
        "Throttling": (
            line_panel(
                "Clocks",
                "Graphics or multiprocessor clock.",
                "hertz",
                *node_queries((f"max without (domain) ({_CORE_CLOCK})", "")),
            ),
            states_panel(
                "Why the clocks are throttled",
                "A row for each reason that was active in the time range, and for each card without a reason.",
                shared.THROTTLE_STATES,
                query(
                    with_card_label(f"{shared.throttle_state()} and on (cluster, job, instance, id, reason) {_ACTIVE}"),
                    "{{card}} {{reason}}",
                ),
                node_query(
                    "max without (reason) (accelerator_throttled{$cards})"
                    f" unless on (cluster, job, instance, id) ({_ACTIVE})"
                ),
                not_reported_query("accelerator_throttled{$cards}"),
            ).with_size(width=12),
        ),
        "Errors, events and links": (_ERRORS,),
        "Presence": (
            states_panel(
                "Cards",
                "Whether a source lists the card. Empty: unknown, because the source failed or was released.",
                {"0": ("lost", RED), "1": ("up", GREEN)},
                node_query("accelerator_up{$cards}"),
            ).with_size(height=6),
        ),
    },
    collapsed={
        "Errors and traffic over time": (
            line_panel(
                "Memory errors",
                "Errors since the driver was loaded, summed over all memory of a card.",
                "short",
                *node_queries(
                    ("sum without (location) (accelerator_ecc_corrected_total{$cards})", "corrected"),
                    ("sum without (location) (accelerator_ecc_uncorrected_total{$cards})", "uncorrected"),
                ),
            ),
            states_panel(
                "Events",
                shared.EVENTS_TEXT,
                shared.EVENT_STATES,
                node_query("accelerator_event_open{$cards}", "{{code}}"),
                node_query(
                    "0 * accelerator_up{$cards} unless on (cluster, job, instance, id) accelerator_event_open{$cards}",
                    "no event",
                ),
            ).with_size(width=12),
            line_panel(
                "Traffic between cards",
                "Bytes received over NVLink, XGMI, MTLink or HCCS, averaged over eight minutes, because most cards are polled once a minute.",
                "Bps",
                *node_queries(
                    ("sum without (link) (rate(accelerator_link_receive_bytes_total{$cards}[$__rate_interval]))", "")
                ),
                min_step="2m",
            ),
            line_panel(
                "PCIe and link errors",
                "PCIe replays, and checksum errors on links between cards, per minute. Averages over twenty minutes.",
                "cpm",
                *node_queries(
                    ("60 * rate(accelerator_pcie_replays_total{$cards}[$__rate_interval])", "PCIe"),
                    (
                        "60 * sum without (link) (rate(accelerator_link_crc_errors_total{$cards}[$__rate_interval]))",
                        "links",
                    ),
                ),
                min_step="5m",
            ),
        ),
        "Host": (
            line_panel(
                "Host CPU",
                "Share of the host's CPU time in use.",
                "percentunit",
                query("telemetry_host_cpu_utilization_ratio{$nodes}", "{{instance}}"),
            ),
            line_panel(
                "Host memory",
                "Host memory in use; dashed: the total.",
                "bytes",
                query("telemetry_host_memory_used_bytes{$nodes}", "{{instance}}"),
                limits=(query("telemetry_host_memory_total_bytes{$nodes}", "{{instance}} all"),),
            ),
            line_panel(
                "Host load",
                "Processes that run or wait to run, averaged over one, five and fifteen minutes.",
                "short",
                query("telemetry_host_load1{$nodes}", "{{instance}} 1 minute"),
                query("telemetry_host_load5{$nodes}", "{{instance}} 5 minutes"),
                query("telemetry_host_load15{$nodes}", "{{instance}} 15 minutes"),
            ),
        ),
        "Partitions": (_PARTITIONS,),
        "More than utilization": (
            line_panel(
                "Units active",
                "Average share of the multiprocessors and tensor units that computed, if the card reports it.",
                "percentunit",
                *node_queries(
                    ("accelerator_sm_active_ratio{$cards}", "multiprocessors"),
                    ("accelerator_tensor_active_ratio{$cards}", "tensor units"),
                ),
            ),
            line_panel(
                "Memory traffic",
                "Depending on the card: share of time in which memory was read or written, or share of the bandwidth in use.",
                "percentunit",
                *node_queries(
                    ("accelerator_memory_activity_ratio{$cards}", "activity"),
                    ("accelerator_memory_bandwidth_ratio{$cards}", "bandwidth"),
                ),
            ),
        ),
        "Memory temperature, memory clocks, fans": (
            line_panel(
                "Memory temperature",
                "The hottest memory or HBM sensor of each card.",
                "celsius",
                *node_queries((f"max without (sensor) ({_MEMORY_SENSORS})", "")),
            ),
            line_panel("Memory clocks", "Memory clock.", "hertz", *node_queries((_MEMORY_CLOCK, ""))),
            line_panel(
                "Fans",
                "Speed as a share of the maximum.",
                "percentunit",
                *node_queries(("accelerator_fan_ratio{$cards}", "")),
            ),
        ),
    },
)
