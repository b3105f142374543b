"""The dashboard of one card, with its links, errors and events."""

from __future__ import annotations

from telemetry_grafana.dashboards import shared
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import (
    BLUE,
    GREEN,
    RED,
    Column,
    Figure,
    card_table,
    line_panel,
    numbers_panel,
    rising,
    states_panel,
    with_unit,
    word_panel,
)
from telemetry_grafana.dashboards.query import card_queries, not_reported_query, query

# Grafana averages rates over four steps: eight readings of traffic (every minute), four of errors (every 5 minutes).
_TRAFFIC_STEP, _ERRORS_STEP = "2m", "5m"

_LINKS = (
    line_panel(
        "PCIe traffic",
        "Bytes received and sent, averaged over eight minutes, because most cards are polled once a minute.",
        "Bps",
        *card_queries(
            ("rate(accelerator_pcie_receive_bytes_total{$cards}[$__rate_interval])", "received"),
            ("rate(accelerator_pcie_transmit_bytes_total{$cards}[$__rate_interval])", "sent"),
            ("accelerator_pcie_receive_bytes_per_second{$cards}", "received, measured"),
            ("accelerator_pcie_transmit_bytes_per_second{$cards}", "sent, measured"),
            ("accelerator_pcie_bandwidth_bytes_per_second{$cards}", "both ways, measured"),
        ),
        min_step=_TRAFFIC_STEP,
    ).with_size(width=8),
    line_panel(
        "PCIe link",
        "The link's generation and number of lanes: current and maximum.",
        "short",
        *card_queries(
            ("accelerator_pcie_link_generation{$cards}", "generation"),
            ("accelerator_pcie_link_generation_max{$cards}", "generation at most"),
            ("accelerator_pcie_link_width{$cards}", "lanes"),
            ("accelerator_pcie_link_width_max{$cards}", "lanes at most"),
        ),
    ).with_size(width=8),
    line_panel(
        "PCIe errors",
        "Retransmitted packets and errors per minute, averaged over twenty minutes. Several kinds may count the same error.",
        "cpm",
        *card_queries(
            ("60 * rate(accelerator_pcie_replays_total{$cards}[$__rate_interval])", "sent again"),
            ("60 * rate(accelerator_pcie_errors_total{$cards}[$__rate_interval])", "{{kind}}"),
        ),
        min_step=_ERRORS_STEP,
    ).with_size(width=8),
    line_panel(
        "Traffic between cards",
        "Bytes over NVLink, XGMI, MTLink or HCCS, averaged over eight minutes, because most cards are polled once a minute.",
        "Bps",
        *card_queries(
            ("rate(accelerator_link_receive_bytes_total{$cards}[$__rate_interval])", "{{link}} received"),
            ("rate(accelerator_link_transmit_bytes_total{$cards}[$__rate_interval])", "{{link}} sent"),
        ),
        min_step=_TRAFFIC_STEP,
    ),
    line_panel(
        "Link errors",
        "Errors per minute on the links between cards, averaged over twenty minutes.",
        "cpm",
        *card_queries(
            ("60 * rate(accelerator_link_crc_errors_total{$cards}[$__rate_interval])", "{{link}} checksum"),
            ("60 * rate(accelerator_link_replay_errors_total{$cards}[$__rate_interval])", "{{link}} replay"),
            ("60 * rate(accelerator_link_recovery_errors_total{$cards}[$__rate_interval])", "{{link}} recovery"),
            ("60 * rate(accelerator_link_receive_errors_total{$cards}[$__rate_interval])", "{{link}} received wrong"),
            ("60 * rate(accelerator_link_transmit_errors_total{$cards}[$__rate_interval])", "{{link}} sent wrong"),
        ),
        min_step=_ERRORS_STEP,
    ),
)
_LINKS_UP = states_panel(
    "Links up",
    "Whether each link is up.",
    {"0": ("down", RED), "1": ("up", GREEN)},
    *card_queries(("accelerator_link_up{$cards}", "link {{link}}")),
).with_size(height=11)

