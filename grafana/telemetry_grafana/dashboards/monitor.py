"""The dashboard about the health of the monitor itself."""

from __future__ import annotations

from telemetry_grafana.dashboards import shared
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    NO_SOFT_LIMITS,
    RED,
    Column,
    Figure,
    card_table,
    line_panel,
    number_panel,
    numbers_panel,
    states_panel,
    with_few_points,
)
from telemetry_grafana.dashboards.query import query, top_rates_query, top_series_query
from telemetry_grafana.promql import NODE
from telemetry_parsers.model import STATES

_COLOURS_BY_STATE = {"ok": GREEN, "failed": RED, "stuck": RED, "suspended": BLUE, "released": BLUE}
_ABSENT_STATES = "missing|no_devices|not_mine|disabled|not_supported"
# Encodes a source's state as its index in STATES. States of sources without anything to read come last.
_STATE_NUMBER = " or ".join(
    f'({index} * (telemetry_source_state{{$nodes,state="{state}"}} == 1))'
    for index, state in sorted(enumerate(STATES), key=lambda item: item[1] in _ABSENT_STATES.split("|"))
)
# Sorts sources from 0 (never ok) to 1 (always ok). Sources without anything to read get 2.
_OK_SHARE = " + ".join(
    f'sum without (state) (avg_over_time(telemetry_source_state{{$nodes,state=~"{states}"}}[$__range] @ end()))'
    for states in (f"ok|{_ABSENT_STATES}", _ABSENT_STATES)
)
_EXPECTED_CARDS = (
    "max by (cluster, job, instance, vendor) (telemetry_devices_expected{$vendors} or telemetry_pci_devices{$vendors})"
)
_MISSING_CARDS = (
    f"clamp_min({_EXPECTED_CARDS} - on (cluster, job, instance, vendor)"
    f" (sum by (cluster, job, instance, vendor) (telemetry_devices{{$vendors}}) or 0 * {_EXPECTED_CARDS}), 0)"
)
_SOURCE_LABELS = f"{NODE}, source"
_IF_DAEMON = " and on (cluster, job, instance) telemetry_build_info"
_MAX_ROWS = 20
_POLL_LEGEND = "{{instance}} {{source}} {{poll}}"

