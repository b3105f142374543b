"""What a simulated source says of its cards, as plain data."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from telemetry_daemon.simulate.cards import CardState
from telemetry_daemon.simulate.course import Course, course_random
from telemetry_daemon.simulate.values import VALUES, Played
from telemetry_parsers.model import Absent
from telemetry_parsers.vendor import Vendor

_BUSES_PER_DOMAIN = 200
_LOADS_OF_PARTS = (1.0, 0.55, 0.0)


class Teller:
    """Says in plain data how one vendor's cards are; `first_slot` keeps the node's bus addresses apart."""

    def __init__(self, vendor: Vendor, count: int, seed: int, first_slot: int) -> None:
        self._vendor = vendor
        self._identities = [_identity(vendor, position, seed, first_slot + position) for position in range(count)]

    def tell(self, keys: tuple[str, ...], course: Course, wall_time: float) -> dict[str, Any]:
        """The cards that are on the bus, with the readings of these keys."""
        present = course.present()
        told = self._told(keys)
        return {
            "vendor": self._vendor.word,
            "form": self._vendor.demo.form,
            "tool_version": self._vendor.demo.tool_version,
            "devices": [
                *(
                    {**self._identities[card.position], "readings": {key: value(card) for key, value in told}}
                    for card in present
                ),
                *(part for place, card in enumerate(present) for part in self._parts(card, place, keys)),
            ],
            "events": self._events(course, {card.position: place for place, card in enumerate(present)}, wall_time),
            "processes": _processes(present) if "processes" in keys else [],
        }

    def uuid(self, position: int) -> str:
        """The card's uuid."""
        return str(self._identities[position]["uuid"])

    def _told(self, keys: tuple[str, ...]) -> list[tuple[str, Callable[[CardState], Played | str]]]:
        """These keys of a whole card, each with what makes its value."""
        demo = self._vendor.demo
        return [
            (key, _not_supported if key in demo.not_supported else VALUES[key])
            for key in keys
            if key not in demo.only_partitions
        ]

    def _parts(self, card: CardState, place: int, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """The partitions of a card, each a small card at work for a while of the time."""
        own = [key for key in self._vendor.demo.partition_keys if key in keys]
        identity = self._identities[card.position]
        for number, part in enumerate(card.demo.partitions):
            model = replace(
                card.model, memory_mib=int(part.memory_share * card.model.memory_mib), memory_reserved_mib=0
            )
            small = replace(card, demo=replace(card.demo, card=model), load=card.load * _LOADS_OF_PARTS[number % 3])
            yield {
                **identity,
                "model": f"{identity['model']} MIG {part.profile}",
                "uuid": f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, identity['uuid'] + str(number))}",
                "partition": str(number),
                "parent": place,
                "facts": [["profile", part.profile]],
                "readings": {key: VALUES[key](small) for key in own},
            }

    def _events(self, course: Course, places: Mapping[int, int], wall_time: float) -> list[dict[str, Any]]:
        """What happened to these cards since the last poll."""
        events = [
            {"device": places[position], "code": code, "wall_time": round(wall_time - (course.now - second), 3)}
            for second, position, code in course.events
            if position in places
        ]
        course.events.clear()
        return events


def _not_supported(_card: CardState) -> str:
    return Absent.NOT_SUPPORTED.value


def _processes(cards: list[CardState]) -> list[dict[str, Any]]:
    return [
        {
            "device": place,
            "pid": card.job.pid,
            "name": card.job.kind.name,
            "memory_used_bytes": VALUES["memory_used_bytes"](card),
        }
        for place, card in enumerate(cards)
        if card.job is not None
    ]


def _identity(vendor: Vendor, position: int, seed: int, slot: int) -> dict[str, Any]:
    digits = f"{course_random(seed, vendor.word, position, 'identity').getrandbits(160):040x}"
    domain, bus = divmod(slot, _BUSES_PER_DOMAIN)
    return {
        "index": position,
        "model": vendor.demo.card.model,
        "uuid": vendor.demo.identity.format(
            uuid=uuid.UUID(digits[:32]),
            hex16=digits[:16],
            vdie=" ".join(digits[start : start + 8].upper() for start in range(0, 40, 8)),
        ),
        "bus_id": f"{domain:04x}:{bus + 1:02x}:00.0",
        "serial": f"SIM-{vendor.word.upper()}-{position:04d}",
        "driver": vendor.demo.driver,
        "partition": None,
        "parent": None,
        "facts": [["power_kind", vendor.demo.power_kind], ["numa_node", str(position % 2)]],
    }
