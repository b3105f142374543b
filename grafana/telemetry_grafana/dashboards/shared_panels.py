"""What several dashboards show: figures at their head, the table of all cards, alerts that fire, errors, partitions.

Where nothing counts as bad, a nought of what is watched stands in: no collection at all is no nought.
"""

from __future__ import annotations

from dataclasses import replace

from telemetry_exporters.judgement.thresholds import pattern
from telemetry_grafana.dashboards.panels import (
    GREEN,
    RED,
    YELLOW,
    Column,
    Figure,
    Panel,
    Steps,
    Words,
    card_table,
    number,
)
from telemetry_grafana.promql import CARD, DEVICE, NODE, PARTITIONS

ROW = f"by ({DEVICE})"
CARD_LABELS = ("instance", "vendor", "device", "model")
HOT: Steps = ((None, GREEN), (80, YELLOW), (95, RED))
# Degrees that are left.
NEAR: Steps = ((None, RED), (0, YELLOW), (5, GREEN))
# What should not hold a card down; the power limit alone is normal at full load.
THROTTLING = 'reason=~"{}|{}"'.format(pattern("heat_reasons"), pattern("brake_reasons"))
# A partition that is gone while its card is there was removed on purpose, so it is no loss.
_TAKEN_AWAY = (
    '(last_over_time(accelerator_info{parent!=""}[1h]) and on (cluster, job, instance, parent)'
    ' label_replace(accelerator_up, "parent", "$$1", "id", "(.*)"))'
)
# -1 is a card that was there within the hour and has no series now.
STATES: Words = {"1": ("up", GREEN), "0": ("lost", RED), "-1": ("not watched", YELLOW)}
STATE = (
    f"max {ROW} (accelerator_up{{$cards}}) or (max {ROW} (last_over_time(accelerator_up{{$cards}}[1h])) * 0 - 1"
    f" unless on (cluster, job, instance, id) accelerator_up unless on (cluster, job, instance, id) {_TAKEN_AWAY})"
)
BAD = ((None, GREEN), (1, RED))
DOUBTFUL = ((None, GREEN), (1, YELLOW))
_WHOLE = f"unless on ({CARD}) {PARTITIONS}"
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


def _count(selected: str, watched: str) -> str:
    return f"count({selected}) or 0 * count({watched})"


CARDS = number(
    "Cards", "Whole cards that are up; partitions of a card do not count.", f"sum(accelerator_up{{$cards}} {_WHOLE})"
)
LOST = number(
    "Lost",
    "Cards that were there and are not listed any more by a source that works; their partitions do not count.",
    f"sum((accelerator_up{{$cards}} == bool 0) {_WHOLE})",
    steps=BAD,
)
FAILING = number(
    "Failing",
    "Cards with uncorrected memory errors, memory to be taken out of use, a bad health of their own, or a driver that "
    "asks for a reset.",
    _count(f"max by (cluster, job, instance, id) ({_FAILING})", "accelerator_up{$cards}"),
    steps=BAD,
)
# These some vendors do not tell: they stand side by side in one panel, without those that nobody tells.
THROTTLED = Figure(
    "Throttled",
    _count(
        f"max by (cluster, job, instance, id) (accelerator_throttled{{$cards,{THROTTLING}}}) == 1",
        f"accelerator_throttled{{$cards,{THROTTLING}}}",
    ),
    steps=DOUBTFUL,
)
THROTTLED_MEANS = (
    "Throttled: cards whose clocks are held down by heat or by the power brake; the power limit alone, which is normal at "
    "full load, does not count."
)
NODES_DOWN = number(
    "Nodes down",
    "Targets of Prometheus that had a daemon of ours within a day and do not answer.",
    "count(up{$nodes} == 0 and on (cluster, job, instance) last_over_time(telemetry_build_info[1d]))"
    " or 0 * count(up{$nodes})",
    steps=BAD,
)
FAILING_SOURCES = number(
    "Bad sources",
    "Tools and libraries that are there and do not give what they should: what they alone tell is not watched.",
    "sum(telemetry_source_up{$nodes} == bool 0)",
    steps=BAD,
)
POWER = Figure("Power", "sum(accelerator_power_watts{$cards})", "watt")
HOTTEST = Figure("Hottest card", "max(accelerator:temperature_celsius{$cards})", "celsius", HOT)
ENERGY = Figure("Energy", "sum(increase(accelerator_energy_estimated_joules_total{$cards}[$__range])) / 3600", "watth")


EVENTS_MEAN = (
    "Events by code (NVIDIA: Xid), from when they came until the card was reset, its driver loaded anew or the node started. "
    "Only some drivers tell events."
)
EVENT_WORDS: Words = {"0": ("none", GREEN), "1": ("open", YELLOW)}
_ALERT = f"{NODE}, vendor, device, alertname"
_FIRING = 'ALERTS{$alerted,alertstate="firing"}'
# As numbers they are sorted by weight.
_SEVERITY = (
    f'max by ({_ALERT}) (0 * ALERTS{{$alerted,alertstate="firing",severity="critical"}}'
    ' or ALERTS{$alerted,alertstate="firing",severity="warning"}'
    ' or 2 * ALERTS{$alerted,alertstate="firing",severity!~"critical|warning"})'
)
_NO_ALERT = "no alert fires, if Prometheus has the rules"
_NO_PARTITION = "no card is divided"


