"""Where a chip is: the card and the chip by which a tool names it when it does not give its index or address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telemetry_parsers.model import Device


@dataclass(frozen=True, slots=True)
class ChipPlace:
    """The card's id, which is that of its slot, and the chip's number on it where the output gives one."""

    card: str
    chip: str | None = None


def chip_place_of(device: Device) -> ChipPlace | None:
    """The place that a device's facts give, None for one without a card."""
    if not device.facts:
        return None
    facts = dict(device.facts)
    card = facts.get("card")
    return None if card is None else ChipPlace(card, facts.get("chip"))


class ChipPlaces:
    """The devices of one output by their places."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._positions: dict[ChipPlace, int] = {}
        self._by_card: dict[str, list[ChipPlace]] = {}
        places = [chip_place_of(device) for device in devices]
        for position, place in enumerate(places):
            if place is not None:
                self._positions.setdefault(place, position)
                self._by_card.setdefault(place.card, []).append(place)
        self._has_all = None not in places and len(places) > 0

    def find(self, device: Device, in_output: ChipPlaces) -> int | None:
        """The position of the device that is where `device` is; `in_output` are the places of the output that names it.

        An output that names no chip speaks of the card's only chip, if each of the two outputs has one on that card.
        """
        place = chip_place_of(device)
        if place is None:
            return None
        if place in self._positions:
            return self._positions[place]
        own, others = self._by_card.get(place.card, []), in_output._by_card.get(place.card, [])
        if len(own) != 1 or len(others) > 1:
            return None
        return self._positions[own[0]] if None in (place.chip, own[0].chip) else None

    def agrees_with(self, listed: ChipPlaces) -> bool:
        """Whether both give a card for every device, and these cards are all on the list: an id then means the same card."""
        return self._has_all and listed._has_all and self._by_card.keys() <= listed._by_card.keys()
