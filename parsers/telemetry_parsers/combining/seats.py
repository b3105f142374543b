"""Where a chip sits: the card and the chip by which a tool names it when it does not give its index or address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telemetry_parsers.model import Device


@dataclass(frozen=True, slots=True)
class Seat:
    """The card's id, which is that of its slot, and the chip's number on it where the output tells one."""

    card: str
    chip: str | None = None


def seat_of(device: Device) -> Seat | None:
    """The seat that a device's facts tell, None for one without a card."""
    if not device.facts:
        return None
    facts = dict(device.facts)
    card = facts.get("card")
    return None if card is None else Seat(card, facts.get("chip"))


class Seating:
    """The devices of one output by their seats."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._by_seat: dict[Seat, int] = {}
        self._by_card: dict[str, list[Seat]] = {}
        self._seated = 0
        for position, seat in enumerate(map(seat_of, devices)):
            if seat is not None:
                self._seated += 1
                self._by_seat.setdefault(seat, position)
                self._by_card.setdefault(seat.card, []).append(seat)
        self._is_whole = self._seated == len(devices) > 0

    def find(self, device: Device, told_with: Seating) -> int | None:
        """The position of the device in the same seat as one that another output tells.

        An output that names no chip speaks of the card's only chip, if in both outputs there is just one on that card.
        """
        seat = seat_of(device)
        if seat is None:
            return None
        if seat in self._by_seat:
            return self._by_seat[seat]
        here, there = self._by_card.get(seat.card, []), told_with._by_card.get(seat.card, [])
        if len(here) != 1 or len(there) > 1:
            return None
        return self._by_seat[here[0]] if None in (seat.chip, here[0].chip) else None

    def agrees_with(self, listed: Seating) -> bool:
        """Whether both name cards for all devices, and none that the list lacks: a card's id is the same in both then."""
        return self._is_whole and listed._is_whole and self._by_card.keys() <= listed._by_card.keys()