def cards_now(height: int) -> Panel:
    """Every card with its core readings, those with a problem first."""
    return card_table(
        "All cards",
        "Each card now; headroom: degrees left before it slows down by its own limits; n/a: this card does not tell, or is lost; not watched: it was there within the hour, and its source fails or was "
        "released. A click on the device opens the card.",
        CARD_LABELS,
        (
            Column("state", STATE, words=STATES),
            Column("temperature", _of_card("accelerator:temperature_celsius"), "celsius", HOT),
            Column("headroom", _of_card("accelerator:temperature_margin_celsius"), "celsius", NEAR),
            Column("power", _of_card("accelerator_power_watts"), "watt"),
            Column("limit", _of_card("accelerator_power_cap_watts"), "watt"),
            Column("utilization", _of_card("accelerator_utilization_ratio"), "percentunit"),
            Column("memory", _of_card("accelerator_memory_used_ratio"), "percentunit"),
            Column(
                "throttled",
                f"max {ROW} (accelerator_throttled{{$cards,{THROTTLING}}})",
                words={"0": ("no", GREEN), "1": ("yes", YELLOW)},
            ),
        ),
        height,
        sort=("state", "-throttled", "instance", "device"),
    )


def _of_card(metric: str) -> str:
    return f"max {ROW} ({metric}{{$cards}})"


def firing_alerts(height: int) -> Panel:
    """The alerts that fire now, from the series that Prometheus and compatible stores keep of them.

    Grafana's own list of alerts does not follow the variables, and knows no alerts of a store that only takes samples.
    """
    table = card_table(
        "Firing alerts",
        "Alerts about the chosen nodes, from the rules that Prometheus or vmalert evaluates. Those that Grafana evaluates "
        "itself stand in its own list.",
        ("alertname", "instance", "vendor", "device"),
        (
            Column(
                "severity", _SEVERITY, words={"0": ("critical", RED), "1": ("warning", YELLOW), "2": ("info", GREEN)}
            ),
            Column(
                "since",
                f"1000 * min by ({_ALERT}) (ALERTS_FOR_STATE{{$alerted}} and ignoring (alertstate) {_FIRING})",
                "dateTimeFromNow",
            ),
        ),
        height,
        sort=("severity", "since"),
    )
    return replace(table, builder=table.builder.no_value(_NO_ALERT))


def in_maintenance(height: int) -> Panel:
    """The nodes that somebody works on, with the time until the announced end."""
    ends = "telemetry_maintenance_ends_in_seconds{$nodes} and telemetry_maintenance{$nodes} == 1"
    table = card_table(
        "Maintenance",
        "Nodes whose maintenance was announced, and how long it lasts.",
        ("instance",),
        (Column("ends in", ends, "s"),),
        height,
        sort=("ends in",),
    )
    return replace(table, builder=table.builder.no_value("no node"))


def errors_of_cards(height: int) -> Panel:
    """What each card counts of its memory and links since its driver was loaded, and its events."""
    return card_table(
        "Errors of each card",
        "Memory errors, pages and rows out of use, packets sent again over PCIe and link errors since the driver was loaded, links "
        "that are down now, and "
        "events since the daemon started, and how many kinds stand open; n/a: this card does not tell, or no event came.",
        CARD_LABELS,
        (
            Column("uncorrected", _total("ecc_uncorrected_total"), steps=BAD),
            Column("corrected", _total("ecc_corrected_total"), steps=DOUBTFUL),
            Column("pages out", _total("retired_pages"), steps=DOUBTFUL),
            Column("rows out", _total("remapped_rows"), steps=DOUBTFUL),
            Column("replays", _of_card("accelerator_pcie_replays_total")),
            Column("link errors", _total("link_crc_errors_total"), steps=DOUBTFUL),
            Column("links down", f"sum {ROW} (accelerator_link_up{{$cards}} == bool 0)", steps=BAD),
            Column("events", _total("events_total"), steps=DOUBTFUL),
            Column("open", _total("event_open"), steps=DOUBTFUL),
        ),
        height,
        sort=("-uncorrected", "-events", "instance", "device"),
    )


def partitions(height: int) -> Panel:
    """The parts of divided cards: which card they belong to, how full they are and what they do."""
    table = card_table(
        "Partitions",
        "MIG instances, compute partitions and virtual devices with the card that they belong to.",
        ("instance", "vendor", "card", "device", "model"),
        (
            Column("", _of_partition('accelerator_info{$cards,parent!=""}')),
            Column("memory", _part("accelerator_memory_total_bytes"), "bytes"),
            Column("in use", _part("accelerator_memory_used_ratio"), "percentunit"),
            Column("utilization", _part("accelerator_utilization_ratio"), "percentunit"),
            Column("units active", _part("accelerator_sm_active_ratio"), "percentunit"),
            Column("tensor units", _part("accelerator_tensor_active_ratio"), "percentunit"),
        ),
        height,
        sort=("instance", "device"),
    )
    return replace(table, builder=table.builder.no_value(_NO_PARTITION))


def _part(metric: str) -> str:
    return _of_partition(f'{metric}{{$cards}} and on ({NODE}, id) accelerator_info{{$cards,parent!=""}}')


def _of_partition(text: str) -> str:
    """Of each partition, with the number of its card, which its own begins with, as the label `card`."""
    return f'label_replace(max {ROW} ({text}), "card", "$$1", "device", "([^:]*):.*")'


def _total(key: str) -> str:
    return f"sum {ROW} (accelerator_{key}{{$cards}})"
