"""Finds the device that a scheduler names, for example by its index or UUID."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from telemetry_parsers.combining import canonical_uuid
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.ownership import Claim, DeviceName, NameKind

# Maps each kind of device name to the device's facts that may contain such a name.
_FACTS: Mapping[NameKind, tuple[str, ...]] = {
    "minor": ("minor",),
    "render": ("render_node",),
    "card": ("drm_card", "drm_device"),
    "physical": ("phy_id",),
}
INSTANCE_FACT = "gpu_instance"


class DeviceNames:
    """Finds devices of a node by any of their names."""

    def __init__(self, devices: Sequence[MergedDevice]) -> None:
        self._devices = devices
        self._assumed_minors = _assumed_minor_numbers(device for device in devices if device.parent is None)

    def find(self, claim: Claim) -> MergedDevice | None:
        """Return the device that the first unambiguous name of the claim identifies, or None if no name is unambiguous."""
        for name in claim.names:
            devices = self._matching_devices(name)
            if len(devices) == 1:
                return devices[0]
        return None

    def _matching_devices(self, name: DeviceName) -> list[MergedDevice]:
        candidates = [device for device in self._devices if name.vendor in ("", device.vendor)]
        if name.way == "uuid":
            bare_uuid = _without_prefix(name.value)
            return [device for device in candidates if bare_uuid and bare_uuid == _without_prefix(device.uuid)]
        if name.way == "bus_id":
            cards = [device for device in candidates if device.bus_id == name.value]
        else:
            cards = [device for device in candidates if self._device_number(name.way, device) == name.value]
        cards = _without_partitions(cards)
        return cards if not name.instance else self._instances_of(cards, name.instance)

    def _device_number(self, kind: NameKind, device: MergedDevice) -> str | None:
        """Return the device's number of this kind, such as its minor number."""
        if kind == "index":
            return device.device if device.parent else None if device.index is None else str(device.index)
        facts = dict(device.facts)
        number = next((_trailing_number(facts[fact]) for fact in _FACTS[kind] if fact in facts), None)
        if number is None and kind == "physical":
            return None if device.index is None else str(device.index)
        return self._assumed_minors.get(device.id) if number is None and kind == "minor" else number

    def _instances_of(self, cards: Iterable[MergedDevice], instance: str) -> list[MergedDevice]:
        card_ids = {card.id for card in cards}
        return [
            device
            for device in self._devices
            if device.parent in card_ids and dict(device.facts).get(INSTANCE_FACT, device.partition) == instance
        ]


def _without_prefix(uuid: str | None) -> str:
    return (canonical_uuid(uuid) or "").removeprefix("mlu-")


def _without_partitions(devices: list[MergedDevice]) -> list[MergedDevice]:
    ids = {device.id for device in devices}
    return [device for device in devices if device.parent not in ids]


def _trailing_number(text: str) -> str:
    head = text.rstrip("0123456789")
    return text[len(head) :].lstrip("0") or ("0" if len(head) < len(text) else "")


def _assumed_minor_numbers(devices: Iterable[MergedDevice]) -> Mapping[str, str]:
    """Number the devices whose minor number is not reported, for each vendor. Return the numbers by device id."""
    order_keys: dict[str, list[tuple[bool, int, str]]] = {}
    for device in devices:
        facts = dict(device.facts)
        number = next((_trailing_number(facts[fact]) for fact in ("render_node", "phy_id") if fact in facts), "")
        order = int(number) if number else device.index
        if order is not None and "minor" not in facts:
            order_keys.setdefault(device.vendor, []).append((number == "", order, device.id))
    positions: dict[str, str] = {}
    for keys in order_keys.values():
        is_comparable = len({is_index for is_index, _, _ in keys}) == 1
        if is_comparable and len({order for _, order, _ in keys}) == len(keys):
            positions.update({device_id: str(position) for position, (_, _, device_id) in enumerate(sorted(keys))})
    return positions
