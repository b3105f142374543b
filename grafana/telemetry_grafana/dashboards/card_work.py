"""What one card does: its heat, its power, its work and its memory."""

from __future__ import annotations

from telemetry_grafana.dashboards.page import Section
from telemetry_grafana.dashboards.panels import lines
from telemetry_grafana.dashboards.query import query, untold

_RATE = "[$__rate_interval]"

WORK = Section(
    "Heat, power and work",
    (
        lines(
            "Temperatures",
            "Every sensor; dashed: where the card itself does something about it, of the sensor that may be hottest.",
            "celsius",
            query("accelerator_temperature_celsius{$cards}", "{{device}} {{sensor}}"),
            untold("accelerator_temperature_celsius{$cards}"),
            limits=query("accelerator:temperature_limit_celsius{$cards}", "{{device}} slows down"),
        ),
        lines(
            "Limits of temperature",
            "Where the card slows down, is critical, or switches off.",
            "celsius",
            query("accelerator_temperature_slowdown_celsius{$cards}", "{{device}} {{sensor}} slows down"),
            query("accelerator_temperature_critical_celsius{$cards}", "{{device}} {{sensor}} critical"),
            query("accelerator_temperature_shutdown_celsius{$cards}", "{{device}} {{sensor}} switches off"),
            untold(
                "accelerator_temperature_slowdown_celsius{$cards}",
                "accelerator_temperature_critical_celsius{$cards}",
                "accelerator_temperature_shutdown_celsius{$cards}",
            ),
        ),
        lines(
            "Margins of temperature",
            "Degrees left before the card slows down, and the margins at which it acts, for cards that tell those in place of temperatures.",
            "celsius",
            query("accelerator_temperature_margin_celsius{$cards}", "{{device}} left"),
            query("accelerator_temperature_margin_limit_celsius{$cards}", "{{device}} {{limit}}"),
            untold(
                "accelerator_temperature_margin_celsius{$cards}",
                "accelerator_temperature_margin_limit_celsius{$cards}",
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
            limits=query("accelerator_power_cap_watts{$cards}", "{{device}} limit"),
        ),
        lines(
            "Energy",
            "Power by the card's own energy counter, and by the daemon's integral.",
            "watt",
            query(f"rate(accelerator_energy_joules_total{{$cards}}{_RATE})", "{{device}} counted by the card"),
            query(f"rate(accelerator_energy_estimated_joules_total{{$cards}}{_RATE})", "{{device}} integrated"),
        ),
        lines(
            "Fans",
            "Revolutions a minute of the fastest fan.",
            "rotrpm",
            query("accelerator_fan_rpm{$cards}", "{{device}}"),
            untold("accelerator_fan_rpm{$cards}"),
        ),
        lines(
            "Voltages",
            "Every supply rail.",
            "volt",
            query("accelerator_voltage_volts{$cards}", "{{device}} {{rail}}"),
            untold("accelerator_voltage_volts{$cards}"),
        ),
        lines(
            "Utilization",
            "As the vendor counts it, and its true average.",
            "percentunit",
            query("accelerator_utilization_ratio{$cards}", "{{device}} at the last poll"),
            query(f"clamp_max(rate(accelerator_busy_seconds_total{{$cards}}{_RATE}), 1)", "{{device}} average"),
        ),
        lines(
            "Engines",
            "Encoders, decoders, vector and matrix units.",
            "percentunit",
            query("accelerator_engine_utilization_ratio{$cards}", "{{device}} {{engine}}"),
            untold("accelerator_engine_utilization_ratio{$cards}"),
        ),
        lines(
            "Activity",
            "What utilization hides: how much of the card computes, and how full its memory bus is.",
            "percentunit",
            query("accelerator_graphics_active_ratio{$cards}", "{{device}} anything active"),
            query("accelerator_sm_active_ratio{$cards}", "{{device}} multiprocessors active"),
            query("accelerator_sm_occupancy_ratio{$cards}", "{{device}} occupancy"),
            query("accelerator_tensor_active_ratio{$cards}", "{{device}} tensor units"),
            query("accelerator_memory_activity_ratio{$cards}", "{{device}} memory activity"),
            query("accelerator_memory_bandwidth_ratio{$cards}", "{{device}} memory bandwidth"),
            untold(
                "accelerator_graphics_active_ratio{$cards}",
                "accelerator_sm_active_ratio{$cards}",
                "accelerator_sm_occupancy_ratio{$cards}",
                "accelerator_tensor_active_ratio{$cards}",
                "accelerator_memory_activity_ratio{$cards}",
                "accelerator_memory_bandwidth_ratio{$cards}",
            ),
        ),
        lines(
            "Pipes",
            "Which arithmetic units work: by precision, and the tensor units by kind.",
            "percentunit",
            query("accelerator_pipe_active_ratio{$cards}", "{{device}} {{pipe}}"),
            untold("accelerator_pipe_active_ratio{$cards}"),
        ),
        lines(
            "Memory",
            "Device memory; dashed: all of it.",
            "bytes",
            query("accelerator_memory_used_bytes{$cards}", "{{device}} used"),
            query("accelerator_memory_reserved_bytes{$cards}", "{{device}} reserved"),
            query("accelerator_memory_free_bytes{$cards}", "{{device}} free"),
            limits=query("accelerator_memory_total_bytes{$cards}", "{{device}} all"),
        ),
        lines(
            "Shared memory",
            "Host memory that the card uses as its own, as an APU does; dashed: all of it.",
            "bytes",
            query("accelerator_memory_gtt_used_bytes{$cards}", "{{device}} used"),
            untold("accelerator_memory_gtt_used_bytes{$cards}"),
            limits=query("accelerator_memory_gtt_total_bytes{$cards}", "{{device}} all"),
        ),
    ),
)
