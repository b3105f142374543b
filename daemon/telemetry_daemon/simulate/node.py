"""The simulated node of `--demo`: its devices come from the simulator, the host's readings from this machine."""

from __future__ import annotations

from telemetry_daemon.config.settings import Settings, SourceSettings
from telemetry_daemon.node import no_capture
from telemetry_daemon.polling.source import PciView, Source
from telemetry_daemon.readers.host import HostReader
from telemetry_daemon.simulate.demo import DemoError, parse_demo
from telemetry_daemon.simulate.source import SimulatedSource, simulated_sources
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_parsers import host
from telemetry_parsers.model import Metric


class DemoNode:
    """Simulated sources that take the place of this machine's."""

    def __init__(self, text: str, clock: Clock) -> None:
        try:
            node = parse_demo(text)
        except DemoError as error:
            raise CommandError(str(error)) from None
        self._clock = clock
        self._simulated = {item.parser.name: item for item in simulated_sources(node)}
        self._counts = dict(node.groups)

    def names(self) -> tuple[str, ...]:
        """The names of the simulated sources, and the host's."""
        return (*self._simulated, host.PARSER.name)

    def sources(self, settings: Settings) -> list[Source]:
        """The simulated sources and the host."""
        return [self.source(name, settings) for name in self.names()]

    def source(self, name: str, settings: Settings) -> Source:
        """One source anew."""
        of_source = settings.source(name)
        if name == host.PARSER.name:
            readers = {poll.name: HostReader() for poll in host.PARSER.polls}
            return Source(host.PARSER, readers, of_source, _no_bus, self._clock, no_capture)
        return self._source(self._simulated[name], of_source)

    def failures(self) -> tuple[str, ...]:
        """No plugins are used."""
        return ()

    def metrics(self) -> tuple[Metric, ...]:
        """No plugins are used."""
        return ()

    def pci_counts(self) -> dict[str, int]:
        """As many cards on the bus as are simulated, the lost ones included."""
        return self._counts

    def close(self) -> None:
        """Nothing is shared."""

    def _source(self, simulated: SimulatedSource, settings: SourceSettings) -> Source:
        readers = {poll.name: simulated.reader for poll in simulated.parser.polls}
        return Source(simulated.parser, readers, settings, _no_bus, self._clock, no_capture)


def _no_bus(_vendor: str) -> PciView:
    return PciView()
