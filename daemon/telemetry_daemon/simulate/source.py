"""The simulated sources of a node."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any, TypeVar

from telemetry_daemon.readers.base import Reader, Targets
from telemetry_daemon.simulate.cards import VALUE_FUNCTIONS, CardState, memory_used_bytes, process_count
from telemetry_daemon.simulate.demo import SIMULATED_VENDORS, Groups
from telemetry_daemon.simulate.simulation import (
    INCIDENT,
    SOME_FAULTS,
    WARM_UP_SECONDS,
    FaultRates,
    Simulation,
    new_random,
)
from telemetry_daemon.times import Clock
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, read_float
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
from telemetry_parsers.vendors import VENDOR_WORDS

_T = TypeVar("_T")
READER = "simulator"
DEFAULT_SEED = 1
_POLLS = (
    Poll("readings", Library(READER), "fast", interval=2.0, deadline=2.0),
    Poll("slow", Library(READER), "slow", interval=60.0, lists_devices=False),
    Poll("inventory", Library(READER), "inventory", interval=300.0, lists_devices=False),
)
_BUSES_PER_DOMAIN = 200
_PARTITION_LOADS = (1.0, 0.55, 0.0)


@dataclass(frozen=True, slots=True)
class _CaptureData:
    """The data of a simulated capture: a report, and each device's values by metric."""

    # Plain values take a fifth of the space of the full report's readings.
    report: Report
    values: tuple[Mapping[str, object], ...]


class SimulatedReader(Reader):
    """Answers the polls of one vendor's source with simulated data."""

    def __init__(
        self, vendor: Vendor, simulation: Simulation, clock: Clock, *, seed: int = DEFAULT_SEED, first_slot: int = 0
    ) -> None:
        self._demo = vendor.demo
        self._simulation = simulation
        self._clock = clock
        self._monotonic_start = clock.monotonic()
        # The Unix time at which the simulation began.
        self.start_time = round(clock.wall()) - WARM_UP_SECONDS
        self._lock = threading.Lock()
        self._metrics_by_poll = _metrics_by_poll(vendor.demo)
        self._devices = [
            _create_device(vendor, position, seed, first_slot + position) for position in range(len(simulation.cards))
        ]

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # simulated sources have no targets
        """Simulate the cards up to the current time. Return their state, or a simulated timeout."""
        monotonic_time, wall_time, cpu = self._clock.monotonic(), self._clock.wall(), time.thread_time()
        with self._lock:
            self._simulation.advance(monotonic_time - self._monotonic_start)
            is_failing = self._simulation.is_failing()
            data = None if is_failing else self._capture_data(self._metrics_by_poll[poll.name], wall_time)
        text = f"no answer within {poll.deadline:g} s (simulated)"
        return Capture(
            source=self._demo.source,
            poll=poll.name,
            request=poll.request,
            outputs=() if is_failing else (Output(name=poll.name, data=data),),
            failure=Failure("failed", "timeout", text) if is_failing else None,
            seconds=poll.deadline if is_failing else self._clock.monotonic() - monotonic_time,
            cpu_seconds=time.thread_time() - cpu,
            wall_time=wall_time,
            monotonic_time=monotonic_time,
        )

    def call_locked(self, function: Callable[[Simulation, Sequence[Device]], _T]) -> _T:
        """Call the function while the simulation is locked, and return the result."""
        with self._lock:
            return function(self._simulation, self._devices)

    def _capture_data(self, keys: tuple[str, ...], wall_time: float) -> Plain:
        demo, present = self._demo, self._simulation.present_cards()
        partitions = [part for position, card in enumerate(present) for part in self._partitions(card, position)]
        report = Report(
            outcome="ok" if present else "no_devices",
            devices=(*(self._devices[card.position] for card in present), *(device for device, _ in partitions)),
            events=tuple(self._take_events({card.position: index for index, card in enumerate(present)}, wall_time)),
            processes=tuple(_processes(present)) if "processes" in keys else (),
            facts=(("tool_version", demo.tool_version),),
            index_space=demo.source,
            form=demo.form,
        )
        card_values = [
            (key, _not_supported if key in demo.not_supported else VALUE_FUNCTIONS[key])
            for key in keys
            if key not in demo.only_partitions
        ]
        partition_values = [(key, VALUE_FUNCTIONS[key]) for key in demo.partition_keys if key in keys]
        values: list[dict[str, Any]] = [
            *({key: value(card) for key, value in card_values} for card in present),
            *({key: value(partition) for key, value in partition_values} for _, partition in partitions),
        ]
        return {"report": to_plain(Report, report), "values": values}

    def _partitions(self, card: CardState, parent_index: int) -> Iterator[tuple[Device, CardState]]:
        """Yield the partitions of a card. Each is simulated like a smaller card."""
        card_device = self._devices[card.position]
        for partition_index, partition in enumerate(card.demo.partitions):
            model = replace(
                card.model, memory_mib=int(partition.memory_share * card.model.memory_mib), memory_reserved_mib=0
            )
            device = replace(
                card_device,
                model=f"{card_device.model} MIG {partition.profile}",
                uuid=f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, f'{card_device.uuid}{partition_index}')}",
                partition=str(partition_index),
                parent=parent_index,
                facts=(("profile", partition.profile),),
            )
            load = card.load * _PARTITION_LOADS[partition_index % len(_PARTITION_LOADS)]
            yield device, replace(card, demo=replace(card.demo, card=model, partitions=()), load=load)

    def _take_events(self, index_by_position: Mapping[int, int], wall_time: float) -> Iterator[Event]:
        for simulated_time, position, code in self._simulation.events:
            event_time = round(wall_time - (self._simulation.now - simulated_time), 3)
            if position in index_by_position:
                yield Event(index_by_position[position], code, wall_time=event_time)
        self._simulation.events.clear()