MONITOR = Page(
    uid="telemetry-monitor",
    title="Accelerators: monitor health",
    description="Whether the numbers on the other dashboards are reliable, and the cost of the monitor.",
    sections={
        "Now": (
            number_panel("Daemons", "Daemons that respond.", "count(telemetry_build_info{$nodes})"),
            shared.NODES_DOWN,
            shared.FAILING_SOURCES,
            numbers_panel(
                "Problems",
                "Stuck: tools or libraries that hang in the driver and cannot be killed, or that another process blocks. "
                "Not understood: output that could not be parsed. Unknown fields: output without a metric. Refused: devices above the "
                "limit of a source, from a faulty tool or plugin. Plugins: installed, but could not be loaded. "
                "Configurations: the last reload failed, and the daemon continues with the previous configuration.",
                Figure("Stuck", 'sum(telemetry_source_state{$nodes,state="stuck"})', steps=shared.RED_IF_ANY),
                Figure("Not understood", "sum(telemetry_source_problems{$nodes})", steps=shared.YELLOW_IF_ANY),
                Figure("Unknown fields", "sum(telemetry_source_unknown_fields{$nodes})", steps=shared.YELLOW_IF_ANY),
                Figure("Refused", "sum(telemetry_devices_refused{$nodes})", steps=shared.RED_IF_ANY),
                Figure(
                    "Plugins",
                    "sum(telemetry_plugin_load_failures{$nodes}) or 0 * count(telemetry_build_info{$nodes})",
                    steps=shared.RED_IF_ANY,
                ),
                Figure(
                    "Configurations",
                    "sum(telemetry_config_last_reload_successful{$nodes} == bool 0)",
                    steps=shared.RED_IF_ANY,
                ),
            ).with_size(width=15, height=4),
        ),
        "Sources": (
            with_few_points(
                states_panel(
                    "State of each source",
                    f"The state of up to {_MAX_ROWS} tools or libraries. Those that were not ok for the longest time come first.",
                    {str(n): (state, _COLOURS_BY_STATE.get(state, GREY)) for n, state in enumerate(STATES)},
                    query(
                        f"max without (state) (({_STATE_NUMBER}) and on ({_SOURCE_LABELS}) bottomk({_MAX_ROWS}, {_OK_SHARE}))",
                        "{{instance}} {{source}}",
                    ),
                ).with_size(height=11)
            ),
            line_panel(
                "Duration of polls",
                "The slowest polls. Polls that become slower often precede a hanging driver.",
                "s",
                top_series_query("telemetry_source_duration_seconds{$nodes}", _POLL_LEGEND, f"{_SOURCE_LABELS}, poll"),
                axis=NO_SOFT_LIMITS,
            ),
            line_panel(
                "Age of the last success",
                "The polls whose last success was longest ago.",
                "dtdhms",
                query(
                    # Both times are from the node's clock, so the clock of Prometheus does not matter.
                    "(telemetry_time_seconds{$nodes} - on (cluster, job, instance) group_right ()"
                    " telemetry_source_last_success_timestamp_seconds{$nodes}) and on (cluster, job, instance, source, poll)"
                    " bottomk(8, telemetry_source_last_success_timestamp_seconds{$nodes} @ end())",
                    _POLL_LEGEND,
                ),
                axis=NO_SOFT_LIMITS,
            ),
            with_few_points(
                line_panel(
                    "Failures",
                    "Failed attempts per minute, by reason. 0: no failures.",
                    "cpm",
                    query(
                        "60 * sum by (cluster, job, instance, source, reason)"
                        " (rate(telemetry_source_failures_total{$nodes}[$__rate_interval])) > 0"
                        " or 0 * sum by (source) (telemetry_source_up{$nodes})",
                        "{{instance}} {{source}} {{reason}}",
                    ),
                )
            ),
            line_panel(
                "Overruns",
                "Polls per minute that were still running when the next poll was due.",
                "cpm",
                query(
                    "60 * sum by (cluster, job, instance, source) (rate(telemetry_source_overruns_total{$nodes}[$__rate_interval])) > 0"
                    " or 0 * sum by (source) (telemetry_source_up{$nodes})",
                    "{{instance}} {{source}}",
                ),
            ),
        ),
        "Cost": (
            line_panel(
                "CPU of each source",
                "Share of a core, including child processes, for the sources with the highest use.",
                "percentunit",
                top_rates_query(
                    "telemetry_source_cpu_seconds_total{$nodes}", "{{instance}} {{source}}", _SOURCE_LABELS
                ),
                axis=NO_SOFT_LIMITS,
            ),
            line_panel(
                "CPU of the daemon",
                "Share of a core, without child processes, for the daemons with the highest use.",
                "percentunit",
                top_rates_query("process_cpu_seconds_total{$nodes}", "{{instance}}", NODE, _IF_DAEMON),
                axis=NO_SOFT_LIMITS,
            ),
            line_panel(
                "Memory of the daemon",
                "Resident memory, without child processes, for the daemons with the highest use.",
                "bytes",
                top_series_query("process_resident_memory_bytes{$nodes}", "{{instance}}", NODE, condition=_IF_DAEMON),
            ),
            line_panel(
                "Duration of scrapes",
                "The slowest scrapes, as Prometheus measures them.",
                "s",
                top_series_query("scrape_duration_seconds{$nodes}", "{{instance}}", NODE, condition=_IF_DAEMON),
                axis=NO_SOFT_LIMITS,
            ),
        ),
        "Versions and expectations": (
            card_table(
                "Versions",
                "Versions of the daemon, and the number of nodes.",
                ("version", "python"),
                (Column("nodes", "count by (version, python) (telemetry_build_info{$nodes})"),),
            ).with_size(width=6, height=8),
            card_table(
                "Versions of tools",
                "Versions of each tool or library, and the number of nodes.",
                ("source", "version"),
                (Column("nodes", "count by (source, version) (telemetry_source_info{$nodes})"),),
                sort=("source",),
            ).with_size(width=6, height=8),
            card_table(
                "Drivers",
                "Drivers of each model, and the number of cards.",
                ("vendor", "model", "driver"),
                (Column("cards", 'count by (vendor, model, driver) (accelerator_info{$cards,driver!=""})'),),
                sort=("vendor", "model"),
            ).with_size(width=12, height=8),
            card_table(
                "Cards listed, expected and on the bus",
                "The number of cards that telemetry lists, that the configuration expects (n/a: not set), and that are on the PCI bus.",
                ("instance", "vendor"),
                (
                    Column("listed", "sum by (cluster, job, instance, vendor) (telemetry_devices{$vendors})"),
                    Column(
                        "expected", "sum by (cluster, job, instance, vendor) (telemetry_devices_expected{$vendors})"
                    ),
                    Column("on the bus", "sum by (cluster, job, instance, vendor) (telemetry_pci_devices{$vendors})"),
                    Column("missing", _MISSING_CARDS, steps=shared.RED_IF_ANY),
                ),
                sort=("-missing", "instance"),
            ).with_size(),
        ),
    },
)
