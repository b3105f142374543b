"""Creates the sources of this machine: each parser with the readers for its polls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import LoadedParser, ParserSet
from telemetry_daemon.polling.pci_bus import PciBus, PciView
from telemetry_daemon.polling.source import OnCapture, Source
from telemetry_daemon.processes.targets import load_target
from telemetry_daemon.processes.worker import Worker
from telemetry_daemon.readers.base import Reader
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_daemon.times import Clock
from telemetry_parsers.codec.worker_wire import decode_checked_result, decode_trusted_result
from telemetry_parsers.contract import Parser, SourceParser
from telemetry_parsers.model import Capture, Command, Library, Metric, Poll, Report
from telemetry_parsers.replay_info import ReplayInfo

if TYPE_CHECKING:  # not imported by commands that poll once
    from telemetry_daemon.remote.control_socket import Handler
    from telemetry_daemon.state.history import History
    from telemetry_daemon.state.store import Store

SYS_PCI = Path("/sys/bus/pci/devices")
# These readers neither hang nor crash, so they need no worker.
_IN_PROCESS_READERS = {
    "host": "telemetry_daemon.readers.host:create_reader",
    "kubelet": "telemetry_daemon.readers.kubelet:create_reader",
    "proc": "telemetry_daemon.readers.proc:create_reader",
    "jobs": "telemetry_daemon.readers.jobs.reader:create_reader",
    "steps": "telemetry_daemon.readers.steps:create_reader",
}
# The maximum interval of process polls if owners are reported, because a process may run only briefly.
_PROCESSES_POLL, _PROCESSES_SECONDS = "processes", 10.0
_OWNER_READERS = frozenset({"kubelet", "proc", "jobs"})
_STEPS = "steps"
_NOT_REPLAYING = "this daemon does not replay a recording; start one with `telemetry serve --replay FILE`"


def ignore_capture(_capture: Capture, _report: Report | None) -> None:
    """Ignore the capture and its report."""


def empty_pci_view(_vendor: str) -> PciView:
    """Return a view without devices, for simulations and recordings."""
    return PciView()


class Node(ABC):
    """Base class of the real node, simulated nodes and recorded nodes."""

    # For a recorded node, returns the node and time of the recording.
    replay_info: Callable[[], ReplayInfo] | None = None

    def __init__(self, parser_set: ParserSet, clock: Clock) -> None:
        self._parser_set = parser_set
        self._clock = clock

    @property
    def clock(self) -> Clock:
        """Return the clock for timestamps. For a recording, it shows the recorded time."""
        return self._clock

    def start_filling(self, store: Store, history: History, sources: Sequence[Source] = ()) -> None:  # noqa: B027 # only simulated and recorded nodes override it
        """Start adding recorded or simulated data to the store and the history."""

    def handlers(self) -> Mapping[str, Handler]:
        """Map this node's control requests to their handlers."""
        from telemetry_daemon.remote import control_requests
        from telemetry_daemon.remote.control_socket import Handler  # imports asyncio, which only the daemon needs

        return {"replay": Handler(control_requests.ReplayRequest, lambda _: {"error": _NOT_REPLAYING})}

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Return the names of all sources."""

    @abstractmethod
    def source(self, name: str, settings: Settings) -> Source:
        """Return a new source of that name, with new readers."""

    def sources(self, settings: Settings, only: Iterable[str] = ()) -> list[Source]:
        """Return all sources, or only those in `only`."""
        return [self.source(name, settings) for name in only or self.names()]

    def failed_plugins(self) -> tuple[str, ...]:
        """Return the names of the plugins that could not be loaded."""
        return tuple(failure.plugin for failure in self._parser_set.failures)

    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics that plugins declare."""
        return self._parser_set.metrics

    def pci_counts(self) -> dict[str, int]:
        """Count the accelerators on the PCI bus by vendor."""
        return {}

    def close(self) -> None:
        """Stop the plugin workers."""
        self._parser_set.close()


