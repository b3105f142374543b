"""Series that must make the alerts about owners fire, and series just beside them that must not."""

from __future__ import annotations

from grafana.alert_cases import ALWAYS, Case

_ALICE = 'owner_kind="job",owner="41",job_id="41",user="alice"'
OWNED = f'accelerator_allocation_ratio{{{{D}},{_ALICE},basis="whole"}}'
IDLE = {"accelerator_busy_seconds_total{{D}}": "0+0x120"}
BUSY = {"accelerator_busy_seconds_total{{D}}": "0+30x120"}
FOREIGN = "accelerator_foreign_memory_bytes{{D}}"
USED = "accelerator_memory_used_ratio{{D}}"
STEPS = 'telemetry_steps_total{{T},id="GPU-1",job_id="41",rank="0"}'
PROC = {'telemetry_source_up{{T},source="proc"}': ALWAYS}


def _of_job(instance: str, device: str, owner: str = "41", busy: int = 54) -> dict[str, str]:
    labels = f'job="telemetry",instance="{instance}",vendor="{{vendor}}",device="{device}",id="{instance}-{device}",model="m"'
    return {
        f"accelerator_busy_seconds_total{{{labels}}}": f"0+{busy}x120",
        f'accelerator_allocation_ratio{{{labels},owner_kind="job",owner="{owner}",job_id="{owner}",user="alice",basis="whole"}}': ALWAYS,
    }


def _job(*cards: dict[str, str]) -> dict[str, str]:
    return {name: values for card in cards for name, values in card.items()}


_NODE1 = [_of_job("node1", str(number)) for number in range(3)]
_NODE2 = [_of_job("node2", str(number)) for number in range(3)]
_SLOW = _of_job("node2", "3", busy=30)

OWNER_CASES = (
    Case(
        "AcceleratorAllocatedIdle",
        # What the share was taken from may change all the time.
        {OWNED: "1x50", OWNED.replace("whole", "memory"): "_x50 1x70", **IDLE},
        {
            "it is used": {OWNED: ALWAYS, **BUSY},
            "nobody has it": IDLE,
            "nobody knows whether it is used": {OWNED: ALWAYS},
            "for half an hour": {OWNED: "_x30 1x90", **IDLE},
        },
    ),
    Case(
        "AcceleratorUsedByStrangers",
        {OWNED: "0.5x120", FOREIGN: "1e9x120"},
        {"a little": {OWNED: ALWAYS, FOREIGN: "1e8x120"}, "none": {OWNED: ALWAYS, FOREIGN: "0x120"}},
    ),
    Case(
        "AcceleratorMemoryHeldByNobody",
        {USED: "0.4x120", **PROC},
        {
            "somebody has it": {USED: "0.4x120", OWNED: ALWAYS, **PROC},
            "a driver's own": {USED: "0.04x120", **PROC},
            "owners are not told": {USED: "0.4x120"},
            "a part of a card": {USED: "0.4x120", 'accelerator_info{{D},parent="x"}': ALWAYS, **PROC},
        },
    ),
    Case(
        "TelemetryClaimsUnresolved",
        {'telemetry_claims_unresolved{{T},source="kubelet"}': "1x120"},
        {"all fit": {'telemetry_claims_unresolved{{T},source="kubelet"}': "0x120"}},
    ),
    Case(
        "AcceleratorJobSlowestCard",
        _job(*_NODE1, *_NODE2, _SLOW),
        {
            "all alike": _job(*_NODE1, *_NODE2, _of_job("node2", "3")),
            "of another job": _job(*_NODE1, *_NODE2, _of_job("node2", "3", owner="42", busy=30)),
            "idle": _job(*_NODE1, *_NODE2, _of_job("node2", "3", busy=0)),
            "cards that do different work": _job(
                *(_of_job("node1", str(number), busy=10 + 15 * number) for number in range(4)), *_NODE2[:1]
            ),
        },
    ),
    Case(
        "AcceleratorJobSlower",
        {STEPS: "0+60x35 2120+20x84"},
        {
            "as fast as before": {STEPS: "0+60x120"},
            "a little slower": {STEPS: "0+60x35 2140+40x84"},
            "it waits, or has ended": {STEPS: "0+60x35 2100x84"},
            "it has just begun": {STEPS: "_x40 0+60x79"},
        },
    ),
)
