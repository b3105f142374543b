"""The simulated sources of a node: each with the parser and the reader that a real source would have."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

from telemetry_daemon.readers.base import Reader, Targets
from telemetry_daemon.simulate.cards import VALUES, CardState, memory_used_bytes, processes
from telemetry_daemon.simulate.course import INCIDENT, SOME_FAULTS, WARM_UP_SECONDS, Course, Faults, course_random
from telemetry_daemon.simulate.demo import PLAYED, Groups
from telemetry_daemon.times import Clock
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, finite
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.metrics import BY_KEY, reading
from telemetry_parsers.model import (
    Absent,
    Capture,
    Device,
    Event,
    Failure,
    Library,
    Output,
    Plain,
    Poll,
    Problem,
    Process,
    Reading,
    Report,
)
from telemetry_parsers.vendor import Demo, Vendor
from telemetry_parsers.vendors import VENDOR_WORDS, VENDORS

_T = TypeVar("_T")
_READER = "simulator"
DEFAULT_SEED = 1
_POLLS = (
    Poll("readings", Library(_READER), "fast", interval=2.0, deadline=2.0),
    Poll("slow", Library(_READER), "slow", interval=60.0, lists_devices=False),
    Poll("inventory", Library(_READER), "inventory", interval=300.0, lists_devices=False),
)
_BUSES_PER_DOMAIN = 200
_LOADS_OF_PARTS = (1.0, 0.55, 0.0)


@dataclass(frozen=True, slots=True)
class _Simulated:
    """A capture's data: the report without its readings, and each device's readings as numbers, numbers by label, or
    reasons for absence, by metric. So a capture of 128 cards takes a fifth of the full report.
    """

    report: Report
    values: tuple[Mapping[str, object], ...]


class SimulatedReader(Reader):
    """Answers the polls of one vendor's source from the course of its cards. `first_slot` makes bus addresses unique."""

    def __init__(
        self, vendor: Vendor, course: Course, clock: Clock, *, seed: int = DEFAULT_SEED, first_slot: int = 0
    ) -> None:
        self._demo = vendor.demo
        self._course = course
        self._clock = clock
        self._begun = clock.monotonic()
        # The Unix time at which the course began.
        self.begin = round(clock.wall()) - WARM_UP_SECONDS
        self._lock = threading.Lock()
        self._keys = _keys(vendor.demo)
        self._devices = [
            _device(vendor, position, seed, first_slot + position) for position in range(len(course.cards))
        ]

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # cards have no targets to repeat
        """Return the current state of the cards, or a timeout while the simulated source fails."""
        monotonic_time, wall_time, cpu = self._clock.monotonic(), self._clock.wall(), time.thread_time()
        with self._lock:
            self._course.advance(monotonic_time - self._begun)
            fails = self._course.fails()
            data = None if fails else self._data(self._keys[poll.name], wall_time)
        failure = Failure("failed", "timeout", f"no answer within {poll.deadline:g} s (simulated)") if fails else None
        return Capture(
            source=self._demo.source,
            poll=poll.name,
            request=poll.request,
            outputs=() if fails else (Output(name=poll.name, data=data),),
            failure=failure,
            seconds=poll.deadline if fails else self._clock.monotonic() - monotonic_time,
            cpu_seconds=time.thread_time() - cpu,
            wall_time=wall_time,
            monotonic_time=monotonic_time,
        )

    def look(self, at: Callable[[Course, Sequence[Device]], _T]) -> _T:
        """Return the result of `at`, called while the cards do not change."""
        with self._lock:
            return at(self._course, self._devices)

    def _data(self, keys: tuple[str, ...], wall_time: float) -> Plain:
        """Return the cards on the bus with their partitions, and the values of these keys, in the form of `_Simulated`."""
        demo, present = self._demo, self._course.present()
        parts = [part for position, card in enumerate(present) for part in self._parts(card, position)]
        report = Report(
            outcome="ok" if present else "no_devices",
            devices=(*(self._devices[card.position] for card in present), *(device for device, _ in parts)),
            events=tuple(self._events({card.position: index for index, card in enumerate(present)}, wall_time)),
            processes=tuple(_processes(present)) if "processes" in keys else (),
            facts=(("tool_version", demo.tool_version),),
            index_space=demo.source,
            form=demo.form,
        )
        of_cards = [
            (key, _not_supported if key in demo.not_supported else VALUES[key])
            for key in keys
            if key not in demo.only_partitions
        ]
        of_parts = [(key, VALUES[key]) for key in demo.partition_keys if key in keys]
        values: list[dict[str, Any]] = [
            *({key: value(card) for key, value in of_cards} for card in present),
            *({key: value(small) for key, value in of_parts} for _, small in parts),
        ]
        return {"report": to_plain(Report, report), "values": values}

    def _parts(self, card: CardState, index: int) -> Iterator[tuple[Device, CardState]]:
        """Yield the partitions of a card. Each is a small card that is busy from time to time."""
        whole = self._devices[card.position]
        for number, part in enumerate(card.demo.partitions):
            model = replace(
                card.model, memory_mib=int(part.memory_share * card.model.memory_mib), memory_reserved_mib=0
            )
            device = replace(
                whole,
                model=f"{whole.model} MIG {part.profile}",
                uuid=f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, f'{whole.uuid}{number}')}",
                partition=str(number),
                parent=index,
                facts=(("profile", part.profile),),
            )
            load = card.load * _LOADS_OF_PARTS[number % len(_LOADS_OF_PARTS)]
            yield device, replace(card, demo=replace(card.demo, card=model, partitions=()), load=load)

    def _events(self, indexes: Mapping[int, int], wall_time: float) -> Iterator[Event]:
        """Yield the events of these cards since the last poll."""
        for second, position, code in self._course.events:
            if position in indexes:
                yield Event(indexes[position], code, wall_time=round(wall_time - (self._course.now - second), 3))
        self._course.events.clear()


