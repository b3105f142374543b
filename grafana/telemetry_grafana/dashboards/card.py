"""One card: everything about it, links, errors and events included."""

from __future__ import annotations

from dataclasses import replace

from telemetry_grafana.dashboards.card_links import LINKS
from telemetry_grafana.dashboards.card_work import WORK
from telemetry_grafana.dashboards.page import Page, Section
from telemetry_grafana.dashboards.panels import BLUE, GREEN, RED, YELLOW, Panel, lines, number, states, word
from telemetry_grafana.dashboards.query import Query, column, now, query, untold
from telemetry_grafana.dashboards.tables import HOT, STATE, STATES, Column, card_table

_RATE = "[$__rate_interval]"
# Most sources read traffic every minute and errors every five: a rate is taken over four times that, at least.
_TRAFFIC_STEP, _ERRORS_STEP = "2m", "5m"


def _one(text: str, legend: str) -> Query:
    return query(text, legend)


def _beside(panel: Panel) -> Panel:
    """The panel in half the width, beside another one."""
    return replace(panel, width=12)


CARD = Page(
    uid="telemetry-card",
    title="Accelerators: card",
    description="One card: choose node, vendor and device. With several chosen their series lie over one another.",
    few=frozenset({"node", "vendor", "device"}),
    sections=(
        Section(
            "Now",
            (
                word(
                    "State",
                    "Not watched: the card was there within the hour, and its source fails or was released.",
                    STATES,
                    now(f"min({STATE})"),
                ),
                number(
                    "Temperature",
                    "The hottest sensor other than memory and board.",
                    "celsius",
                    now("max(accelerator:temperature_celsius{$cards})"),
                    HOT,
                ),
                number("Power", "The vendor's main figure.", "watt", now("max(accelerator_power_watts{$cards})")),
                number("Power limit", "The limit in force.", "watt", now("max(accelerator_power_cap_watts{$cards})")),
                number(
                    "Memory in use",
                    "As a share of all.",
                    "percentunit",
                    now("max(accelerator_memory_used_ratio{$cards})"),
                    ((None, GREEN), (0.95, YELLOW)),
                ),
                number(
                    "Utilization",
                    "Share of time in which the card was computing, as the vendor counts it.",
                    "percentunit",
                    now("max(accelerator_utilization_ratio{$cards})"),
                ),
                number(
                    "Clock",
                    "Graphics or multiprocessor clock.",
                    "hertz",
                    now('max(accelerator_clock_hertz{$cards,domain=~"graphics|sm"})'),
                ),
                number("Processes", "Processes that use the card.", "short", now("max(accelerator_processes{$cards})")),
                card_table(
                    "Identity",
                    "What is known of the card besides its readings.",
                    (
                        "instance",
                        "vendor",
                        "device",
                        "model",
                        "bus_id",
                        "uuid",
                        "serial",
                        "driver",
                        "partition",
                        "power_kind",
                    ),
                    (Column("", "short", column("accelerator_info{$cards}")),),
                    height=4,
                ),
            ),
        ),
        WORK,
        Section(
            "Clocks",
            (
                lines(
                    "Clocks",
                    "Every domain; dashed: the maxima.",
                    "hertz",
                    _one("accelerator_clock_hertz{$cards}", "{{device}} {{domain}}"),
                    untold("accelerator_clock_hertz{$cards}"),
                    limits=_one("accelerator_clock_max_hertz{$cards}", "{{device}} {{domain}} maximum"),
                ),
                lines(
                    "Held back",
                    "Share of time for which the clocks were held down, by the card's own count.",
                    "percentunit",
                    _one(f"rate(accelerator_throttled_seconds_total{{$cards}}{_RATE})", "{{device}} {{reason}}"),
                    untold("accelerator_throttled_seconds_total{$cards}"),
                ),
                states(
                    "Reasons",
                    "Why the clocks are held down.",
                    {"0": ("no", GREEN), "1": ("yes", RED)},
                    _one("accelerator_throttled{$cards}", "{{device}} {{reason}}"),
                    untold("accelerator_throttled{$cards}"),
                ),
                lines(
                    "Performance state",
                    "P-number: 0 is the fastest.",
                    "short",
                    _one("accelerator_performance_state{$cards}", "{{device}}"),
                    untold("accelerator_performance_state{$cards}"),
                ),
                _beside(
                    states(
                        "Performance level",
                        "The level that is set.",
                        {"1": ("set", BLUE)},
                        _one("accelerator_performance_level{$cards} == 1", "{{device}} {{level}}"),
                        untold("accelerator_performance_level{$cards}"),
                    )
                ),
            ),
        ),
        LINKS,
        Section(
            "Errors and events",
            (
                lines(
                    "Memory errors",
                    "Since the driver was loaded.",
                    "short",
                    _one("accelerator_ecc_corrected_total{$cards}", "{{device}} {{location}} corrected"),
                    _one("accelerator_ecc_uncorrected_total{$cards}", "{{device}} {{location}} uncorrected"),
                    _one("accelerator_ecc_deferred_total{$cards}", "{{device}} {{location}} deferred"),
                    untold(
                        "accelerator_ecc_corrected_total{$cards}",
                        "accelerator_ecc_uncorrected_total{$cards}",
                        "accelerator_ecc_deferred_total{$cards}",
                    ),
                ),
                lines(
                    "Memory errors over a card's life",
                    "As the card itself keeps them, drivers and restarts apart.",
                    "short",
                    _one("accelerator_ecc_corrected_lifetime_total{$cards}", "{{device}} {{location}} corrected"),
                    _one("accelerator_ecc_uncorrected_lifetime_total{$cards}", "{{device}} {{location}} uncorrected"),
                    untold(
                        "accelerator_ecc_corrected_lifetime_total{$cards}",
                        "accelerator_ecc_uncorrected_lifetime_total{$cards}",
                    ),
                ),
                lines(
                    "Memory out of use",
                    "Pages retired and rows replaced.",
                    "short",
                    _one("accelerator_retired_pages{$cards}", "{{device}} pages, {{cause}}"),
                    _one("accelerator_remapped_rows{$cards}", "{{device}} rows, {{cause}}"),
                    untold("accelerator_retired_pages{$cards}", "accelerator_remapped_rows{$cards}"),
                ),
                lines(
                    "Events",
                    "Events by code, since the daemon started. Only some drivers tell events.",
                    "short",
                    _one("accelerator_events_total{$cards}", "{{device}} {{code}}"),
                    _one(
                        "0 * accelerator_up{$cards} unless on (cluster, job, instance, id) accelerator_events_total{$cards}",
                        "{{device}} no event",
                    ),
                ),
                _beside(
                    states(
                        "Health",
                        "The state that the card reports of itself.",
                        {"1": ("so", BLUE)},
                        _one("accelerator_health{$cards} == 1", "{{device}} {{state}}"),
                        untold("accelerator_health{$cards}"),
                    )
                ),
                states(
                    "Needs",
                    "What the card or its driver waits for.",
                    {"0": ("no", GREEN), "1": ("yes", RED)},
                    _one("accelerator_row_remap_pending{$cards}", "{{device}} row remap pending"),
                    _one("accelerator_row_remap_failed{$cards}", "{{device}} row remap failed"),
                    _one("accelerator_retired_pages_pending{$cards}", "{{device}} page retirement pending"),
                    _one('accelerator_recovery_action{$cards,action!="none"}', "{{device}} driver asks to {{action}}"),
                    untold(
                        "accelerator_row_remap_pending{$cards}",
                        "accelerator_row_remap_failed{$cards}",
                        "accelerator_retired_pages_pending{$cards}",
                        "accelerator_recovery_action{$cards}",
                    ),
                ),
            ),
        ),
    ),
)
