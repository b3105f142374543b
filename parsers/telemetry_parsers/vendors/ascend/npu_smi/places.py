"""Where npu-smi's chips sit: the NPU id of a card and the chip's number on it, or its physical id alone."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_parsers.model import Device
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.vendors.ascend import VENDOR


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chip sits: the NPU id of its card and its number on it, or its physical id where only that is printed."""

    card: int | None = None
    chip: int | None = None
    physical: int | None = None

    def device(self) -> Device:
        """What is known of a chip by its place; its index is the NPU id until another is printed."""
        numbers = {"card": self.card, "chip": self.chip}
        facts = tuple((name, str(number)) for name, number in numbers.items() if number is not None)
        return Device(VENDOR.word, self.card, facts=facts)


def chip_at(draft: Draft, place: Place) -> int:
    """The position of the chip there, made at its first mention."""
    return draft.device(place) if draft.has(place) else draft.device(place, place.device())


def places_in(draft: Draft) -> list[Place]:
    """Where chips are, in the order of their positions."""
    return [place for place in draft.places() if isinstance(place, Place)]