_WORK = (
    line_panel(
        "Temperatures",
        "Every sensor. Dashed: the temperatures at which the card slows down, is critical, or switches off.",
        "celsius",
        *card_queries(("accelerator_temperature_celsius{$cards}", "{{sensor}}")),
        limits=(
            query("accelerator_temperature_slowdown_celsius{$cards}", "{{device}} {{sensor}} slows down"),
            query("accelerator_temperature_critical_celsius{$cards}", "{{device}} {{sensor}} critical"),
            query("accelerator_temperature_shutdown_celsius{$cards}", "{{device}} {{sensor}} switches off"),
        ),
    ),
    line_panel(
        "Power",
        "All power readings of the card: main, average, instantaneous, module and memory. Dashed: the limit.",
        "watt",
        query("accelerator_power_watts{$cards}", "{{device}} power"),
        query("accelerator_power_average_watts{$cards}", "{{device}} average"),
        query("accelerator_power_instant_watts{$cards}", "{{device}} instant"),
        query("accelerator_power_module_watts{$cards}", "{{device}} with its CPU"),
        query("accelerator_power_card_watts{$cards}", "{{device}} whole card"),
        query("accelerator_power_memory_watts{$cards}", "{{device}} memory"),
        limits=(query("accelerator_power_cap_watts{$cards}", "{{device}} limit"),),
    ),
    line_panel(
        "Utilization",
        "Utilization at the last poll, as the vendor measures it, and its average over time.",
        "percentunit",
        query("accelerator_utilization_ratio{$cards}", "{{device}} at the last poll"),
        query("clamp_max(rate(accelerator_busy_seconds_total{$cards}[$__rate_interval]), 1)", "{{device}} average"),
    ),
    line_panel(
        "Activity",
        "More detail than utilization: how much of the card computes, and how busy its memory bus is.",
        "percentunit",
        *card_queries(
            ("accelerator_graphics_active_ratio{$cards}", "anything active"),
            ("accelerator_sm_active_ratio{$cards}", "multiprocessors active"),
            ("accelerator_sm_occupancy_ratio{$cards}", "occupancy"),
            ("accelerator_tensor_active_ratio{$cards}", "tensor units"),
            ("accelerator_memory_activity_ratio{$cards}", "memory activity"),
            ("accelerator_memory_bandwidth_ratio{$cards}", "memory bandwidth"),
        ),
    ),
    line_panel(
        "Memory",
        "Device memory; dashed: the total.",
        "bytes",
        query("accelerator_memory_used_bytes{$cards}", "{{device}} used"),
        query("accelerator_memory_reserved_bytes{$cards}", "{{device}} reserved"),
        query("accelerator_memory_free_bytes{$cards}", "{{device}} free"),
        limits=(query("accelerator_memory_total_bytes{$cards}", "{{device}} all"),),
    ),
)
_HEAT_AND_SUPPLY = (
    line_panel(
        "Margins of temperature",
        "For cards that report margins instead of temperatures: degrees left before the card slows down, and the margins at which it reacts.",
        "celsius",
        *card_queries(
            ("accelerator_temperature_margin_celsius{$cards}", "left"),
            ("accelerator_temperature_margin_limit_celsius{$cards}", "{{limit}}"),
        ),
    ),
    line_panel(
        "Energy",
        "Mean power, computed from the card's energy counter and from the daemon's energy estimate.",
        "watt",
        query("rate(accelerator_energy_joules_total{$cards}[$__rate_interval])", "{{device}} counted by the card"),
        query("rate(accelerator_energy_estimated_joules_total{$cards}[$__rate_interval])", "{{device}} integrated"),
    ),
    with_unit(
        line_panel(
            "Fans",
            "Speed as a share of the maximum, and revolutions per minute of the fastest fan.",
            "percentunit",
            *card_queries(("accelerator_fan_ratio{$cards}", ""), ("accelerator_fan_rpm{$cards}", "revolutions")),
        ),
        "rotrpm",
        1,
    ),
    line_panel(
        "Voltages", "Every supply rail.", "volt", *card_queries(("accelerator_voltage_volts{$cards}", "{{rail}}"))
    ),
)
_UNITS = (
    line_panel(
        "Engines",
        "Encoders, decoders, vector and matrix units.",
        "percentunit",
        *card_queries(("accelerator_engine_utilization_ratio{$cards}", "{{engine}}")),
    ),
    line_panel(
        "Pipes",
        "Share of time in which each pipe was active. Pipes are named after their precision or kind of tensor unit.",
        "percentunit",
        *card_queries(("accelerator_pipe_active_ratio{$cards}", "{{pipe}}")),
    ),
    line_panel(
        "Shared memory",
        "Host memory that the card uses, for example on an APU. On GB10 and Jetson: the memory of all processes. Dashed: the total.",
        "bytes",
        *card_queries(
            ("accelerator_memory_gtt_used_bytes{$cards}", "used"),
            ("accelerator_memory_processes_bytes{$cards}", "of processes"),
        ),
        limits=(query("accelerator_memory_gtt_total_bytes{$cards}", "{{device}} all"),),
    ),
)

_ACTION = 'accelerator_recovery_action{$cards,action!="none"}'