def parse(capture: Capture) -> Report:
    """Return the report in a capture, or a failed report if the capture's data is invalid."""
    try:
        capture_data = from_plain(_CaptureData, capture.outputs[0].data if capture.outputs else None)
        _raise_if_invalid(capture_data)
        readings = tuple(_readings(capture_data.values))
    except ValueError as error:
        return Report(outcome="failed", reason="not_understood", problems=(Problem(capture.poll, str(error)),))
    return replace(capture_data.report, readings=readings)


def _raise_if_invalid(capture_data: _CaptureData) -> None:
    report, indices = capture_data.report, range(len(capture_data.report.devices))
    if len(capture_data.values) != len(indices) or any(values.keys() - BY_KEY for values in capture_data.values):
        raise CodecError("values", "expected only known metrics, in one map for each device")
    devices = {*(event.device for event in report.events), *(process.device for process in report.processes)}
    if not devices.issubset(indices):
        raise CodecError("report", "expected events and processes whose devices are in the report")
    parents = {device.parent for device in report.devices if device.parent is not None}
    if any(parent not in indices or report.devices[parent].parent is not None for parent in parents):
        raise CodecError("report.devices", "expected whole cards as parents")
    if any(device.vendor not in VENDOR_WORDS for device in report.devices):
        raise CodecError("report.devices", f"expected one of the vendors {', '.join(VENDOR_WORDS)}")


def _readings(values_by_device: Iterable[Mapping[str, object]]) -> Iterator[Reading]:
    for index, values in enumerate(values_by_device):
        for key, value in values.items():
            if isinstance(value, dict):
                yield from [reading(index, key, read_float(number), label) for label, number in value.items()]
            else:
                yield reading(index, key, Absent(value) if isinstance(value, str) else read_float(value))


class SimulatedSource:
    """One vendor's simulated cards, with a parser and a reader."""

    def __init__(
        self,
        word: str,
        count: int,
        *,
        seed: int = DEFAULT_SEED,
        faults: FaultRates = SOME_FAULTS,
        clock: Clock | None = None,
        first_slot: int = 0,
        staged_faults: Sequence[str] = (),
        past_seconds: float = 0.0,
    ) -> None:
        vendor = SIMULATED_VENDORS[word]
        simulation = Simulation(vendor, count, seed, faults, staged_faults, past_seconds)
        self.parser = parser_of(vendor)
        self.reader = SimulatedReader(vendor, simulation, clock or Clock(), seed=seed, first_slot=first_slot)


def simulated_sources(
    groups: Groups,
    *,
    seed: int = DEFAULT_SEED,
    faults: FaultRates = SOME_FAULTS,
    clock: Clock | None = None,
    staged_faults: Sequence[str] = (),
    past_seconds: float = 0.0,
) -> tuple[SimulatedSource, ...]:
    """Return a source for each group. The bus addresses of all cards differ."""
    create_source = partial(SimulatedSource, seed=seed, faults=faults, clock=clock, past_seconds=past_seconds)
    slots = accumulate((count for _, count in groups), initial=0)
    incident = (INCIDENT,) if past_seconds else ()
    return tuple(
        create_source(word, count, first_slot=slot, staged_faults=staged_faults or (() if slot else incident))
        for (word, count), slot in zip(groups, slots, strict=False)
    )


def parser_of(vendor: Vendor) -> SourceParser:
    """Return the parser of a vendor's simulated source."""
    metrics_by_poll = _metrics_by_poll(vendor.demo)
    polls = [poll for poll in _POLLS if poll.name in metrics_by_poll]
    return SourceParser(
        name=vendor.demo.source,
        vendor=vendor.word,
        gives=tuple(chain.from_iterable(metrics_by_poll.values())),
        polls=tuple(replace(poll, request=Library(READER, (vendor.word,))) for poll in polls),
        parse=parse,
    )


def _metrics_by_poll(demo: Demo) -> dict[str, tuple[str, ...]]:
    metrics_by_poll = {"readings": demo.fast, "slow": demo.slow, "inventory": demo.inventory}
    return {poll: metrics for poll, metrics in metrics_by_poll.items() if metrics}


def _not_supported(_card: CardState) -> str:
    return Absent.NOT_SUPPORTED.value


def _processes(cards: Sequence[CardState]) -> Iterator[Process]:
    for index, card in enumerate(cards):
        job, count = card.job, process_count(card)
        if job is not None:
            for owner_index in range(count):
                pid, memory = job.pid_of(card.position, owner_index), memory_used_bytes(card) // count
                yield Process(index, pid, job.pattern.name, memory)


def _create_device(vendor: Vendor, position: int, seed: int, slot: int) -> Device:
    digits = f"{new_random(seed, vendor.word, position, 'identity').getrandbits(160):040x}"
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
