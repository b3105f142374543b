"""Combines several outputs of one tool into one report."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Absent, Device, Event, Identity, Process, Reading, Report


@dataclass(frozen=True, slots=True)
class ChipPosition:
    """The card of a chip and, if printed, the chip's number on the card."""

    card: str
    number: str | None = None


def chip_of(device: Device) -> ChipPosition | None:
    """Return the chip's position from the device's facts, or None if the card is unknown."""
    if not device.facts:
        return None
    facts = dict(device.facts)
    card = facts.get("card")
    return None if card is None else ChipPosition(card, facts.get("chip"))


class ChipFinder:
    """Finds the devices of one output by card and chip."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._positions: dict[ChipPosition, int] = {}
        self._by_card: dict[str, list[ChipPosition]] = {}
        chip_positions = [chip_of(device) for device in devices]
        for position, chip in enumerate(chip_positions):
            if chip is not None:
                self._positions.setdefault(chip, position)
                self._by_card.setdefault(chip.card, []).append(chip)
        self._has_all_cards = None not in chip_positions and len(chip_positions) > 0

    def find(self, device: Device, other: ChipFinder) -> int | None:
        """Return the position in this output of a device from the output `other`, or None if the device is not found."""
        chip = chip_of(device)
        if chip is None:
            return None
        if chip in self._positions:
            return self._positions[chip]
        own_chips, other_chips = self._by_card.get(chip.card, []), other._by_card.get(chip.card, [])
        if len(own_chips) != 1 or len(other_chips) > 1:
            return None
        return self._positions[own_chips[0]] if None in (chip.number, own_chips[0].number) else None

    def is_comparable_with(self, other: ChipFinder) -> bool:
        """Return whether both outputs name each device's card, and `other` has all cards of this output."""
        return self._has_all_cards and other._has_all_cards and self._by_card.keys() <= other._by_card.keys()


_PLACEHOLDER_CHARACTERS = frozenset("0xfn/a- ")


def canonical_uuid(text: str | None) -> str | None:
    """Return a UUID in lower case without prefix, for comparison, or None for a placeholder."""
    if text is None:
        return None
    stripped = text.strip().lower().removeprefix("gpu-").removeprefix("0x")
    if set(stripped) <= _PLACEHOLDER_CHARACTERS or len(stripped) < 4:
        return None
    return stripped


def uuids_differ(first: str | None, second: str | None) -> bool:
    """Return whether both UUIDs are known, but differ."""
    first_uuid, second_uuid = canonical_uuid(first), canonical_uuid(second)
    return first_uuid is not None and second_uuid is not None and first_uuid != second_uuid


def name_of(device: Device) -> str:
    """Return a device's name for problem texts, such as `amd 0000:c1:00.0`."""
    return f"{device.vendor} {device.bus_id or device.uuid or device.index}"


def combine_devices(first: Device, second: Device) -> Device:
    """Return the first device with its unknown fields filled in from the second device."""
    facts = first.facts
    if second.facts:
        facts = tuple(sorted({**dict(second.facts), **dict(first.facts)}.items()))
    bus_id = first.bus_id
    if bus_id is None or (second.bus_id is not None and second.bus_id.endswith(bus_id)):
        bus_id = second.bus_id or bus_id
    return Device(
        vendor=first.vendor,
        index=second.index if first.index is None else first.index,
        model=first.model or second.model,
        uuid=first.uuid or second.uuid,
        bus_id=bus_id,
        partition=second.partition if first.partition is None else first.partition,
        parent=first.parent,
        serial=first.serial or second.serial,
        driver=first.driver or second.driver,
        up=first.up or second.up,
        simulated=first.simulated or second.simulated,
        facts=facts,
    )


def has_address_or_uuid(device: Device | Identity) -> bool:
    """Return whether a device has an address or a UUID."""
    return bool(device.bus_id) or canonical_uuid(device.uuid) is not None


def slot_of(bus_id: str, partition: str | None) -> str:
    """Return the device's address. The address of a partition has no PCI function."""
    return bus_id if partition is None else bus_id.rpartition(".")[0]


def without_domain(slot: str) -> str:
    """Return the address without its PCI domain, which some tools omit."""
    return ":".join(slot.split(":")[-2:])


def is_same_slot(first: str, second: str) -> bool:
    """Return whether two addresses may belong to the same slot."""
    return first == second or first.endswith(":" + second) or second.endswith(":" + first)


