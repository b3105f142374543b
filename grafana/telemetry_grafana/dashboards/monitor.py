"""The monitor's own health: sources, their states and durations, what it costs, versions."""

from __future__ import annotations

from telemetry_grafana.dashboards.page import Page, Section
from telemetry_grafana.dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    RED,
    YELLOW,
    Column,
    card_table,
    lines,
    number,
    states,
)
from telemetry_grafana.dashboards.query import column, now, query
from telemetry_parsers.model import STATES

_COLOURS = {"ok": GREEN, "failed": RED, "stuck": RED, "suspended": BLUE, "released": BLUE}
# The position of the state that a source is in.
_STATE = " or ".join(
    f'({position} * (telemetry_source_state{{$nodes,state="{state}"}} == 1))' for position, state in enumerate(STATES)
)

MONITOR = Page(
    uid="telemetry-monitor",
    title="Accelerators: monitor health",
    description="Whether the numbers on the other dashboards can be believed, and what it costs to get them.",
    sections=(
        Section(
            "Now",
            (
                number("Daemons", "Daemons that answer.", "short", now("count(telemetry_build_info{$nodes})")),
                number(
                    "Do not answer",
                    "Targets that had a daemon of ours within a day.",
                    "short",
                    now(
                        "count(up{$nodes} == 0 and on (job, instance) last_over_time(telemetry_build_info[1d])) or vector(0)"
                    ),
                    ((None, GREEN), (1, RED)),
                ),
                number(
                    "Sources that fail",
                    "Sources whose last attempt failed or has expired.",
                    "short",
                    now("sum(telemetry_source_up{$nodes} == bool 0)"),
                    ((None, GREEN), (1, RED)),
                ),
                number(
                    "Not understood",
                    "Things in the tools' outputs that were not understood.",
                    "short",
                    now("sum(telemetry_source_problems{$nodes})"),
                    ((None, GREEN), (1, YELLOW)),
                ),
                number(
                    "Unknown fields",
                    "Fields in the tools' outputs that no table knows.",
                    "short",
                    now("sum(telemetry_source_unknown_fields{$nodes})"),
                    ((None, GREEN), (1, YELLOW)),
                ),
                number(
                    "Plugins not loaded",
                    "Parsers that were installed and could not be loaded.",
                    "short",
                    now("sum(telemetry_plugin_load_failures{$nodes}) or vector(0)"),
                    ((None, GREEN), (1, RED)),
                ),
            ),
        ),
        Section(
            "Sources",
            (
                states(
                    "State of each source",
                    "What each tool or library is in.",
                    {str(n): (state, _COLOURS.get(state, GREY)) for n, state in enumerate(STATES)},
                    query(_STATE, "{{instance}} {{source}}"),
                ),
                lines(
                    "Duration of polls",
                    "A poll that takes longer and longer often comes before a wedged driver.",
                    "s",
                    query("telemetry_source_duration_seconds{$nodes}", "{{instance}} {{source}} {{poll}}"),
                ),
                lines(
                    "Age of the last success",
                    "Time since each poll last succeeded.",
                    "s",
                    query(
                        "time() - telemetry_source_last_success_timestamp_seconds{$nodes}",
                        "{{instance}} {{source}} {{poll}}",
                    ),
                ),
                lines(
                    "Failures",
                    "Failed attempts a second, by reason.",
                    "short",
                    query(
                        "sum by (instance, source, reason) (rate(telemetry_source_failures_total{$nodes}[$__rate_interval])) > 0",
                        "{{instance}} {{source}} {{reason}}",
                    ),
                ),
                lines(
                    "Overruns",
                    "Polls that were still running when they were due again, a second.",
                    "short",
                    query(
                        "sum by (instance, source) (rate(telemetry_source_overruns_total{$nodes}[$__rate_interval]))",
                        "{{instance}} {{source}}",
                    ),
                ),
            ),
        ),
        Section(
            "Cost",
            (
                lines(
                    "CPU of each source",
                    "Share of a core, child processes included.",
                    "percentunit",
                    query(
                        "rate(telemetry_source_cpu_seconds_total{$nodes}[$__rate_interval])",
                        "{{instance}} {{source}}",
                    ),
                ),
                lines(
                    "CPU of the daemon",
                    "Share of a core, without its children.",
                    "percentunit",
                    query(
                        "rate(process_cpu_seconds_total{$nodes}[$__rate_interval])"
                        " and on (job, instance) telemetry_build_info",
                        "{{instance}}",
                    ),
                ),
                lines(
                    "Memory of the daemon",
                    "Resident memory, without its children.",
                    "bytes",
                    query(
                        "process_resident_memory_bytes{$nodes} and on (job, instance) telemetry_build_info",
                        "{{instance}}",
                    ),
                ),
                lines(
                    "Duration of scrapes",
                    "As Prometheus measures it.",
                    "s",
                    query(
                        "scrape_duration_seconds{$nodes} and on (job, instance) telemetry_build_info", "{{instance}}"
                    ),
                ),
            ),
        ),
        Section(
            "Versions and expectations",
            (
                card_table(
                    "Versions",
                    "Which version of the daemon runs where.",
                    ("instance", "version", "python"),
                    (Column("running", "short", column("telemetry_build_info{$nodes}")),),
                ),
                card_table(
                    "Versions of tools",
                    "The version of each tool or library.",
                    ("instance", "source", "version"),
                    (Column("used", "short", column("telemetry_source_info{$nodes}")),),
                ),
                lines(
                    "Listed, expected, on the bus",
                    "Cards that telemetry lists, that the configuration expects, and that the PCI bus has.",
                    "short",
                    query("sum by (instance, vendor) (telemetry_devices{$vendors})", "{{instance}} {{vendor}} listed"),
                    query("telemetry_devices_expected{$vendors}", "{{instance}} {{vendor}} expected"),
                    query("telemetry_pci_devices{$vendors}", "{{instance}} {{vendor}} on the bus"),
                ),
                states(
                    "Configuration",
                    "Whether the last reload found a good configuration.",
                    {"0": ("rejected", RED), "1": ("good", GREEN)},
                    query("telemetry_config_last_reload_successful{$nodes}", "{{instance}}"),
                ),
            ),
        ),
    ),
)
