"""The simulated node of `--demo`: its devices come from the simulator, the host's readings from this machine."""

from __future__ import annotations

from collections.abc import Iterable

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import Loaded
from telemetry_daemon.polling.node import Node, no_bus, no_capture
from telemetry_daemon.polling.source import OnCapture, Source
from telemetry_daemon.readers.base import Reader
from telemetry_daemon.readers.host import HostReader
from telemetry_daemon.simulate.demo import DemoError, by_vendor, parse_demo
from telemetry_daemon.simulate.owners import SOURCE, SimulatedOwners
from telemetry_daemon.simulate.owners import parser as owners_parser
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.simulate.steps import SimulatedSteps
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_parsers import host, steps
from telemetry_parsers.contract import Parser


class DemoNode(Node):
    """Simulated sources that take the place of this machine's."""

    def __init__(self, text: str, clock: Clock, on_capture: OnCapture = no_capture) -> None:
        try:
            groups = parse_demo(text)
        except DemoError as error:
            raise CommandError(str(error)) from None
        super().__init__(Loaded(), clock)
        self._on_capture = on_capture
        self._simulated = {item.parser.name: item for item in simulated_sources(groups)}
        self._groups = groups
        self._counts = by_vendor(groups)

    def names(self) -> tuple[str, ...]:
        """The names of the simulated sources, and the host's."""
        return (*self._simulated, host.PARSER.name)

    def sources(self, settings: Settings, only: Iterable[str] = ()) -> list[Source]:
        """All sources, with those that tell owners and steps where that is switched on."""
        owners = (SOURCE,) if settings.attribution.enabled and not only else ()
        of_steps = (steps.SOURCE,) if settings.steps.enabled and not only else ()
        return super().sources(settings, (*(only or self.names()), *owners, *of_steps))

    def source(self, name: str, settings: Settings) -> Source:
        """One source anew."""
        parser: Parser = host.PARSER
        reader: Reader = HostReader()
        if name == SOURCE:
            parser, reader = owners_parser(self._groups), SimulatedOwners(self._clock)
        elif name == steps.SOURCE:
            parser, reader = steps.PARSER, SimulatedSteps([one.reader for one in self._simulated.values()], self._clock)
        elif name != parser.name:
            parser, reader = self._simulated[name].parser, self._simulated[name].reader
        readers = {poll.name: reader for poll in parser.polls}
        return Source(parser, readers, settings.source(name), no_bus, self._clock, self._on_capture)

    def pci_counts(self) -> dict[str, int]:
        """As many cards on the bus as are simulated, the lost ones included."""
        return self._counts
