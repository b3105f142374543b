"""What still holds of a file of which parts are missing: time that was counted, and nothing that needs all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.model import Problem
from telemetry_profile.facts.file_facts import Device, Facts, Split


def lower_bounds(facts: Facts, problems: Sequence[Problem]) -> Facts:
    """Facts of a file with these problems. Idle time and what is not hidden need every interval, so they are unknown, and each step is cut."""
    if not problems:
        return facts
    devices = tuple(_partial(device) for device in facts.devices)
    return replace(facts, devices=devices, problems=(*facts.problems, *problems))


def _partial(device: Device) -> Device:
    steps = tuple(replace(step, split=_counted(step.split), is_cut=True) for step in device.steps)
    flops = device.flops and replace(device.flops, per_step=None, per_second=None)
    return replace(device, split=_counted(device.split), steps=steps, flops=flops)


def _counted(split: Split) -> Split:
    return replace(split, exposed_communication_ns=None, exposed_copy_ns=None, idle_ns=None)
