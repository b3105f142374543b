"""The simulated node of `--demo`: cards with their owners and their jobs' steps; the host's readings are of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import Loaded
from telemetry_daemon.polling.node_sources import Node, no_bus, no_capture
from telemetry_daemon.polling.source import OnCapture, Source
from telemetry_daemon.readers.base import Reader, Targets
from telemetry_daemon.readers.host import HostReader
from telemetry_daemon.simulate.cards import CardState
from telemetry_daemon.simulate.course import NO_FAULTS, SOME_FAULTS, Course
from telemetry_daemon.simulate.demo import PLAYED, DemoError, Groups, by_vendor, parse_demo, parse_faults
from telemetry_daemon.simulate.source import SimulatedReader, simulated_sources
from telemetry_daemon.simulate.workload import Job
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_parsers import host, steps
from telemetry_parsers.card_peaks import peak_of
from telemetry_parsers.contract import Parser, SourceParser
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Device, Library, Output, Plain, Poll, Report
from telemetry_parsers.ownership import Claim, DeviceName, Owner

_SCHEDULER = "scheduler"
_CLAIMS = Poll("claims", Library("simulator", (_SCHEDULER,)), interval=10.0, lists_devices=False)
_POD = ("llm", "serve-0", "server")
# Assigned in turn, to show owners without a cluster; two owners share a card, and a card without owners is free.
_TURNS: tuple[tuple[Owner, ...], ...] = (
    (Owner("job", "48213", job_id="48213", user="alice", account="physics", partition="batch"),),
    (Owner("job", "48213", job_id="48213", user="alice", account="physics", partition="batch"),),
    (Owner("pod", "/".join(_POD), *_POD),),
    (
        Owner("job", "48220_3", job_id="48220_3", user="bob", account="biology", partition="shared"),
        Owner("job", "48221", job_id="48221", user="carol", account="biology", partition="shared"),
    ),
    (),
)
_STEP_SECONDS = 0.8
_TOKENS = 16_384
_SHARE_OF_PEAK, _DTYPE = 0.42, "bf16"
_COMMUNICATION = 0.24


class DemoNode(Node):
    """Simulated sources that replace this machine's."""

    def __init__(self, text: str, clock: Clock, on_capture: OnCapture = no_capture, faults: str | None = None) -> None:
        try:
            groups, staged = parse_demo(text), parse_faults(faults or "")
        except DemoError as error:
            raise CommandError(str(error)) from None
        super().__init__(Loaded(), clock)
        self._on_capture = on_capture
        # A drill shows the staged faults alone.
        simulated = simulated_sources(groups, faults=NO_FAULTS if staged else SOME_FAULTS, staged=staged)
        self._simulated = {item.parser.name: item for item in simulated}
        self._groups = groups
        self._counts = by_vendor(groups)

    def names(self) -> tuple[str, ...]:
        """Return the names of the simulated sources, and the host's."""
        return (*self._simulated, host.PARSER.name)

    def sources(self, settings: Settings, only: Iterable[str] = ()) -> list[Source]:
        """Return all sources, with those of owners and steps if enabled."""
        owners = (_SCHEDULER,) if settings.attribution.enabled and not only else ()
        of_steps = (steps.SOURCE,) if settings.steps.enabled and not only else ()
        return super().sources(settings, (*(only or self.names()), *owners, *of_steps))

    def source(self, name: str, settings: Settings) -> Source:
        """Return a new source of that name."""
        parser: Parser = host.PARSER
        reader: Reader = HostReader()
        if name == _SCHEDULER:
            parser, reader = owners_parser(self._groups), owners_reader(self._clock)
        elif name == steps.SOURCE:
            parser, reader = (
                steps.PARSER,
                steps_reader([simulated.reader for simulated in self._simulated.values()], self._clock),
            )
        elif name != parser.name:
            parser, reader = self._simulated[name].parser, self._simulated[name].reader
        readers = {poll.name: reader for poll in parser.polls}
        return Source(parser, readers, settings.source(name), no_bus, self._clock, self._on_capture)

    def pci_counts(self) -> dict[str, int]:
        """Return as many cards on the bus as are simulated, lost cards included."""
        return self._counts


@dataclass(frozen=True, slots=True)
class _JobsReader(Reader):
    """Answers the polls of a source about jobs; `data` creates the capture's data."""

    source: str
    clock: Clock
    data: Callable[[], Plain]

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # jobs are known without targets
        """Return the current data about jobs."""
        begun = time.thread_time()
        output = Output(poll.name, status=0, data=self.data())
        return Capture(
            self.source,
            poll.name,
            poll.request,
            (output,),
            cpu_seconds=time.thread_time() - begun,
            wall_time=self.clock.wall(),
            monotonic_time=self.clock.monotonic(),
        )


def owners_reader(clock: Clock) -> Reader:
    """Return a reader with empty captures: the parser knows the owners, which never change."""
    return _JobsReader(_SCHEDULER, clock, lambda: None)


def owners_parser(groups: Groups) -> SourceParser:
    """Return the parser that assigns owners to these cards."""
    claims = tuple(_claims(groups))
    return SourceParser(_SCHEDULER, "", (), (_CLAIMS,), lambda _: Report(claims=claims, form="data"))


def _claims(groups: Groups) -> Iterator[Claim]:
    position = 0
    for word, count in groups:
        for index in range(count):
            owners = _TURNS[position % len(_TURNS)]
            name = DeviceName(f"{PLAYED[word].word}{index}", "index", str(index), PLAYED[word].word)
            for number, owner in enumerate(owners):
                replica = str(number) if len(owners) > 1 else ""
                yield Claim(owner, (f"simulated:{owner.name}",), (name,), replica)
            position += 1


def steps_reader(readers: Sequence[SimulatedReader], clock: Clock) -> Reader:
    """Return a reader with a file for each card of a job that counts its steps: a slow card slows its whole job."""
    return _JobsReader(steps.SOURCE, clock, lambda: [file for reader in readers for file in reader.look(_step_files)])


def _step_files(course: Course, devices: Sequence[Device]) -> list[Plain]:
    """Return the files of each job that has links and all of its cards: without a card a job does not continue."""
    present = {card.position: card for card in course.present()}
    files: list[Plain] = []
    for card in present.values():
        job = card.job
        if job is not None and job.kind.links:
            of_job = [present.get(position) for position in job.cards]
            done = [other.work_done for other in of_job if other and other.job and other.job.pid == job.pid]
            if len(done) == len(of_job):
                files.append(_step_file(devices[card.position], card, job, int(min(done) / _STEP_SECONDS)))
    return files


def _step_file(device: Device, card: CardState, job: Job, count: int) -> Plain:
    peak = peak_of(card.model.model)
    flops = None if peak is None else peak.flops(_DTYPE)
    rank = job.cards.index(card.position)
    return {
        "file": f"{job.pid}-{rank}.json",
        "uid": 1000,
        "schema": steps.SCHEMA,
        "job_id": str(job.pid),
        "rank": rank,
        "card": {"uuid": device.uuid},
        "steps": count,
        "tokens": count * _TOKENS,
        "flops": None if flops is None else count * flops * _SHARE_OF_PEAK * _STEP_SECONDS,
        "seconds": dict(_seconds(card, job)),
    }


def _seconds(card: CardState, job: Job) -> Iterator[tuple[str, float]]:
    communication = card.busy_seconds * _COMMUNICATION * job.kind.links
    yield "compute", round(card.busy_seconds - communication, 3)
    yield "communication", round(communication, 3)
    yield "data", round(max(0.0, card.now - job.begins - card.busy_seconds), 3)
