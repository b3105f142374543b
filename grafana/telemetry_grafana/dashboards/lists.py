"""What several boards list in a table: all cards, the alerts that fire, the errors of each card, partitions."""

from __future__ import annotations

from dataclasses import replace

from telemetry_grafana.dashboards.figures import BAD, DOUBTFUL
from telemetry_grafana.dashboards.panels import GREEN, RED, YELLOW, Panel, Words
from telemetry_grafana.dashboards.query import NODE
from telemetry_grafana.dashboards.tables import (
    CARD_LABELS,
    HOT,
    NEAR,
    ROW,
    STATE,
    STATES,
    THROTTLING,
    Column,
    card_table,
)

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
