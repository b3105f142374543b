"""What is to be said against the cards themselves: those that are lost or broken, and those that never came. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from telemetry_daemon.doctor.fared import fared
from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.state.flights import Flight
from telemetry_exporters.judgement.checkup import name_of
from telemetry_exporters.judgement.verdict import Finding as Verdict
from telemetry_exporters.judgement.verdict import Severity, judge
from telemetry_parsers.model import MergedDevice, Snapshot


def broken(snapshots: Sequence[Snapshot], flights: Sequence[Flight] = ()) -> Iterator[Finding]:
    """What is bad of each device in any of the snapshots, each thing once, with what was recorded of it."""
    recorded = {flight.cause: flight.path for flight in reversed(flights)}
    said: set[tuple[str, str]] = set()
    for snapshot in snapshots:
        verdict = judge(snapshot)
        for device in snapshot.devices:
            bad = [one for one in verdict[device.id] if one.severity is Severity.BAD]
            for one in bad:
                if (device.id, one.meaning) not in said:
                    yield Finding(name_of(device), _told(device, one), one.remedy + _before(recorded.get(one.word)))
            said |= {(device.id, one.meaning) for one in bad}


def too_few(snapshots: Sequence[Snapshot], expected: Mapping[str, int]) -> Iterator[Finding]:
    """Vendors of which fewer cards are there than are expected; those that sleep or are lost are told elsewhere."""
    for vendor, wanted in sorted(expected.items()):
        count = max(present(snapshot)[vendor] for snapshot in snapshots)
        lost = max(_lost(snapshot, vendor) for snapshot in snapshots)
        if count + lost < wanted and not any(fared(snapshot, vendor).asleep for snapshot in snapshots):
            what = f"{counted(wanted, f'{vendor} device')} {'is' if wanted == 1 else 'are'} expected, and {count} found"
            yield Finding("expect.devices", what, "see `lspci` and `dmesg` for the others, or mend expect.devices")


def present(snapshot: Snapshot) -> Counter[str]:
    """How many whole devices of each vendor are there."""
    return Counter(one.vendor for one in snapshot.devices if one.up and one.parent is None and not one.simulated)


def _lost(snapshot: Snapshot, vendor: str) -> int:
    return sum(one.up is False for one in snapshot.devices if one.vendor == vendor and one.parent is None)


def _told(device: MergedDevice, against: Verdict) -> str:
    return f"{against.word}{f' ({device.bus_id})' if device.bus_id else ''}: {against.meaning}"


def _before(recording: str | None) -> str:
    return f"; telemetry top --replay {recording} shows what the tools said before" if recording else ""
