"""Panels that several dashboards share."""

from __future__ import annotations

from telemetry_exporters.judgement.thresholds import pattern
from telemetry_grafana.dashboards.panels import (
    GREEN,
    GREY,
    RED,
    YELLOW,
    Column,
    Figure,
    States,
    Steps,
    card_table,
    number_panel,
    rising,
)
from telemetry_grafana.promql import CARD, DEVICE, NODE, PARTITIONS

BY_CARD = f"by ({DEVICE})"
CARD_LABELS = ("instance", "vendor", "device", "model")
HEAT_STEPS: Steps = rising(80, 95)
# Colours for the headroom, which is the difference between a card's limit and its temperature.
_HEADROOM_STEPS: Steps = ((None, RED), (0, YELLOW), (5, GREEN))
# State 1: throttled by heat or the power brake. State 2: throttled for a normal reason, such as the power limit.
THROTTLE_STATES: States = {"0": ("no", GREEN), "1": ("yes", YELLOW), "2": ("yes (normal at full load)", GREY)}
# Excludes the power limit, which is a normal reason at full load.
THROTTLING = 'reason=~"{}|{}"'.format(pattern("heat_reasons"), pattern("brake_reasons"))
STATES_TEXT = (
    "State: the card's worst condition. Failing: see the panel Failing. Too hot: no headroom left. Throttled: by heat or the power "
    "brake. Not watched: the card was present within the last hour, but its source now fails or is released."
)
# A partition without series was removed on purpose if its card still has series.
_REMOVED_PARTITIONS = (
    '(last_over_time(accelerator_info{parent!=""}[1h]) and on (cluster, job, instance, parent)'
    ' label_replace(accelerator_up, "parent", "$$1", "id", "(.*)"))'
)
# The most urgent state comes first. -1 means that a card had series within the last hour, but has none now.
CARD_STATES: States = {
    "-1": ("not watched", YELLOW),
    "0": ("lost", RED),
    "0.25": ("failing", RED),
    "0.5": ("too hot", RED),
    "0.75": ("throttled", YELLOW),
    "1": ("up", GREEN),
}
_FAILING = " or ".join(
    f"({condition})"
    for condition in (
        'accelerator_health{$cards,state=~"alarm|critical"} == 1',
        'accelerator_recovery_action{$cards,action!="none"} == 1',
        "accelerator_row_remap_failed{$cards} == 1",
        "accelerator_row_remap_pending{$cards} == 1",
        "accelerator_retired_pages_pending{$cards} == 1",
        "accelerator_ecc_uncorrected_total{$cards} > 0",
    )
)
CARD_STATE = (
    f"max {BY_CARD} (accelerator_up{{$cards}} == 0) or 0.25 * group {BY_CARD} ({_FAILING})"
    f" or 0.5 * group {BY_CARD} (accelerator:temperature_margin_celsius{{$cards}} < 0)"
    f" or 0.75 * group {BY_CARD} (accelerator_throttled{{$cards,{THROTTLING}}} == 1)"
    f" or max {BY_CARD} (accelerator_up{{$cards}}) or (max {BY_CARD} (last_over_time(accelerator_up{{$cards}}[1h])) * 0 - 1"
    f" unless on (cluster, job, instance, id) accelerator_up unless on (cluster, job, instance, id) {_REMOVED_PARTITIONS})"
)


def throttle_state(condition: str = "") -> str:
    """Return an expression for the state of each throttling reason."""
    all_reasons, problem_reasons = (f"accelerator_throttled{{$cards{labels}}}" for labels in ("", f",{THROTTLING}"))
    return f"({problem_reasons}{condition} or 2 * {all_reasons}{condition})"


RED_IF_ANY = ((None, GREEN), (1, RED))
YELLOW_IF_ANY = rising(1)
_IF_WHOLE = f"unless on ({CARD}) {PARTITIONS}"


def _count_or_zero(counted: str, population: str) -> str:
    return f"count({counted}) or 0 * count({population})"


