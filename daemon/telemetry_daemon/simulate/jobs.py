"""The sources that report the simulated jobs and their steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from telemetry_daemon.readers.base import Reader, Targets
from telemetry_daemon.simulate.cards import CardState
from telemetry_daemon.simulate.simulation import Simulation
from telemetry_daemon.simulate.source import READER, SimulatedReader, parser_of
from telemetry_daemon.simulate.workload import Job
from telemetry_daemon.times import Clock
from telemetry_parsers import steps
from telemetry_parsers.card_peaks import peak_of
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Device, Library, Output, Plain, Poll, Report
from telemetry_parsers.ownership import Claim, DeviceName, Owner, Task
from telemetry_parsers.vendors import VENDORS

SCHEDULER = "scheduler"
_CLAIMS_POLL = Poll("claims", Library(READER, (SCHEDULER,)), interval=10.0, lists_devices=False)
_TICKS_PER_SECOND = 100
_STEP_SECONDS = 0.8
_TOKENS_PER_STEP = 16_384
_SHARE_OF_PEAK, _DTYPE = 0.42, "bf16"
_COMMUNICATION_SHARE = 0.24


@dataclass(frozen=True, slots=True)
class _JobsReader(Reader):
    source: str
    clock: Clock
    create_data: Callable[[], Plain]

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # this source has no targets
        cpu_start = time.thread_time()
        output = Output(poll.name, status=0, data=self.create_data())
        return Capture(
            self.source,
            poll.name,
            poll.request,
            (output,),
            cpu_seconds=time.thread_time() - cpu_start,
            wall_time=self.clock.wall(),
            monotonic_time=self.clock.monotonic(),
        )


def owners_reader(readers: Sequence[SimulatedReader], clock: Clock) -> Reader:
    """Return a reader that reports the owners and processes of all jobs."""

    def create_owner_report() -> Plain:
        pairs = [
            pair for reader in readers for pair in reader.call_locked(partial(_claims_and_tasks, reader.start_time))
        ]
        claims, tasks = tuple(claim for claim, _ in pairs), tuple(task for _, task in pairs)
        return to_plain(Report, Report(claims=claims, tasks=tasks, form="data"))

    return _JobsReader(SCHEDULER, clock, create_owner_report)


def owners_parser() -> SourceParser:
    """Return the parser of the simulated scheduler."""
    return SourceParser(SCHEDULER, "", (), (_CLAIMS_POLL,), lambda capture: from_plain(Report, capture.outputs[0].data))


def simulated_parser(capture: Capture) -> SourceParser | None:
    """Return the parser for a simulated capture, or None for other captures."""
    if not isinstance(capture.request, Library) or capture.request.reader != READER:
        return None
    if capture.source == SCHEDULER:
        return owners_parser()
    return next((parser_of(vendor) for vendor in VENDORS if vendor.demo.source == capture.source), None)


def _claims_and_tasks(start_time: float, simulation: Simulation, devices: Sequence[Device]) -> list[tuple[Claim, Task]]:
    return [
        (
            _claim(owner, devices[card.position], start_time + job.start, str(index) if len(job.owners) > 1 else ""),
            _task(owner, job.pid_of(card.position, index), job, start_time + job.start),
        )
        for card in simulation.present_cards()
        if (job := card.job) is not None
        for index, owner in enumerate(job.owners)
    ]


def _claim(owner: Owner, device: Device, started: float, replica: str) -> Claim:
    name = DeviceName(f"{device.vendor}{device.index}", "index", str(device.index), device.vendor)
    return Claim(owner, _process_keys(owner), (name,), replica, started=started)


def _task(owner: Owner, pid: int, job: Job, started: float) -> Task:
    ticks = int(job.start * _TICKS_PER_SECOND)
    return Task(pid, ticks, started, owner.user, job.pattern.name, owner=owner, keys=_process_keys(owner))


def _process_keys(owner: Owner) -> tuple[str, ...]:
    return (f"simulated:{owner.name}",)


def steps_reader(readers: Sequence[SimulatedReader], clock: Clock) -> Reader:
    """Return a reader of the simulated step files."""
    return _JobsReader(
        steps.SOURCE, clock, lambda: [file for reader in readers for file in reader.call_locked(_step_files)]
    )


def _step_files(simulation: Simulation, devices: Sequence[Device]) -> list[Plain]:
    """Return a step file for each card whose job uses links. Jobs with absent cards have no step files."""
    cards_by_position = {card.position: card for card in simulation.present_cards()}
    files: list[Plain] = []
    for card in cards_by_position.values():
        job = card.job
        if job is not None and job.pattern.links:
            job_cards = [cards_by_position.get(position) for position in job.cards]
            work_done = [other.work_done for other in job_cards if other and other.job and other.job.pid == job.pid]
            if len(work_done) == len(job_cards):
                files.append(_step_file(devices[card.position], card, job, int(min(work_done) / _STEP_SECONDS)))
    return files


def _step_file(device: Device, card: CardState, job: Job, step_count: int) -> Plain:
    peak = peak_of(card.model.model)
    flops = None if peak is None else peak.flops(_DTYPE)
    rank = job.cards.index(card.position)
    return {
        "file": f"{job.pid}-{rank}.json",
        "uid": 1000,
        "schema": steps.SCHEMA,
        "job_id": next((owner.job_id or owner.pod_name for owner in job.owners), str(job.pid)),
        "rank": rank,
        "card": {"uuid": device.uuid},
        "steps": step_count,
        "tokens": step_count * _TOKENS_PER_STEP,
        "flops": None if flops is None else step_count * flops * _SHARE_OF_PEAK * _STEP_SECONDS,
        "seconds": dict(_seconds_by_activity(card, job)),
    }


def _seconds_by_activity(card: CardState, job: Job) -> Iterator[tuple[str, float]]:
    communication = card.busy_seconds * _COMMUNICATION_SHARE * job.pattern.links
    yield "compute", round(card.busy_seconds - communication, 3)
    yield "communication", round(communication, 3)
    yield "data", round(max(0.0, card.now - job.start - card.busy_seconds), 3)
