"""Short builders of reports for tests of merge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.merge.merged import MergedNode, merge
from telemetry_parsers.merge.report_columns import check_report
from telemetry_parsers.model import Absent, Device, Form, MergedDevice, Process, Reading, Report, SourceReport, Value

Values = Mapping[str, Value | Mapping[str, Value]]


def card(index: int | None = 0, vendor: str = "nvidia", **facts: object) -> Device:
    return Device(vendor=vendor, index=index, **facts)  # type: ignore[arg-type]  # keyword arguments of Device


def readings(position: int | None, values: Values) -> tuple[Reading, ...]:
    found = []
    for metric, value in values.items():
        labelled = value if isinstance(value, Mapping) else {"": value}
        found += [Reading(position, metric, number, label) for label, number in labelled.items()]
    return tuple(found)


def reported(
    source: str,
    devices: Sequence[tuple[Device, Values]],
    *,
    poll: str = "readings",
    form: Form = "json",
    taken: float = 0.0,
    life: float = 10.0,
    interval: float = 2.0,
    lists_devices: bool = True,
    space: str = "",
    gives: tuple[str, ...] = (),
    processes: tuple[Process, ...] = (),
) -> SourceReport:
    report = Report(
        outcome="ok" if devices else "no_devices",
        devices=tuple(device for device, _ in devices),
        readings=tuple(r for position, (_, values) in enumerate(devices) for r in readings(position, values)),
        processes=processes,
        form=form,
        index_space=space,
    )
    vendor = devices[0][0].vendor if devices else "nvidia"
    return SourceReport(source, poll, vendor, gives, lists_devices, interval, taken, taken + life, report)


@dataclass
class Node:
    """Merges reports one after another, and keeps the state between them like the daemon."""

    state: MergeState = field(default_factory=MergeState)
    merged: MergedNode | None = None

    def see(
        self, *reports: SourceReport, now: float = 0.0, wall: float = 1000.0, pending: Sequence[str] = ()
    ) -> MergedNode:
        self.merged = merge(map(check_report, reports), self.state, now=now, wall_time=wall, pending_vendors=pending)
        self.state = self.merged.state
        return self.merged


def values(device: MergedDevice) -> dict[str, Value]:
    return {f"{r.metric}.{r.label}" if r.label else r.metric: r.value for r in device.readings}


def numbers(device: MergedDevice) -> dict[str, float]:
    return {name: value for name, value in values(device).items() if not isinstance(value, Absent)}