CARD = Page(
    uid="telemetry-card",
    title="Accelerators: card",
    description="One card. Choose its node, vendor and device. If you choose several cards, each panel shows all of them.",
    preselected=frozenset({"node", "vendor", "device"}),
    sections={
        "Now": (
            word_panel("State", shared.STATES_TEXT, shared.CARD_STATES, f"min({shared.CARD_STATE})"),
            numbers_panel(
                "Readings",
                "Temperature: the hottest sensor other than memory and board. Utilization: share of time in which the card was "
                "computing, as the vendor counts it. Clock: the graphics or multiprocessor clock. Energy: over the time range shown. "
                "Values that the card does not report are missing.",
                Figure("Temperature", "max(accelerator:temperature_celsius{$cards})", "celsius", shared.HEAT_STEPS),
                Figure("Power", "max(accelerator_power_watts{$cards})", "watt"),
                Figure("Power limit", "max(accelerator_power_cap_watts{$cards})", "watt"),
                Figure("Memory in use", "max(accelerator_memory_used_ratio{$cards})", "percentunit", rising(0.95)),
                Figure("Utilization", "max(accelerator_utilization_ratio{$cards})", "percentunit"),
                Figure("Clock", 'max(accelerator_clock_hertz{$cards,domain=~"graphics|sm"})', "hertz"),
                Figure("Processes", "max(accelerator_processes{$cards})"),
                shared.ENERGY,
                Figure("Links down", "sum(accelerator_link_up{$cards} == bool 0)", steps=shared.RED_IF_ANY),
            ).with_size(width=21, height=4),
            card_table(
                "Identity",
                "The identity of the card.",
                ("device", "model", "bus_id", "uuid", "serial", "driver", "partition", "power_kind"),
                (Column("", "accelerator_info{$cards}"),),
            ).with_size(height=3),
        ),
        "Heat, power and work": (
            *_WORK,
            line_panel(
                "Clocks",
                "Every domain; dashed: the maxima.",
                "hertz",
                *card_queries(("accelerator_clock_hertz{$cards}", "{{domain}}")),
                limits=(query("accelerator_clock_max_hertz{$cards}", "{{device}} {{domain}} maximum"),),
            ),
        ),
        "Throttling and health": (
            states_panel(
                "Reasons",
                "Why the clocks are throttled.",
                shared.THROTTLE_STATES,
                *card_queries((shared.throttle_state(), "{{reason}}")),
            ).with_size(width=12),
            states_panel(
                "Health and needs",
                "The card's health, pending or failed memory repairs, and actions that the driver asks for.",
                {"0": ("no", GREEN), "1": ("yes", RED)},
                query('accelerator_health{$cards,state!~"ok|unknown"}', "{{device}} health: {{state}}"),
                query("accelerator_row_remap_pending{$cards}", "{{device}} row remap pending"),
                query("accelerator_row_remap_failed{$cards}", "{{device}} row remap failed"),
                query("accelerator_retired_pages_pending{$cards}", "{{device}} page retirement pending"),
                query(f"max without (action) ({_ACTION})", "{{device}} driver asks for an action"),
                query(
                    f"{_ACTION} and on (cluster, job, instance, id, action) max_over_time({_ACTION}[$__range] @ end()) == 1",
                    "{{device}} driver asks to {{action}}",
                ),
                not_reported_query(
                    "accelerator_health{$cards}",
                    "accelerator_row_remap_pending{$cards}",
                    "accelerator_row_remap_failed{$cards}",
                    "accelerator_retired_pages_pending{$cards}",
                    "accelerator_recovery_action{$cards}",
                ),
            ).with_size(width=12),
        ),
        "Errors and events": (
            line_panel(
                "Memory errors",
                "Since the driver was loaded.",
                "short",
                *card_queries(
                    ("accelerator_ecc_corrected_total{$cards}", "{{location}} corrected"),
                    ("accelerator_ecc_uncorrected_total{$cards}", "{{location}} uncorrected"),
                    ("accelerator_ecc_deferred_total{$cards}", "{{location}} deferred"),
                ),
            ),
            states_panel(
                "Events",
                shared.EVENTS_TEXT,
                shared.EVENT_STATES,
                query("accelerator_event_open{$cards}", "{{device}} {{code}}"),
                query(
                    "0 * accelerator_up{$cards} unless on (cluster, job, instance, id) accelerator_event_open{$cards}",
                    "{{device}} no event",
                ),
            ).with_size(width=12),
        ),
    },
    collapsed={
        "Links": (*_LINKS, _LINKS_UP),
        "Margins, energy, fans, voltages": _HEAT_AND_SUPPLY,
        "Engines, pipes, shared memory": _UNITS,
        "Performance states": (
            line_panel(
                "Throttled",
                "Share of time in which the clocks were throttled, counted by the card.",
                "percentunit",
                *card_queries(("rate(accelerator_throttled_seconds_total{$cards}[$__rate_interval])", "{{reason}}")),
            ),
            line_panel(
                "Performance state",
                "P-number: 0 is the fastest.",
                "short",
                *card_queries(("accelerator_performance_state{$cards}", "")),
            ),
            states_panel(
                "Performance level",
                "The performance level that is set.",
                {"1": ("set", BLUE)},
                *card_queries(("accelerator_performance_level{$cards} == 1", "{{level}}")),
            ).with_size(width=12),
        ),
        "Errors over its life": (
            line_panel(
                "Memory errors over a card's life",
                "Counted by the card, across restarts and driver reloads.",
                "short",
                *card_queries(
                    ("accelerator_ecc_corrected_lifetime_total{$cards}", "{{location}} corrected"),
                    ("accelerator_ecc_uncorrected_lifetime_total{$cards}", "{{location}} uncorrected"),
                ),
            ),
            line_panel(
                "Memory out of use",
                "Pages retired and rows replaced.",
                "short",
                *card_queries(
                    ("accelerator_retired_pages{$cards}", "pages, {{cause}}"),
                    ("accelerator_remapped_rows{$cards}", "rows, {{cause}}"),
                ),
            ),
        ),
    },
)
