"""Alerts about cards that are fully busy and get little done: hung ones, slow ones among their peers, slow nodes."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_grafana.rules.alert import AlertGroup, warning
from telemetry_grafana.rules.at_rest import AT_REST, HUNG
from telemetry_grafana.rules.heat_and_speed import MOSTLY_HELD

_CARD = "cluster, job, instance, id"
_CARDS_OF_NODE = "cluster, job, instance, vendor, model"
_CARDS_OF_MODEL = "cluster, job, vendor, model"
_MEMORY_USED = "accelerator_memory_used_ratio"
_POWER_CAP = "(accelerator_power_cap_watts > 0)"


@dataclass(frozen=True, slots=True)
class _Compared:
    """What is compared, by clock and power as shares of the median of its busy peers; `one` and `peers` are labels."""

    clock: str
    power: str
    memory_used: str
    power_cap: str
    one: str
    peers: str
    fewest: str


_CARDS = _Compared(
    "accelerator:clock_hertz:of_busy_peers",
    "accelerator:power_watts:of_busy_peers",
    _MEMORY_USED,
    _POWER_CAP,
    _CARD,
    _CARDS_OF_NODE,
    "$straggler_peers",
)
_NODES = _Compared(
    "instance:accelerator_clock_hertz:of_busy_peers",
    "instance:accelerator_power_watts:of_busy_peers",
    f"avg by ({_CARDS_OF_NODE}) ({_MEMORY_USED})",
    f"avg by ({_CARDS_OF_NODE}) ({_POWER_CAP})",
    _CARDS_OF_NODE,
    _CARDS_OF_MODEL,
    "$slow_node_peers",
)


def _slower(of: _Compared) -> str:
    """The clock's share, of who is behind by clock and power, and still is, among peers that draw alike, with as much memory and power allowed."""
    clock, power = _lately(of.clock, of), _lately(of.power, of)
    return (
        f"{clock} < $slower_share and on ({of.one}) {power} < $slower_share"
        f" and on ({of.one}) last_over_time({of.clock}[30m]) < (1 + $slower_share) / 2"
        f" and on ({of.peers}) quantile by ({of.peers}) (0.5, abs({power} - 1)) < $same_power_share"
        f" and on ({of.peers}) count by ({of.peers}) ({clock}) >= {of.fewest}"
        f" unless on ({of.one}) abs({of.memory_used} - {_median(of.memory_used, of)}) > $same_memory_ratio"
        f" unless on ({of.one}) {of.power_cap} / {_median(of.power_cap, of)} < $lower_cap_share"
    )


def _lately(series: str, of: _Compared) -> str:
    """The average of half an hour, of who was busy in most of it: jobs pause to write checkpoints."""
    return f"(avg_over_time({series}[30m]) and on ({of.one}) count_over_time({series}[30m]) >= $busy_minutes)"


def _median(series: str, of: _Compared) -> str:
    busy = f"count_over_time({of.clock}[30m]) >= $busy_minutes"
    return f"on ({of.peers}) group_left () quantile by ({of.peers}) (0.5, {series} and on ({of.one}) {busy})"


FULL_LOAD = AlertGroup(
    "telemetry-full-load",
    "Cards that are busy and get little done",
    (
        warning(
            name="AcceleratorsHung",
            condition=f"count by ({_CARDS_OF_NODE}) ({HUNG})",
            hold="25m",
            summary="{value} {vendor} card(s) on {instance} fully busy for half an hour at the power of idle ones",
            meaning="A kernel never ends, or a collective waits for a rank that does not come: utilization stays at its maximum, power close to that of an idle card, and the memory quiet. Known only of models of which Prometheus has seen an idle and a busy card, for ten minutes each, within a month.",
            check="The log of the job: does it still make steps? The dashboard Node names the cards; one that differs from the others (events, links, temperature) may be the cause, also on another node of the job.",
            remedy="End the job. A card that stays busy without a process needs a reset; one that hangs again, a test.",
        ),
        warning(
            name="AcceleratorSlowerThanPeers",
            condition=f"{_slower(_CARDS)} unless on ({_CARD}) {MOSTLY_HELD} unless on ({_CARD}) ({AT_REST})",
            hold="10m",
            summary="{vendor} {device} on {instance} runs at {value:humanizePercentage} of the clock of its node's other cards",
            meaning="The card is as busy as the others of its model in the node and has as much in its memory, but clock and power are far below theirs: in one job over all of them, the others wait for it. Neither a lower power limit explains it, nor heat or the power brake that hold it down most of the time.",
            check="The dashboard Stragglers. Locked clocks (`nvidia-smi -q -d CLOCK`), power cables, the reasons for throttling.",
            remedy="Release locked clocks. Otherwise take the node out of the job, power-cycle it and test the card.",
        ),
        warning(
            name="AcceleratorNodeSlow",
            condition=(
                f"{_slower(_NODES)} unless on ({_CARDS_OF_NODE}) {MOSTLY_HELD} unless on ({_CARDS_OF_NODE}) ({HUNG})"
            ),
            hold="10m",
            summary="the {vendor} cards on {instance} run at {value:humanizePercentage} of the clock of other nodes",
            meaning="All cards of the node are busy, but by clock and power they are far below the other nodes with as busy cards of the same model, which are all alike. Neither lower power limits explain it, nor heat or the power brake that hold a card down most of the time.",
            check="Power supplies and the power policy of the node's firmware, locked clocks, driver version: what differs from another node.",
            remedy="Take the node out of the job until the difference is found.",
        ),
    ),
)
