"""What one card does: its heat, its power, its work and its memory."""

from __future__ import annotations

from telemetry_grafana.dashboards.panels import lines, with_unit
from telemetry_grafana.dashboards.query import of_cards, query

WORK = (
    lines(
        "Temperatures",
        "Every sensor; dashed: where the card slows down, is critical, or switches off.",
        "celsius",
        *of_cards(("accelerator_temperature_celsius{$cards}", "{{sensor}}")),
        limits=(
            query("accelerator_temperature_slowdown_celsius{$cards}", "{{device}} {{sensor}} slows down"),
            query("accelerator_temperature_critical_celsius{$cards}", "{{device}} {{sensor}} critical"),
            query("accelerator_temperature_shutdown_celsius{$cards}", "{{device}} {{sensor}} switches off"),
        ),
    ),
    lines(
        "Power",
        "The main figure, average, instantaneous, module and memory power if the card reports them; dashed: the limit.",
        "watt",
        query("accelerator_power_watts{$cards}", "{{device}} power"),
        query("accelerator_power_average_watts{$cards}", "{{device}} average"),
        query("accelerator_power_instant_watts{$cards}", "{{device}} instant"),
        query("accelerator_power_module_watts{$cards}", "{{device}} with its CPU"),
        query("accelerator_power_card_watts{$cards}", "{{device}} with the others of its card"),
        query("accelerator_power_memory_watts{$cards}", "{{device}} memory"),
        limits=(query("accelerator_power_cap_watts{$cards}", "{{device}} limit"),),
    ),
    lines(
        "Utilization",
        "As the vendor counts it, and its true average.",
        "percentunit",
        query("accelerator_utilization_ratio{$cards}", "{{device}} at the last poll"),
        query("clamp_max(rate(accelerator_busy_seconds_total{$cards}[$__rate_interval]), 1)", "{{device}} average"),
    ),
    lines(
        "Activity",
        "What utilization hides: how much of the card computes, and how full its memory bus is.",
        "percentunit",
        *of_cards(
            ("accelerator_graphics_active_ratio{$cards}", "anything active"),
            ("accelerator_sm_active_ratio{$cards}", "multiprocessors active"),
            ("accelerator_sm_occupancy_ratio{$cards}", "occupancy"),
            ("accelerator_tensor_active_ratio{$cards}", "tensor units"),
            ("accelerator_memory_activity_ratio{$cards}", "memory activity"),
            ("accelerator_memory_bandwidth_ratio{$cards}", "memory bandwidth"),
        ),
    ),
    lines(
        "Memory",
        "Device memory; dashed: all of it.",
        "bytes",
        query("accelerator_memory_used_bytes{$cards}", "{{device}} used"),
        query("accelerator_memory_reserved_bytes{$cards}", "{{device}} reserved"),
        query("accelerator_memory_free_bytes{$cards}", "{{device}} free"),
        limits=(query("accelerator_memory_total_bytes{$cards}", "{{device}} all"),),
    ),
)
HEAT_AND_SUPPLY = (
    lines(
        "Margins of temperature",
        "Degrees left before the card slows down, and the margins at which it acts, for cards that tell those in place of temperatures.",
        "celsius",
        *of_cards(
            ("accelerator_temperature_margin_celsius{$cards}", "left"),
            ("accelerator_temperature_margin_limit_celsius{$cards}", "{{limit}}"),
        ),
    ),
    lines(
        "Energy",
        "Power by the card's own energy counter, and by the daemon's integral.",
        "watt",
        query("rate(accelerator_energy_joules_total{$cards}[$__rate_interval])", "{{device}} counted by the card"),
        query("rate(accelerator_energy_estimated_joules_total{$cards}[$__rate_interval])", "{{device}} integrated"),
    ),
    with_unit(
        lines(
            "Fans",
            "Speed as a share of the maximum, and revolutions a minute of the fastest fan.",
            "percentunit",
            *of_cards(("accelerator_fan_ratio{$cards}", ""), ("accelerator_fan_rpm{$cards}", "revolutions")),
        ),
        "rotrpm",
        1,
    ),
    lines("Voltages", "Every supply rail.", "volt", *of_cards(("accelerator_voltage_volts{$cards}", "{{rail}}"))),
)
UNITS = (
    lines(
        "Engines",
        "Encoders, decoders, vector and matrix units.",
        "percentunit",
        *of_cards(("accelerator_engine_utilization_ratio{$cards}", "{{engine}}")),
    ),
    lines(
        "Pipes",
        "Which arithmetic units work: by precision, and the tensor units by kind.",
        "percentunit",
        *of_cards(("accelerator_pipe_active_ratio{$cards}", "{{pipe}}")),
    ),
    lines(
        "Shared memory",
        "Host memory that the card uses as its own, as an APU does; dashed: all of it.",
        "bytes",
        *of_cards(("accelerator_memory_gtt_used_bytes{$cards}", "used")),
        limits=(query("accelerator_memory_gtt_total_bytes{$cards}", "{{device}} all"),),
    ),
)