def parse(capture: Capture) -> Report:
    """Return the report in a capture of a simulated source, or a failed report without valid data."""
    try:
        simulated = from_plain(_Simulated, capture.outputs[0].data if capture.outputs else None)
        _check(simulated)
        readings = tuple(_readings(simulated.values))
    except ValueError as error:
        return Report(outcome="failed", reason="not_understood", problems=(Problem(capture.poll, str(error)),))
    return replace(simulated.report, readings=readings)


def _check(simulated: _Simulated) -> None:
    """Reject unknown metrics and devices, which a damaged recording may have. Raises CodecError."""
    report, wholes = simulated.report, [device.parent is None for device in simulated.report.devices]
    indexes = range(len(wholes))
    if len(simulated.values) != len(indexes) or any(values.keys() - BY_KEY for values in simulated.values):
        raise CodecError("values", "expected metrics of the catalogue for each device")
    devices = {*(event.device for event in report.events), *(process.device for process in report.processes)}
    if not devices.issubset(indexes):
        raise CodecError("report", "expected events and processes of its devices")
    if any(
        not (device.parent is None or (device.parent in indexes and wholes[device.parent])) for device in report.devices
    ):
        raise CodecError("report.devices", "expected whole cards as parents")
    if any(device.vendor not in VENDOR_WORDS for device in report.devices):
        raise CodecError("report.devices", f"expected a vendor of {' '.join(VENDOR_WORDS)}")


def _readings(of_devices: Iterable[Mapping[str, object]]) -> Iterator[Reading]:
    for position, values in enumerate(of_devices):
        for key, value in values.items():
            if isinstance(value, dict):
                yield from [reading(position, key, finite(number), word) for word, number in value.items()]
            else:
                yield reading(position, key, Absent(value) if isinstance(value, str) else finite(value))


