"""The figures at the head of a dashboard, each of them one number over the chosen cards.

Where nothing counts as bad, a nought of what is watched stands in: no collection at all is no nought.
"""

from __future__ import annotations

from telemetry_grafana.dashboards.panels import GREEN, RED, YELLOW, Figure, number
from telemetry_grafana.dashboards.tables import HOT, THROTTLING

BAD = ((None, GREEN), (1, RED))
DOUBTFUL = ((None, GREEN), (1, YELLOW))
_WHOLE = 'unless on (cluster, job, instance, id) accelerator_info{parent!=""}'
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