def has_repeated_index(devices: Sequence[Device]) -> bool:
    """Return whether two devices have the same index, such as a card and its partition."""
    indices = [device.index for device in devices if device.index is not None]
    return len(set(indices)) < len(indices)


# From best to worst. A combined report has the best outcome of its reports.
_BEST_FIRST = ("ok", "no_devices", "failed", "wrong_request", "not_mine")


def combine_reports(reports: Sequence[Report]) -> Report:
    """Combine the reports on several outputs of one tool."""
    if len(reports) == 1:
        return reports[0]
    indices_repeat = any(has_repeated_index(report.devices) for report in reports)
    best = min(reports, key=lambda report: _BEST_FIRST.index(report.outcome))
    devices: list[Device] = []
    readings: dict[tuple[int | None, str, str], Reading] = {}
    events: list[Event] = []
    processes: list[Process] = []
    for report in reports:
        positions = _add_devices(devices, report.devices, indices_repeat=indices_repeat)
        for reading in report.readings:
            _keep_first_number(readings, replace(reading, device=_new_position(positions, reading.device)))
        events += [replace(event, device=_new_position(positions, event.device)) for event in report.events]
        devices_with_processes = {process.device for process in processes}
        renumbered = [replace(process, device=positions[process.device]) for process in report.processes]
        processes += [process for process in renumbered if process.device not in devices_with_processes]
    return replace(
        best,
        devices=tuple(devices),
        readings=tuple(readings.values()),
        events=tuple(events),
        processes=tuple(processes),
        problems=tuple(dict.fromkeys(problem for report in reports for problem in report.problems)),
        unknown_fields=tuple(dict.fromkeys(field for report in reports for field in report.unknown_fields)),
        is_cut=any(report.is_cut for report in reports),
        facts=tuple(sorted({key: value for report in reversed(reports) for key, value in report.facts}.items())),
    )


def _is_same_device(first: Device, second: Device, *, indices_repeat: bool) -> bool:
    """Return whether two devices have the same vendor, index and partition, and no other identifiers that differ."""
    if first.vendor != second.vendor or first.index != second.index:
        return False
    is_partition_unknown = None in (first.partition, second.partition) and not indices_repeat
    if first.partition != second.partition and not is_partition_unknown:
        return False
    if chip_of(first) is not None and chip_of(second) is not None:
        return False
    return _identities_agree(first, second) and (first.index is not None or bool(_common_identities(first, second)))


def _identities_agree(first: Device, second: Device) -> bool:
    return all(left == right for left, right in _common_identities(first, second))


def _common_identities(first: Device, second: Device) -> list[tuple[str, str]]:
    identities = [
        (first.bus_id, second.bus_id),
        (canonical_uuid(first.uuid), canonical_uuid(second.uuid)),
        (first.serial, second.serial),
    ]
    return [(left, right) for left, right in identities if left is not None and right is not None]


def _add_devices(devices: list[Device], added: Sequence[Device], *, indices_repeat: bool) -> list[int]:
    """Merge each added device with its match in `devices`, or append it. Return the positions."""
    earlier_count = len(devices)
    earlier_chips, added_chips = ChipFinder(devices), ChipFinder(added)
    positions = []
    for device in added:
        unlinked = replace(device, parent=None)
        position = earlier_chips.find(device, added_chips)
        if position is None or not _identities_agree(devices[position], device):
            earlier = range(earlier_count)
            found = (item for item in earlier if _is_same_device(devices[item], device, indices_repeat=indices_repeat))
            position = next(found, None)
        if position is None:
            position = len(devices)
            devices.append(unlinked)
        else:
            devices[position] = combine_devices(devices[position], unlinked)
        positions.append(position)
    for device, position in zip(added, positions, strict=True):
        if device.parent is not None and devices[position].parent is None:
            devices[position] = replace(devices[position], parent=positions[device.parent])
    return positions


def _new_position(positions: Sequence[int], position: int | None) -> int | None:
    return None if position is None else positions[position]


def _keep_first_number(readings: dict[tuple[int | None, str, str], Reading], reading: Reading) -> None:
    key = (reading.device, reading.metric, reading.label)
    kept = readings.get(key)
    if kept is None or (isinstance(kept.value, Absent) and not isinstance(reading.value, Absent)):
        readings[key] = reading