class SimulatedSource:
    """One vendor's simulated cards: `parser` has the polls, `reader` answers them."""

    def __init__(
        self,
        word: str,
        count: int,
        *,
        seed: int = DEFAULT_SEED,
        faults: Faults = SOME_FAULTS,
        clock: Clock | None = None,
        first_slot: int = 0,
        staged: Sequence[str] = (),
        past_seconds: float = 0.0,
    ) -> None:
        vendor = PLAYED[word]
        course = Course(vendor, count, seed, faults, staged, past_seconds)
        self.parser = parser_of(vendor)
        self.reader = SimulatedReader(vendor, course, clock or Clock(), seed=seed, first_slot=first_slot)


def simulated_sources(
    groups: Groups,
    *,
    seed: int = DEFAULT_SEED,
    faults: Faults = SOME_FAULTS,
    clock: Clock | None = None,
    staged: Sequence[str] = (),
    past_seconds: float = 0.0,
) -> tuple[SimulatedSource, ...]:
    """Return a source for each group, with unique bus addresses. The first source with a past has an incident."""
    source = partial(SimulatedSource, seed=seed, faults=faults, clock=clock, past_seconds=past_seconds)
    slots = accumulate((count for _, count in groups), initial=0)
    incident = (INCIDENT,) if past_seconds else ()
    return tuple(
        source(word, count, first_slot=slot, staged=staged or (() if slot else incident))
        for (word, count), slot in zip(groups, slots, strict=False)
    )


def parser_of(vendor: Vendor) -> SourceParser:
    """Return the parser of a vendor's simulated source."""
    keys = _keys(vendor.demo)
    return SourceParser(
        name=vendor.demo.source,
        vendor=vendor.word,
        gives=tuple(key for of_poll in keys.values() for key in of_poll),
        polls=tuple(replace(poll, request=Library(_READER, (vendor.word,))) for poll in _POLLS if poll.name in keys),
        parse=parse,
    )


def simulated_parser(capture: Capture) -> SourceParser | None:
    """Return the parser for a capture of the simulator (in a recording of a demo), or None for other captures."""
    if not isinstance(capture.request, Library) or capture.request.reader != _READER:
        return None
    return next((parser_of(vendor) for vendor in VENDORS if vendor.demo.source == capture.source), None)


def _keys(demo: Demo) -> dict[str, tuple[str, ...]]:
    """Return the keys of the metrics in each poll that has any."""
    keys = {"readings": demo.fast, "slow": demo.slow, "inventory": demo.inventory}
    return {poll: of_poll for poll, of_poll in keys.items() if of_poll}


def _not_supported(_card: CardState) -> str:
    return Absent.NOT_SUPPORTED.value


def _processes(cards: Sequence[CardState]) -> Iterator[Process]:
    """Yield a process for each owner of a card; owners that share it use the same amount of memory."""
    for index, card in enumerate(cards):
        job, owners = card.job, processes(card)
        if job is not None:
            for number in range(owners):
                pid, memory = job.pid_of(card.position, number), memory_used_bytes(card) // owners
                yield Process(index, pid, job.kind.name, memory)


def _device(vendor: Vendor, position: int, seed: int, slot: int) -> Device:
    digits = f"{course_random(seed, vendor.word, position, 'identity').getrandbits(160):040x}"
    domain, bus = divmod(slot, _BUSES_PER_DOMAIN)
    return Device(
        vendor.word,
        position,
        model=vendor.demo.card.model,
        uuid=vendor.demo.identity.format(
            uuid=uuid.UUID(digits[:32]),
            hex16=digits[:16],
            vdie=" ".join(digits[start : start + 8].upper() for start in range(0, 40, 8)),
        ),
        bus_id=f"{domain:04x}:{bus + 1:02x}:00.0",
        serial=f"SIM-{vendor.word.upper()}-{position:04d}",
        driver=vendor.demo.driver,
        simulated=True,
        facts=(("power_kind", vendor.demo.power_kind), ("numa_node", str(position % 2))),
    )
