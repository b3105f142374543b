"""Which device of the node a scheduler means by what it calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from telemetry_parsers.combining import canonical_uuid
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.ownership import Claim, DeviceName, Way

# The facts of a device that have the number of each kind of device node; a number may stand behind a word.
_FACTS: Mapping[Way, tuple[str, ...]] = {
    "minor": ("minor",),
    "render": ("render_node",),
    "card": ("drm_card", "drm_device"),
    "physical": ("phy_id",),
}
INSTANCE_FACT = "gpu_instance"


class DeviceNames:
    """The devices of a node by all that they may be called."""

    def __init__(self, devices: Sequence[MergedDevice]) -> None:
        self._devices = devices
        self._places = _places(device for device in devices if device.parent is None)

    def find(self, claim: Claim) -> MergedDevice | None:
        """The device that the first fitting name means; None where no name fits exactly one."""
        for name in claim.names:
            found = self._fitting(name)
            if len(found) == 1:
                return found[0]
        return None

    def _fitting(self, name: DeviceName) -> list[MergedDevice]:
        among = [device for device in self._devices if name.vendor in ("", device.vendor)]
        if name.way == "uuid":
            wanted = _bare(name.value)
            return [device for device in among if wanted and wanted == _bare(device.uuid)]
        if name.way == "bus_id":
            cards = [device for device in among if device.bus_id == name.value]
        else:
            cards = [device for device in among if self._number(name.way, device) == name.value]
        cards = _without_parts(cards)
        return cards if not name.instance else self._instances(cards, name.instance)

    def _number(self, way: Way, device: MergedDevice) -> str | None:
        """What the device is called in this way; where no fact tells its minor, the place of its device file."""
        if way == "index":
            return device.device if device.parent else None if device.index is None else str(device.index)
        facts = dict(device.facts)
        told = next((_digits(facts[fact]) for fact in _FACTS[way] if fact in facts), None)
        if told is None and way == "physical":
            return None if device.index is None else str(device.index)
        return self._places.get(device.id) if told is None and way == "minor" else told

    def _instances(self, cards: Iterable[MergedDevice], instance: str) -> list[MergedDevice]:
        parents = {card.id for card in cards}
        return [
            device
            for device in self._devices
            if device.parent in parents and dict(device.facts).get(INSTANCE_FACT, device.partition) == instance
        ]


def _bare(uuid: str | None) -> str:
    """A uuid without the words that one tool prints before it and another does not."""
    return (canonical_uuid(uuid) or "").removeprefix("mlu-")


def _without_parts(devices: list[MergedDevice]) -> list[MergedDevice]:
    """The whole cards among devices that have one name, if there are any."""
    ids = {device.id for device in devices}
    return [device for device in devices if device.parent not in ids]


def _digits(text: str) -> str:
    """The number at the end of a word such as `renderD128`."""
    head = text.rstrip("0123456789")
    return text[len(head) :].lstrip("0") or ("0" if len(head) < len(text) else "")


def _places(devices: Iterable[MergedDevice]) -> Mapping[str, str]:
    """Each device's place among its vendor's device files: schedulers count those, in the order of their numbers.

    Cards with render nodes are in the order of these, others in that of their physical ids or of the tool's numbers.
    """
    keys: dict[str, list[tuple[int, int, str]]] = {}
    for device in devices:
        facts = dict(device.facts)
        known = next((_digits(facts[fact]) for fact in ("render_node", "phy_id") if fact in facts), "")
        order = int(known) if known else device.index
        if order is not None and "minor" not in facts:
            keys.setdefault(device.vendor, []).append((0 if known else 1, order, device.id))
    places: dict[str, str] = {}
    for ordered in keys.values():
        if len({kind for kind, _, _ in ordered}) == 1 and len({order for _, order, _ in ordered}) == len(ordered):
            places.update({device_id: str(place) for place, (_, _, device_id) in enumerate(sorted(ordered))})
    return places
