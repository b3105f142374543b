"""Alerts about the owners of cards."""

from __future__ import annotations

from telemetry_grafana.promql import CARD, NODE, PARTITIONS
from telemetry_grafana.rules.recording_past import IDLE_MEMORY_HELD
from telemetry_grafana.rules.rule import AlertGroup, info, warning

_ON_CARD = f"on ({CARD})"
_JOB = "cluster, job, job_id"
# The label `basis` may change with every sample although the owner stays the same.
_ALLOCATION = "max without (basis) (accelerator_allocation_ratio)"
_UTILIZATION = "accelerator:utilization_ratio:rate5m"
_JOB_UTILIZATION = "accelerator:allocation_utilization_ratio:rate5m"
_UTILIZATION_GAP = f"(quantile by ({_JOB}) (0.5, {_JOB_UTILIZATION}) - on ({_JOB}) group_right () {_JOB_UTILIZATION})"

# The nodes of a job are compared by the averages of the job's cards.
_JOB_PEERS = f"{_JOB}, vendor, model"
_JOB_NODE_LABELS = f"{_JOB}, instance, vendor, model"
_NODE_UTILIZATION = f"avg by ({_JOB_NODE_LABELS}) ({_JOB_UTILIZATION})"
_NODE_MEMORY = f"avg by ({_JOB_NODE_LABELS}) (({_JOB_UTILIZATION} > bool -1) * {_ON_CARD} group_left () max by ({CARD}) (accelerator_memory_used_ratio))"


def _median_expression(series: str) -> str:
    return f"on ({_JOB_PEERS}) group_left () quantile by ({_JOB_PEERS}) (0.5, {series})"


_NODE_UTILIZATION_GAP = f"(1 - {_NODE_UTILIZATION} / {_median_expression(_NODE_UTILIZATION)})"
_SLOWEST_NODE = (
    f"{_NODE_UTILIZATION_GAP} > $node_less_share and {_NODE_UTILIZATION} > $idle_ratio"
    f" and on ({_JOB_PEERS}) quantile by ({_JOB_PEERS}) (0.5, {_NODE_UTILIZATION}) > $straggler_ratio"
    f" and on ({_JOB_PEERS}) quantile by ({_JOB_PEERS}) (0.5, abs({_NODE_UTILIZATION_GAP})) < $alike_ratio"
    f" and on ({_JOB_PEERS}) count by ({_JOB_PEERS}) ({_NODE_UTILIZATION}) >= $job_nodes"
    f" unless abs({_NODE_MEMORY} - {_median_expression(_NODE_MEMORY)}) > $same_memory_ratio"
)

_STEPS_NOW = f"max by ({NODE}, job_id) (telemetry_steps:rate5m)"
_STEPS_BEFORE = f"max by ({NODE}, job_id) (max_over_time(telemetry_steps:rate5m[1h]))"

