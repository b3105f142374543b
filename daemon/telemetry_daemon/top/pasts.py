"""A history and what came after it, as one."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from telemetry_parsers.past import KEPT, MOST_EVENTS, SLOTS, Gap, Past, Series

_UNKNOWN = "not told"


def joined(before: Past | None, after: Past) -> Past:
    """Both as one, the newest slots of them; the later one alone if they do not meet."""
    if before is None or before.slot_seconds != after.slot_seconds:
        return after
    offset = round((after.start - before.start) / before.slot_seconds)
    if not 0 <= offset <= before.slots:
        return after
    kept_from = max(0, offset + after.slots - SLOTS)
    ids = dict.fromkeys((*after.devices, *before.devices))
    devices = {
        one: _device(_cut(before, one, kept_from, offset), _cut(after, one, max(0, kept_from - offset), after.slots))
        for one in ids
    }
    events = [event for event in before.events if event not in after.events]
    return replace(
        after,
        start=before.start + kept_from * before.slot_seconds,
        slots=offset + after.slots - kept_from,
        devices=devices,
        events=(*events, *after.events)[-MOST_EVENTS:],
    )


_Part = tuple[int, Mapping[str, Series]]


def _cut(past: Past, device: str, first: int, end: int) -> _Part:
    """A device's slots from `first` up to `end`, and how many these are."""
    series = past.devices.get(device, {})
    return max(0, end - first), {metric: _slice(one, first, max(first, end)) for metric, one in series.items()}


def _slice(series: Series, first: int, end: int) -> Series:
    gaps = (
        Gap(max(gap.first, first) - first, min(gap.first + gap.slots, end) - max(gap.first, first), gap.reason)
        for gap in series.gaps
    )
    return Series(series.last[first:end], series.highest[first:end], tuple(gap for gap in gaps if gap.slots > 0))


def _device(*parts: _Part) -> Mapping[str, Series]:
    """The parts of each metric, one after the other."""
    told = {metric for _, series in parts for metric in series}
    return {metric: _one([(slots, series.get(metric)) for slots, series in parts]) for metric in KEPT if metric in told}


def _one(parts: Sequence[tuple[int, Series | None]]) -> Series:
    last, highest, gaps = array("f"), array("f"), list[Gap]()
    for slots, series in parts:
        begin = len(last)
        last += series.last if series is not None else array("f", [math.nan]) * slots
        highest += series.highest if series is not None else array("f", [math.nan]) * slots
        found = series.gaps if series is not None else (Gap(0, slots, _UNKNOWN),) if slots else ()
        gaps += [replace(gap, first=gap.first + begin) for gap in found]
    return Series(last, highest, tuple(_merged(gaps)))


def _merged(gaps: Sequence[Gap]) -> Iterator[Gap]:
    """Gaps that follow each other for the same reason as one."""
    open_gap: Gap | None = None
    for gap in gaps:
        if open_gap is not None and (open_gap.first + open_gap.slots, open_gap.reason) == (gap.first, gap.reason):
            open_gap = replace(open_gap, slots=open_gap.slots + gap.slots)
            continue
        if open_gap is not None:
            yield open_gap
        open_gap = gap
    if open_gap is not None:
        yield open_gap
