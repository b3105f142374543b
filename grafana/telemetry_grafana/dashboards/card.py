"""One card: everything about it, links, errors and events included."""

from __future__ import annotations

from telemetry_grafana.dashboards.card_links import LINKS, LINKS_UP
from telemetry_grafana.dashboards.card_work import HEAT_AND_SUPPLY, UNITS, WORK
from telemetry_grafana.dashboards.figures import BAD, ENERGY
from telemetry_grafana.dashboards.lists import EVENT_WORDS, EVENTS_MEAN
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import BLUE, GREEN, RED, YELLOW, Figure, lines, numbers, states, word
from telemetry_grafana.dashboards.query import of_cards, query, untold
from telemetry_grafana.dashboards.tables import HOT, STATE, STATES, Column, card_table

_ACTION = 'accelerator_recovery_action{$cards,action!="none"}'

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
            numbers(
                "Readings",
                "Temperature: the hottest sensor other than memory and board. Utilization: share of time in which the card was "
                "computing, as the vendor counts it. Clock: of graphics or multiprocessors. Energy: in the time shown. What this "
                "card does not tell is not here.",
                Figure("Temperature", "max(accelerator:temperature_celsius{$cards})", "celsius", HOT),
                Figure("Power", "max(accelerator_power_watts{$cards})", "watt"),
                Figure("Power limit", "max(accelerator_power_cap_watts{$cards})", "watt"),
                Figure(
                    "Memory in use",
                    "max(accelerator_memory_used_ratio{$cards})",
                    "percentunit",
                    ((None, GREEN), (0.95, YELLOW)),
                ),
                Figure("Utilization", "max(accelerator_utilization_ratio{$cards})", "percentunit"),
                Figure("Clock", 'max(accelerator_clock_hertz{$cards,domain=~"graphics|sm"})', "hertz"),
                Figure("Processes", "max(accelerator_processes{$cards})"),
                ENERGY,
                Figure("Links down", "sum(accelerator_link_up{$cards} == bool 0)", steps=BAD),
            ).sized(width=21, height=4),
            card_table(
                "Identity",
                "What is known of the card besides its readings.",
                ("device", "model", "bus_id", "uuid", "serial", "driver", "partition", "power_kind"),
                (Column("", "accelerator_info{$cards}"),),
                height=3,
            ),
        ),
        "Heat, power and work": (
            *WORK,
            lines(
                "Clocks",
                "Every domain; dashed: the maxima.",
                "hertz",
                *of_cards(("accelerator_clock_hertz{$cards}", "{{domain}}")),
                limits=(query("accelerator_clock_max_hertz{$cards}", "{{device}} {{domain}} maximum"),),
            ),
        ),
        "What holds it back": (
            states(
                "Reasons",
                "Why the clocks are held down.",
                {"0": ("no", GREEN), "1": ("yes", RED)},
                *of_cards(("accelerator_throttled{$cards}", "{{reason}}")),
            ).sized(width=12),
            states(
                "Health and needs",
                "Whether the card reports itself well, and what it or its driver waits for.",
                {"0": ("no", GREEN), "1": ("yes", RED)},
                query('accelerator_health{$cards,state!~"ok|unknown"}', "{{device}} health: {{state}}"),
                query("accelerator_row_remap_pending{$cards}", "{{device}} row remap pending"),
                query("accelerator_row_remap_failed{$cards}", "{{device}} row remap failed"),
                query("accelerator_retired_pages_pending{$cards}", "{{device}} page retirement pending"),
                query(f"max without (action) ({_ACTION})", "{{device}} driver asks for something"),
                query(
                    f"{_ACTION} and on (cluster, job, instance, id, action) max_over_time({_ACTION}[$__range] @ end()) == 1",
                    "{{device}} driver asks to {{action}}",
                ),
                untold(
                    "accelerator_health{$cards}",
                    "accelerator_row_remap_pending{$cards}",
                    "accelerator_row_remap_failed{$cards}",
                    "accelerator_retired_pages_pending{$cards}",
                    "accelerator_recovery_action{$cards}",
                ),
            ).sized(width=12),
        ),
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
            states(
                "Events",
                EVENTS_MEAN,
                EVENT_WORDS,
                query("accelerator_event_open{$cards}", "{{device}} {{code}}"),
                query(
                    "0 * accelerator_up{$cards} unless on (cluster, job, instance, id) accelerator_event_open{$cards}",
                    "{{device}} no event",
                ),
            ).sized(width=12),
        ),
    },
    folded={
        "Links": (*LINKS, LINKS_UP),
        "Margins, energy, fans, voltages": HEAT_AND_SUPPLY,
        "Engines, pipes, shared memory": UNITS,
        "Performance states": (
            lines(
                "Held back",
                "Share of time for which the clocks were held down, by the card's own count.",
                "percentunit",
                *of_cards(("rate(accelerator_throttled_seconds_total{$cards}[$__rate_interval])", "{{reason}}")),
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
        "Errors over its life": (
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
        ),
    },
)
