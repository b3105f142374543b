"""What happened to GPUs and MIG instances since the poll before: Xids, and GPUs that were lost."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.library_answers.plain import items, mapping, number, text, whole
from telemetry_parsers.model import Absent, Device, Event, Plain
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.lines import quote

# A bus address, and the numbers of a GPU instance and a compute instance as facts have them.
_Place = tuple[str | None, str | None, str | None]


def read(answer: Plain, draft: Draft) -> None:
    """Put the events into the draft, each at its instance or else at its GPU."""
    if not items(answer):
        return
    positions: dict[_Place, int] = {}
    for position, device in enumerate(draft.devices()):
        positions.setdefault(_place_of(device), position)
    for recorded in items(answer):
        event = _event(mapping(recorded), positions)
        if event is None:
            draft.complain("events", _why_none(whole(mapping(recorded).get("dropped"))))
        else:
            draft.events.append(event)


def _place_of(device: Device) -> _Place:
    facts = dict(device.facts) if device.parent is not None else {}
    return device.bus_id, facts.get("gpu_instance"), facts.get("compute_instance")


def _event(recorded: dict[str, Plain], positions: Mapping[_Place, int]) -> Event | None:
    bus_id = text(recorded.get("bus_id")) or ""
    ids = (whole(recorded.get(name), 1 << 32) for name in ("gpu_instance", "compute_instance"))
    gpu_instance, compute_instance = (None if number is None else str(number) for number in ids)
    position = positions.get((bus_id, gpu_instance, compute_instance), positions.get((bus_id, None, None)))
    wall_time = number(recorded.get("wall_time"))
    when = wall_time if not isinstance(wall_time, Absent) and 0 < wall_time < 1e11 else None
    xid, lost = whole(recorded.get("xid")), whole(recorded.get("lost"))
    if xid is not None:
        return Event(position, f"xid_{xid}", f"Xid {xid} on {quote(bus_id)}", when)
    if lost is not None:
        return Event(position, "gpu_lost", f"NVML error {lost} on {quote(bus_id)}", when)
    return None


def _why_none(dropped: int | None) -> str:
    return "an event that is none" if dropped is None else f"{dropped} came too fast to be kept and are not counted"