CARDS = number_panel(
    "Cards", "Whole cards that are up. Partitions do not count.", f"sum(accelerator_up{{$cards}} {_IF_WHOLE})"
)
LOST = number_panel(
    "Lost",
    "Cards that a working source no longer lists. Partitions do not count.",
    f"sum((accelerator_up{{$cards}} == bool 0) {_IF_WHOLE})",
    steps=RED_IF_ANY,
)
FAILING = number_panel(
    "Failing",
    "Cards with uncorrected memory errors, pending or failed memory repairs, or bad health, and cards whose driver "
    "asks for an action.",
    _count_or_zero(f"max by ({CARD}) ({_FAILING})", "accelerator_up{$cards}"),
    steps=RED_IF_ANY,
)
# The panel omits numbers that no chosen card reports.
THROTTLED = Figure(
    "Throttled",
    _count_or_zero(
        f"max by ({CARD}) (accelerator_throttled{{$cards,{THROTTLING}}}) == 1",
        f"accelerator_throttled{{$cards,{THROTTLING}}}",
    ),
    steps=YELLOW_IF_ANY,
)
THROTTLED_TEXT = (
    "Throttled: cards whose clocks are reduced by heat or by the power brake. The power limit alone does not count: it is normal at "
    "full load."
)
NODES_DOWN = number_panel(
    "Nodes down",
    "Prometheus targets that do not respond now, but ran a telemetry daemon within the last day.",
    "count(up{$nodes} == 0 and on (cluster, job, instance) last_over_time(telemetry_build_info[1d]))"
    " or 0 * count(up{$nodes})",
    steps=RED_IF_ANY,
)
FAILING_SOURCES = number_panel(
    "Bad sources",
    "Installed tools and libraries that fail. Readings that only they report are missing.",
    "sum(telemetry_source_up{$nodes} == bool 0)",
    steps=RED_IF_ANY,
)
POWER = Figure("Power", "sum(accelerator_power_watts{$cards})", "watt")
ENERGY = Figure("Energy", "sum(increase(accelerator_energy_estimated_joules_total{$cards}[$__range])) / 3600", "watth")

EVENTS_TEXT = (
    "Open events by code (NVIDIA: Xid). An event stays open until the card is reset, its driver is reloaded, or the node is "
    "rebooted. Only some drivers report events."
)
EVENT_STATES: States = {"0": ("none", GREEN), "1": ("open", YELLOW)}
_ALERT_LABELS = f"{NODE}, vendor, device, alertname"
_FIRING = 'ALERTS{$alerted,alertstate="firing"}'
# Severities as numbers, for sorting.
_SEVERITY = (
    f'max by ({_ALERT_LABELS}) (0 * ALERTS{{$alerted,alertstate="firing",severity="critical"}}'
    ' or ALERTS{$alerted,alertstate="firing",severity="warning"}'
    ' or 2 * ALERTS{$alerted,alertstate="firing",severity!~"critical|warning"})'
)


def current_value(metric: str) -> str:
    """Return an expression for each card's current value of a metric."""
    return f"max {BY_CARD} ({metric}{{$cards}})"


# Cards with a problem come first.
ALL_CARDS = card_table(
    "All cards",
    f"The current state of each card. {STATES_TEXT} Headroom: degrees left before the card slows down. n/a: not reported, or "
    "lost. Click on a device to open its dashboard.",
    CARD_LABELS,
    (
        Column("state", CARD_STATE, states=CARD_STATES),
        Column("temperature", current_value("accelerator:temperature_celsius"), "celsius", HEAT_STEPS),
        Column("headroom", current_value("accelerator:temperature_margin_celsius"), "celsius", _HEADROOM_STEPS),
        Column("power", current_value("accelerator_power_watts"), "suffix: W"),
        Column("limit", current_value("accelerator_power_cap_watts"), "suffix: W"),
        Column("utilization", current_value("accelerator_utilization_ratio"), "percentunit"),
        Column("memory", current_value("accelerator_memory_used_ratio"), "percentunit"),
    ),
    sort=("state", "instance", "device"),
)
# Grafana's own alert list ignores the variables.
FIRING_ALERTS = card_table(
    "Firing alerts",
    "Alerts about the chosen nodes, from the rules that Prometheus or vmalert evaluates. Alerts that Grafana evaluates "
    "are in Grafana's own list.",
    ("alertname", "instance", "vendor", "device"),
    (
        Column("severity", _SEVERITY, states={"0": ("critical", RED), "1": ("warning", YELLOW), "2": ("info", GREEN)}),
        Column(
            "since",
            f"1000 * min by ({_ALERT_LABELS}) (ALERTS_FOR_STATE{{$alerted}} and ignoring (alertstate) {_FIRING})",
            "dateTimeFromNow",
        ),
    ),
    sort=("severity", "since"),
).with_empty_text("no alert fires, or Prometheus has no alerting rules")
