"""Recording rules for cards at work: how far their power is from an idle card's, and their speed from that of their busy peers."""

from __future__ import annotations

from telemetry_exporters.judgement.thresholds import THRESHOLDS
from telemetry_grafana.rules.alert import EVERY
from telemetry_grafana.rules.record import Recording, RecordingGroup, device, for_ten_minutes

_PEERS = "cluster, job, vendor, model"
_WORK = "accelerator:utilization_ratio:rate5m"


def _value(name: str) -> str:
    return THRESHOLDS[name].promql


# No rate: that of a counter which has just begun is too low.
_POWER_READ = "avg_over_time(accelerator_power_watts[5m])"


_IDLE, _HIGHEST = "model:accelerator_power_watts:idle", "model:accelerator_power_watts:highest"
_POWER = "accelerator_power_watts"
# What each ten minutes had: a single wrong value is not in it, and what else was wrong is over after a month.
POWER_RANGE = (
    Recording(
        _IDLE,
        f"min by ({_PEERS}) ({for_ten_minutes('max_over_time', _POWER)} and on (cluster, job, instance, id)"
        f" max_over_time(accelerator_utilization_ratio[10m]) < {_value('idle_ratio')})",
        frozenset(_PEERS.split(", ")),
        "The least power that an idle device of this model drew for ten minutes.",
    ),
    Recording(
        _HIGHEST,
        f"max by ({_PEERS}) ({for_ten_minutes('min_over_time', _POWER)})",
        frozenset(_PEERS.split(", ")),
        "The most power that a device of this model drew for ten minutes.",
    ),
)
_LEAST, _MOST = f"min_over_time({_IDLE}[30d])", f"max_over_time({_HIGHEST}[30d])"
_ABOVE_IDLE = device(
    "accelerator:power_above_idle:ratio",
    # Where work adds little, the tool tells a constant; a card far below the idle ones is none.
    f"abs({_POWER_READ} - on ({_PEERS}) group_left () {_LEAST})"
    f" / on ({_PEERS}) group_left () (({_MOST} > {_value('power_follows')} * {_LEAST}) - {_LEAST})",
    "How far the device's power is from that of an idle one, as a share of what work added at most within a month.",
)

_NODE = "cluster, job, instance, vendor, model"
_SAME_LOAD = _value("same_load_ratio")


def _of_busy_peers(series: str, read: str) -> tuple[Recording, ...]:
    """Of each card among those of its node, and of each node, all of whose cards are busy, among the other nodes."""
    of_card = f"({read} and on (cluster, job, instance, id) {_WORK} >= {_SAME_LOAD})"
    all_busy = f"min by ({_NODE}) ({_WORK}) >= {_SAME_LOAD}"
    of_node = f"(avg by ({_NODE}) ({read}) and on ({_NODE}) {all_busy})"
    return (
        device(
            f"accelerator:{series}:of_busy_peers",
            f"{of_card} / on ({_NODE}) group_left () quantile by ({_NODE}) (0.5, {of_card})",
            "A busy device against the median of its node's busy devices of the same model.",
        ),
        Recording(
            f"instance:accelerator_{series}:of_busy_peers",
            f"{of_node} / on ({_PEERS}) group_left () quantile by ({_PEERS}) (0.5, {of_node})",
            frozenset(_NODE.split(", ")),
            "The devices of a busy node on average, against the median of the busy nodes with the same model.",
        ),
    )


FULL_LOAD = RecordingGroup(
    "telemetry-busy-peers",
    (
        _ABOVE_IDLE,
        *_of_busy_peers("clock_hertz", "accelerator:clock_hertz:avg5m"),
        *_of_busy_peers("power_watts", "accelerator:power_watts:rate5m"),
    ),
    every=EVERY,
)
