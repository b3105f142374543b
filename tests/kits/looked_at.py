"""Nodes as `telemetry top` gets them: half an hour of busy cards, one too hot, one lost, one with a gap."""

import math
from array import array
from dataclasses import replace
from functools import cache

from kits import snapshots as kit
from telemetry_exporters.terminal.frames.model import NodeState
from telemetry_parsers.model import Absent, Problem, Process
from telemetry_parsers.past import KEPT, SLOT_SECONDS, SLOTS, Gap, Past, PastEvent, Series

START = kit.WALL_TIME - SLOTS * SLOT_SECONDS
TOTAL, CAP = 80.0 * 2**30, 700.0
# The slots in which every third card has no number.
GAP = Gap(200, 40, "nvml: timeout")


def values(number, slot):
    """Return the eight values of a card in a slot, in stored order; all values differ."""
    wave = math.sin((slot + 17 * number) / 40.0)
    load = 0.5 + 0.5 * wave
    heat = 45.0 + 35.0 * load + number % 5
    return (
        round(heat),
        round(100.0 + 550.0 * load),
        CAP,
        round(10.0 + 60.0 * load) * 2.0**30,
        round(load, 2),
        round(load / 2.0, 2),
        1000e6 + round(980 * load) * 1e6,
        float(heat > 80.0),
    )


@cache
def series_of(number, slots=SLOTS):
    """Return the last `slots` of a card's half hour."""
    rows = [values(number, slot) for slot in range(SLOTS - slots, SLOTS)]
    found = {}
    for position, metric in enumerate(KEPT):
        numbers = array("f", (row[position] for row in rows))
        gaps = ()
        if number % 3 == 2 and slots == SLOTS:
            numbers[GAP.first : GAP.first + GAP.slots] = array("f", [math.nan]) * GAP.slots
            gaps = (GAP,)
        found[metric] = Series(numbers, numbers, gaps)
    return found


@cache
def card(number):
    """Return a card with the values of its last slot; the second card is lost, the fourth too hot."""
    temperature, power, cap, used, utilization, activity, clock, _ = values(number, SLOTS - 1)
    hot = number == 3
    readings = (
        kit.reading("temperature_celsius", 91.0 if hot else temperature, "core"),
        kit.reading("temperature_slowdown_celsius", 87.0, "core"),
        kit.reading("power_watts", power),
        kit.reading("power_cap_watts", cap),
        kit.reading("memory_used_bytes", used),
        kit.reading("memory_total_bytes", TOTAL),
        kit.reading("utilization_ratio", utilization),
        kit.reading("memory_activity_ratio", activity),
        kit.reading("clock_hertz", clock, "sm"),
        kit.reading("fan_ratio", Absent.NOT_SUPPORTED),
        kit.reading("throttled", 1.0 if hot else 0.0, "sw_thermal"),
        kit.reading("throttled", 0.0, "hw_power_brake"),
        kit.reading("energy_joules_total", 123456789.125),
    )
    facts = {"driver": "550.54.15", "bus_id": f"0000:{number:02x}:00.0", "serial": f"16{number:05d}"}
    processes = (Process(0, 4000 + number, "python3", 20.0 * 2**30), Process(0, 7000 + number, "训练任务", None))
    made = kit.device(number, *readings, processes=processes, **facts)
    return replace(made, up=False, readings=(), processes=()) if number == 1 else made


def past(cards=8, slots=SLOTS):
    events = (
        PastEvent(kit.WALL_TIME - 900.0, "GPU-00000000", "xid_31", "MMU fault"),
        PastEvent(kit.WALL_TIME - 60.0, "GPU-00000000", "xid_94", "contained ECC error"),
    )
    start = kit.WALL_TIME - slots * SLOT_SECONDS
    return Past(
        start, slots, devices={f"GPU-{card:08d}": series_of(card, slots) for card in range(cards)}, events=events
    )


def node(cards=8, name="", **parts):
    """Return a node with `cards` cards and two sources, one of which fails."""
    failing = kit.source(
        "npu-smi",
        "failed",
        reason="timeout",
        detail="no answer within 10 s",
        problems=(Problem("line 3", "a heading that no table knows"),),
    )
    sources = (kit.source(version="12.550.54"), failing)
    snapshot = kit.snapshot(*map(card, range(cards)), sources=sources)
    return NodeState(name, **({"snapshot": snapshot, "past": past(cards), "age_seconds": 0.5} | parts))


def owned(cards=8):
    """Return the node with owners: a job has four cards; it shares one with a pod and leaves one idle."""
    seen = node(cards)
    job = kit.allocation(memory_used_bytes=20.0 * 2**30)
    shared = (replace(job, share=0.75, basis="utilization"), kit.allocation(kit.POD, 0.25, "utilization"))
    idle = (replace(job, is_used=False, memory_used_bytes=None),)
    owners = {0: (job,), 2: shared, 3: idle}
    devices = tuple(
        _with_owners(device, owners.get(position, ())) for position, device in enumerate(seen.snapshot.devices)
    )
    return replace(seen, snapshot=replace(seen.snapshot, devices=devices))


def _with_owners(device, owners):
    own_processes = {
        process.pid: kit.process(process.pid, process.name, process.memory_used_bytes)
        for process in device.processes[:1]
    }
    processes = (
        tuple(own_processes.get(process.pid, process) for process in device.processes) if owners else device.processes
    )
    return replace(device, allocations=owners, processes=processes)