OWNERS = AlertGroup(
    "telemetry-owners",
    "Owners of cards",
    (
        info(
            name="AcceleratorAllocatedIdle",
            condition=f"{_ALLOCATION} and {_ON_CARD} {_UTILIZATION} < $idle_ratio",
            pending_period="55m",  # The utilization is an average over 5 minutes, so the card was idle for one hour.
            inhibited_by=("AcceleratorJobHangs",),
            summary="{owner_kind} {owner} has not used {vendor} {device} on {instance} for an hour",
            meaning="The card is allocated, or a process uses it, but it computes nothing. The owner's job waits, hangs or has ended unnoticed, or the owner forgot a notebook.",
            check="`telemetry snapshot --processes` on the node shows whether there are processes. Read the job's log.",
            remedy="Ask the owner, or end the job.",
        ),
        warning(
            name="AcceleratorJobHangs",
            condition=f"{IDLE_MEMORY_HELD} >= $hung_seconds",
            summary="{owner_kind} {owner} has held memory on {vendor} {device} on {instance} for {value:humanizeDuration} without using it",
            meaning="A batch job holds memory on the card, but has computed nothing for most of an hour. The job waits for storage, another rank or missing input. Pods and services without a job id are excluded, because they may wait for requests. AcceleratorAllocatedIdle covers them.",
            check="Check the last step in the job's log, the processes on the node (`telemetry snapshot --processes`, `py-spy dump`), the storage, and the job's other nodes.",
            remedy="Ask the owner, or end the job and start it from its last checkpoint.",
        ),
        warning(
            name="AcceleratorUsedByStrangers",
            condition=f"({_ALLOCATION} > bool -1) * {_ON_CARD} group_left () (accelerator_foreign_memory_bytes > $foreign_bytes)",
            pending_period="5m",
            summary="other users hold {value:humanize1024}B on {vendor} {device} on {instance}, which is allocated to {owner_kind} {owner}",
            meaning="Processes that do not belong to the card's owner hold memory on the card. They slow down the owner's job, which may run out of memory and fail.",
            check="`telemetry snapshot --processes` on the node shows these processes with user and container.",
            remedy="End these processes. Configure the scheduler to constrain devices (Slurm: ConstrainDevices), so that users cannot use each other's cards.",
        ),
        warning(
            name="AcceleratorMemoryHeldByNobody",
            # Partitions are excluded, because owners are assigned to whole cards.
            condition=(
                f"accelerator_memory_used_ratio > $unowned_ratio unless {_ON_CARD} accelerator_allocation_ratio"
                f" unless {_ON_CARD} {PARTITIONS}"
                ' and on (cluster, job, instance) (telemetry_source_up{source="proc"} == 1)'
            ),
            pending_period="15m",
            summary="{vendor} {device} on {instance} has no owner, but {value:humanizePercentage} of its memory is in use",
            meaning="The card's memory is in use, but the card belongs to no pod, job or process. A killed process left its memory behind, or a process is in another namespace.",
            check="Run `telemetry snapshot --processes`, then find the processes that have the device node open (`fuser -v /dev/nvidia*` or similar).",
            remedy="End these processes. If there are none, reset the card.",
        ),
        warning(
            name="TelemetryClaimsUnresolved",
            condition="telemetry_claims_unresolved > 0",
            pending_period="15m",
            summary="{source} on {instance} reports {value} device names that match no card or more than one",
            meaning="A scheduler allocated devices that the daemon cannot find, so these devices are missing from all sums by owner. A card was lost, or the scheduler names cards in an unknown format.",
            check="`telemetry doctor` lists the source's problems, with the owner and the device.",
            remedy="If the card was lost, see AcceleratorLost. Otherwise, report the format to us (docs/troubleshooting.md).",
        ),
        warning(
            name="AcceleratorJobSlowestNode",
            condition=_SLOWEST_NODE,
            pending_period="30m",
            summary="{instance} is {value:humanizePercentage} less busy than the other nodes of job {job_id}",
            meaning="One node of a job does at least a quarter less work than the job's other nodes, which wait for it. The alert requires a job with at least three nodes that do about the same work and use the same amount of memory.",
            check="Compare the node's clocks, temperatures, links and host load with those of the job's other nodes (Jobs and owners dashboard, Stragglers dashboard).",
            remedy="Take the node out of the job and test it.",
        ),
        info(
            name="AcceleratorJobSlowestCard",
            condition=(
                f"{_UTILIZATION_GAP} > $straggler_ratio and {_JOB_UTILIZATION} > $idle_ratio"
                f" and on ({_JOB}) quantile by ({_JOB}) (0.5, abs({_UTILIZATION_GAP})) < $alike_ratio"
                f" and on ({_JOB}) count by ({_JOB}) ({_JOB_UTILIZATION}) >= $straggler_peers"
                f" and on ({_JOB}) count by ({_JOB}) (count by ({_JOB}, instance) ({_JOB_UTILIZATION})) > 1"
                f" unless on ({_JOB_NODE_LABELS}) ({_SLOWEST_NODE})"
            ),
            pending_period="35m",
            inhibited_by=("AcceleratorStraggler",),
            summary="{vendor} {device} on {instance} is {value:humanizePercentage} less busy than the other cards of job {job_id}",
            meaning="One card of a multi-node job does less work than the job's other cards. The others do about the same work, and wait for this card.",
            check="Compare the card's clocks, temperature and links with those of the job's other cards (Jobs and owners dashboard, Stragglers dashboard).",
            remedy="Take the node out of the job and test it.",
        ),
        info(
            name="AcceleratorJobSlower",
            condition=f"{_STEPS_NOW} < $slower_ratio * {_STEPS_BEFORE} and {_STEPS_NOW} > 0",
            pending_period="10m",
            summary="job {job_id} on {instance} makes {value} steps per second, less than half of its highest rate within the last hour",
            meaning="The job still makes steps, but each step takes twice as long as before. The cause may be a throttled card, a slow node or link, storage, or another phase of the job.",
            check="Check the clocks of the job's cards, and the time spent in each part of a step (Achieved work dashboard). Run `telemetry profile` on a trace.",
            remedy="If a card differs from the others, take its node out of the job. Otherwise ask the owner whether the job changed.",
        ),
    ),
)
