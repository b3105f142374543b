"""Functions that the readers of Chrome traces share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from telemetry_profile.format_contract import Clock, Device, FileSample, TraceSample

_PYTORCH_CATEGORIES = frozenset({"cpu_op", "user_annotation", "python_function", "fwdbwd"})
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])rank[-_ ]?(\d{1,6})(?!\d)|^worker[-_]?(\d{1,6})\.", re.IGNORECASE)
_YEAR_2001_NS, _YEAR_2100_NS = 978_307_200 * 10**9, 4_102_444_800 * 10**9


def rank_in_name(file: FileSample) -> int | None:
    """Return the rank in a file name such as `worker3.pt.trace.json`, or None if the name has no rank."""
    match = _RANK_IN_NAME.search(file.name)
    return int(match[1] or match[2]) if match else None


def begins_like_ascend(sample: TraceSample) -> bool:
    """Return whether a trace is a list of events that begins with PyTorch operators, as Ascend's large files do."""
    categories = {event.cat for event in sample.events if event.cat}
    return sample.file.head.lstrip()[:1] == b"[" and "cpu_op" in categories and categories <= _PYTORCH_CATEGORIES


def whole_number(value: Any, highest: int) -> int | None:
    """Return the value if it is a whole number from 0 to `highest`, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= highest else None


def shift_times(devices: Iterable[Device], offset_ns: int) -> tuple[Device, ...]:
    """Return the devices with `offset_ns` added to all points in time."""
    return tuple(
        replace(
            device,
            begin_ns=_shift_time(device.begin_ns, offset_ns),
            end_ns=_shift_time(device.end_ns, offset_ns),
            steps=tuple(replace(step, begin_ns=_shift_time(step.begin_ns, offset_ns)) for step in device.steps),
        )
        for device in devices
    )


def clock_of(devices: Sequence[Device], default: Clock = "none") -> Clock:
    """Return "unix" if all known start times are between 2001 and 2100, else the default."""
    begins = [device.begin_ns for device in devices if device.begin_ns is not None]
    if begins and all(_YEAR_2001_NS < begin < _YEAR_2100_NS for begin in begins):
        return "unix"
    return default if devices else "none"


def _shift_time(time: int | None, offset_ns: int) -> int | None:
    return None if time is None else time + offset_ns
