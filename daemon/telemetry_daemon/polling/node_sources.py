"""The sources of this machine: each parser with the readers for its polls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import Loaded, LoadedParser
from telemetry_daemon.polling.pci_bus import PciBus, PciView
from telemetry_daemon.polling.source import OnCapture, Source
from telemetry_daemon.processes.targets import load
from telemetry_daemon.processes.worker import Worker
from telemetry_daemon.readers.base import Reader
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_daemon.times import Clock
from telemetry_parsers.codec.worker_wire import checked_readout, own_readout
from telemetry_parsers.contract import Parser, SourceParser
from telemetry_parsers.model import Capture, Command, Library, Metric, Poll, Report
from telemetry_parsers.recorded import Recorded

if TYPE_CHECKING:  # commands run without them
    from telemetry_daemon.remote.control_socket import Verb
    from telemetry_daemon.state.history import History
    from telemetry_daemon.state.store import Store

SYS_PCI = Path("/sys/bus/pci/devices")
# These readers do not hang or crash, or limit themselves; a worker would only cost memory.
_IN_PROCESS = {
    "host": "telemetry_daemon.readers.host:reader",
    "kubelet": "telemetry_daemon.readers.kubelet:reader",
    "proc": "telemetry_daemon.readers.proc:reader",
    "jobs": "telemetry_daemon.readers.jobs.reader:reader",
    "steps": "telemetry_daemon.readers.steps:reader",
}
# With owners on, processes are listed this often, so that a process on another owner's card is seen while it runs.
_PROCESSES, _PROCESSES_SECONDS = "processes", 10.0
_OF_OWNERS = frozenset({"kubelet", "proc", "jobs"})
_STEPS = "steps"


_PLAYS_NOTHING = "this daemon plays no recording; start one with `telemetry serve --replay FILE`"


def no_capture(_capture: Capture, _report: Report | None) -> None:
    """Keep nothing."""


def no_bus(_vendor: str) -> PciView:
    """Return no device: simulations and recordings have no PCI bus."""
    return PciView()


class Node(ABC):
    """The origin of the service's sources: this machine, the simulator or a recording."""

    # When and where the recording was made, for a recording.
    recorded: Callable[[], Recorded] | None = None

    def __init__(self, loaded: Loaded, clock: Clock) -> None:
        self._loaded = loaded
        self._clock = clock

    @property
    def clock(self) -> Clock:
        """Return the clock of the data. The clock of a recording may be faster, stopped, or in the past."""
        return self._clock

    def play(self, store: Store, history: History, sources: Sequence[Source] = ()) -> None:  # noqa: B027 # most nodes only have polls
        """Start to supply data besides polls, before these sources are polled."""

    def verbs(self) -> Mapping[str, Verb]:
        """Return the operators' requests that only this kind of node has."""
        from telemetry_daemon.remote import control_requests
        from telemetry_daemon.remote.control_socket import Verb  # imports asyncio, which only the daemon has loaded

        return {"replay": Verb(control_requests.Replay, lambda _: {"error": _PLAYS_NOTHING})}

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Return the names of all sources."""

    @abstractmethod
    def source(self, name: str, settings: Settings) -> Source:
        """Return a new source of that name, with new readers."""

    def sources(self, settings: Settings, only: Iterable[str] = ()) -> list[Source]:
        """Return all sources with these settings, or only the named sources."""
        return [self.source(name, settings) for name in only or self.names()]

    def failures(self) -> tuple[str, ...]:
        """Return the plugins that could not be loaded."""
        return tuple(failure.plugin for failure in self._loaded.failures)

    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics that plugins declare."""
        return self._loaded.metrics

    def pci_counts(self) -> dict[str, int]:
        """Return the number of accelerators on the PCI bus by vendor."""
        return {}

    def close(self) -> None:
        """Stop the workers of plugins."""
        self._loaded.close()


class RealNode(Node):
    """This machine, read by all installed parsers."""

    def __init__(
        self, loaded: Loaded, clock: Clock, on_capture: OnCapture = no_capture, pci_root: Path = SYS_PCI
    ) -> None:
        super().__init__(loaded, clock)
        self._on_capture = on_capture
        self._bus = PciBus(pci_root, clock.monotonic)
        self._by_name = {item.parser.name: item for item in loaded.parsers}
        # A recreated source keeps its worker: while a worker is stuck, no second worker may run.
        self._workers: dict[str, Worker] = {}

    def names(self) -> tuple[str, ...]:
        """Return the names of all sources."""
        return tuple(self._by_name)

    def sources(self, settings: Settings, only: Iterable[str] = ()) -> list[Source]:
        """Return all sources with these settings, or only the named ones; sources of owners and steps only if enabled."""
        named = only or [name for name, item in self._by_name.items() if _is_on(item.parser, settings)]
        return super().sources(settings, named)

    def source(self, name: str, settings: Settings) -> Source:
        """Return a new source with new readers."""
        item = self._by_name[name]
        parser = _with_processes_often(item.parser) if settings.attribution.enabled else item.parser
        of_source = settings.source(name)
        readers_by_kind: dict[object, Reader] = {}

        def reader(poll: Poll) -> Reader:
            kind = _library(poll) if _library(poll) in _IN_PROCESS else type(poll.request)
            if kind not in readers_by_kind:
                readers_by_kind[kind] = self._make(kind, item, of_source.path, settings)
            return readers_by_kind[kind]

        readers = {poll.name: reader(poll) for poll in parser.polls}
        worker = item.worker
        cpu = (lambda: worker.cpu_seconds) if worker is not None else (lambda: 0.0)
        return Source(parser, readers, of_source, self._bus.view, self._clock, self._on_capture, cpu)

    def pci_counts(self) -> dict[str, int]:
        """Return the number of accelerators on the PCI bus by vendor."""
        return self._bus.counts()

    def _make(self, kind: object, item: LoadedParser, path: str, settings: Settings) -> Reader:
        name = item.parser.name
        if kind is Command:
            return CommandReader(name, Path(settings.state.runtime_directory) / "locks", path)
        if isinstance(kind, str):
            made: Reader = load(_IN_PROCESS[kind])(path, settings.steps if kind == _STEPS else settings.attribution)
            return made
        if name not in self._workers:
            self._workers[name] = item.worker or Worker(name, self._loaded.readers)
        readout_in = checked_readout if item.isolated else own_readout
        return WorkerReader(name, self._workers[name], path or "/", readout_in=readout_in)


def _library(poll: Poll) -> str:
    return poll.request.reader if isinstance(poll.request, Library) else ""


def _with_processes_often(parser: Parser) -> Parser:
    polls = tuple(
        replace(poll, interval=min(poll.interval, _PROCESSES_SECONDS)) if poll.name == _PROCESSES else poll
        for poll in parser.polls
    )
    return SourceParser(parser.name, parser.vendor, parser.gives, polls, parser.parse, parser.metrics)


def reports_owners(parser: Parser) -> bool:
    """Return whether a source reports owners or jobs' progress, which is polled only if enabled."""
    return any(_library(poll) in {*_OF_OWNERS, _STEPS} for poll in parser.polls)


def _is_on(parser: Parser, settings: Settings) -> bool:
    if any(_library(poll) == _STEPS for poll in parser.polls):
        return settings.steps.enabled
    return settings.attribution.enabled or not reports_owners(parser)
