"""One card: everything about it, links, errors and events included."""

from __future__ import annotations

from telemetry_grafana.dashboards.card_links import LINKS
from telemetry_grafana.dashboards.card_work import WORK
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import BLUE, GREEN, RED, YELLOW, lines, number, states, word
from telemetry_grafana.dashboards.query import of_cards, query, untold
from telemetry_grafana.dashboards.tables import CARD_LABELS, HOT, STATE, STATES, Column, card_table

CARD = Page(
    uid="telemetry-card",
    title="Accelerators: card",
    description="One card: choose node, vendor and device. With several chosen their series lie over one another.",
    few=frozenset({"node", "vendor", "device"}),
    sections={
        "Now": (
            word(
                "State",
                "Not watched: the card was there within the hour, and its source fails or was released.",
                STATES,
                f"min({STATE})",
            ),
            number(
                "Temperature",
                "The hottest sensor other than memory and board.",
                "max(accelerator:temperature_celsius{$cards})",
                "celsius",
                HOT,
            ),
            number("Power", "The vendor's main figure.", "max(accelerator_power_watts{$cards})", "watt"),
            number("Power limit", "The limit in force.", "max(accelerator_power_cap_watts{$cards})", "watt"),
            number(
                "Memory in use",
                "As a share of all.",
                "max(accelerator_memory_used_ratio{$cards})",
                "percentunit",
                ((None, GREEN), (0.95, YELLOW)),
            ),
            number(
                "Utilization",
                "Share of time in which the card was computing, as the vendor counts it.",
                "max(accelerator_utilization_ratio{$cards})",
                "percentunit",
            ),
            number(
                "Clock",
                "Graphics or multiprocessor clock.",
                'max(accelerator_clock_hertz{$cards,domain=~"graphics|sm"})',
                "hertz",
            ),
            number("Processes", "Processes that use the card.", "max(accelerator_processes{$cards})"),
            card_table(
                "Identity",
                "What is known of the card besides its readings.",
                (*CARD_LABELS, "bus_id", "uuid", "serial", "driver", "partition", "power_kind"),
                (Column("", "accelerator_info{$cards}"),),
                height=4,
            ),
        ),
        "Heat, power and work": WORK,
        "Clocks": (
            lines(
                "Clocks",
                "Every domain; dashed: the maxima.",
                "hertz",
                *of_cards(("accelerator_clock_hertz{$cards}", "{{domain}}")),
                limits=query("accelerator_clock_max_hertz{$cards}", "{{device}} {{domain}} maximum"),
            ),
            lines(
                "Held back",
                "Share of time for which the clocks were held down, by the card's own count.",
                "percentunit",
                *of_cards(("rate(accelerator_throttled_seconds_total{$cards}[$__rate_interval])", "{{reason}}")),
            ),
            states(
                "Reasons",
                "Why the clocks are held down.",
                {"0": ("no", GREEN), "1": ("yes", RED)},
                *of_cards(("accelerator_throttled{$cards}", "{{reason}}")),
            ),
            lines(
                "Performance state",
                "P-number: 0 is the fastest.",
                "short",
                *of_cards(("accelerator_performance_state{$cards}", "")),
            ),
            states(
                "Performance level",
                "The level that is set.",
                {"1": ("set", BLUE)},
                *of_cards(("accelerator_performance_level{$cards} == 1", "{{level}}")),
            ).sized(width=12),
        ),
        "Links": LINKS,
        "Errors and events": (
            lines(
                "Memory errors",
                "Since the driver was loaded.",
                "short",
                *of_cards(
                    ("accelerator_ecc_corrected_total{$cards}", "{{location}} corrected"),
                    ("accelerator_ecc_uncorrected_total{$cards}", "{{location}} uncorrected"),
                    ("accelerator_ecc_deferred_total{$cards}", "{{location}} deferred"),
                ),
            ),
            lines(
                "Memory errors over a card's life",
                "As the card itself keeps them, drivers and restarts apart.",
                "short",
                *of_cards(
                    ("accelerator_ecc_corrected_lifetime_total{$cards}", "{{location}} corrected"),
                    ("accelerator_ecc_uncorrected_lifetime_total{$cards}", "{{location}} uncorrected"),
                ),
            ),
            lines(
                "Memory out of use",
                "Pages retired and rows replaced.",
                "short",
                *of_cards(
                    ("accelerator_retired_pages{$cards}", "pages, {{cause}}"),
                    ("accelerator_remapped_rows{$cards}", "rows, {{cause}}"),
                ),
            ),
            lines(
                "Events",
                "Events by code, since the daemon started. Only some drivers tell events.",
                "short",
                query("accelerator_events_total{$cards}", "{{device}} {{code}}"),
                query(
                    "0 * accelerator_up{$cards} unless on (cluster, job, instance, id) accelerator_events_total{$cards}",
                    "{{device}} no event",
                ),
            ),
            states(
                "Health",
                "The state that the card reports of itself.",
                {"1": ("so", BLUE)},
                *of_cards(("accelerator_health{$cards} == 1", "{{state}}")),
            ).sized(width=12),
            states(
                "Needs",
                "What the card or its driver waits for.",
                {"0": ("no", GREEN), "1": ("yes", RED)},
                query("accelerator_row_remap_pending{$cards}", "{{device}} row remap pending"),
                query("accelerator_row_remap_failed{$cards}", "{{device}} row remap failed"),
                query("accelerator_retired_pages_pending{$cards}", "{{device}} page retirement pending"),
                query('accelerator_recovery_action{$cards,action!="none"}', "{{device}} driver asks to {{action}}"),
                untold(
                    "accelerator_row_remap_pending{$cards}",
                    "accelerator_row_remap_failed{$cards}",
                    "accelerator_retired_pages_pending{$cards}",
                    "accelerator_recovery_action{$cards}",
                ),
            ),
        ),
    },
)