class RealNode(Node):
    """This machine, with the sources of all installed parsers."""

    def __init__(
        self, parser_set: ParserSet, clock: Clock, on_capture: OnCapture = ignore_capture, pci_root: Path = SYS_PCI
    ) -> None:
        super().__init__(parser_set, clock)
        self._on_capture = on_capture
        self._bus = PciBus(pci_root, clock.monotonic)
        self._parsers_by_name = {loaded_parser.parser.name: loaded_parser for loaded_parser in parser_set.parsers}
        # A source that is created again keeps its worker, which may still be stuck.
        self._workers_by_name: dict[str, Worker] = {}

    def names(self) -> tuple[str, ...]:
        """Return the names of all sources."""
        return tuple(self._parsers_by_name)

    def sources(self, settings: Settings, only: Iterable[str] = ()) -> list[Source]:
        """Return all enabled sources, or only those in `only`."""
        names = only or [name for name, loaded in self._parsers_by_name.items() if _is_enabled(loaded.parser, settings)]
        return super().sources(settings, names)

    def source(self, name: str, settings: Settings) -> Source:
        """Return a new source with new readers."""
        loaded = self._parsers_by_name[name]
        parser = _with_frequent_process_polls(loaded.parser) if settings.attribution.enabled else loaded.parser
        source_settings = settings.source(name)
        readers_by_key: dict[object, Reader] = {}

        def reader_for(poll: Poll) -> Reader:
            key = _reader_name(poll) if _reader_name(poll) in _IN_PROCESS_READERS else type(poll.request)
            if key not in readers_by_key:
                readers_by_key[key] = self._create_reader(key, loaded, source_settings.path, settings)
            return readers_by_key[key]

        readers = {poll.name: reader_for(poll) for poll in parser.polls}
        worker = loaded.worker
        cpu_seconds = (lambda: worker.cpu_seconds) if worker is not None else (lambda: 0.0)
        return Source(parser, readers, source_settings, self._bus.view, self._clock, self._on_capture, cpu_seconds)

    def pci_counts(self) -> dict[str, int]:
        """Count the accelerators on the PCI bus by vendor."""
        return self._bus.count_by_vendor()

    def _create_reader(self, reader_key: object, loaded_parser: LoadedParser, path: str, settings: Settings) -> Reader:
        name = loaded_parser.parser.name
        if reader_key is Command:
            return CommandReader(name, Path(settings.state.runtime_directory) / "locks", path)
        if isinstance(reader_key, str):
            create_reader = load_target(_IN_PROCESS_READERS[reader_key])
            reader: Reader = create_reader(path, settings.steps if reader_key == _STEPS else settings.attribution)
            return reader
        if name not in self._workers_by_name:
            self._workers_by_name[name] = loaded_parser.worker or Worker(name, self._parser_set.readers)
        decode_result = decode_checked_result if loaded_parser.is_isolated else decode_trusted_result
        return WorkerReader(name, self._workers_by_name[name], path or "/", decode_result=decode_result)


def _reader_name(poll: Poll) -> str:
    return poll.request.reader if isinstance(poll.request, Library) else ""


def _with_frequent_process_polls(parser: Parser) -> Parser:
    polls = tuple(
        replace(poll, interval=min(poll.interval, _PROCESSES_SECONDS)) if poll.name == _PROCESSES_POLL else poll
        for poll in parser.polls
    )
    return SourceParser(parser.name, parser.vendor, parser.gives, polls, parser.parse, parser.metrics)


def reports_owners(parser: Parser) -> bool:
    """Return whether the parser's source reports owners of devices, or the progress of jobs."""
    return any(_reader_name(poll) in {*_OWNER_READERS, _STEPS} for poll in parser.polls)


def _is_enabled(parser: Parser, settings: Settings) -> bool:
    if any(_reader_name(poll) == _STEPS for poll in parser.polls):
        return settings.steps.enabled
    return settings.attribution.enabled or not reports_owners(parser)
