"""The simulated node of `--demo`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import ParserSet
from telemetry_daemon.polling.node_sources import Node, empty_pci_view, ignore_capture
from telemetry_daemon.polling.source import OnCapture, Source
from telemetry_daemon.readers.base import Reader, Targets
from telemetry_daemon.readers.host import HostReader
from telemetry_daemon.simulate.demo import DemoError, counts_by_vendor, parse_demo, parse_faults
from telemetry_daemon.simulate.jobs import SCHEDULER, owners_parser, owners_reader, steps_reader
from telemetry_daemon.simulate.simulation import NO_FAULTS, SOME_FAULTS
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.state.health import SourceFacts
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_parsers import host, steps
from telemetry_parsers.contract import Parser
from telemetry_parsers.past import SLOT_SECONDS, SLOTS

if TYPE_CHECKING:  # not for `telemetry snapshot --demo`, which needs no history
    from telemetry_daemon.state.history import History
    from telemetry_daemon.state.store import Store

PAST_SECONDS = SLOT_SECONDS * SLOTS
# In a simulated past, polling 8 cards every third slot takes half a second of CPU time. More cards are polled less often.
_MIN_SLOTS_PER_POLL, _MAX_SLOTS_PER_POLL, _CARDS_PER_SLOT = 3, 24, 5


class DemoNode(Node):
    """A node with simulated sources. Its clock starts `past_seconds` before the current time."""

    def __init__(
        self,
        text: str,
        clock: Clock,
        on_capture: OnCapture = ignore_capture,
        faults: str | None = None,
        past_seconds: float = 0.0,
    ) -> None:
        try:
            groups, staged_faults = parse_demo(text), parse_faults(faults or "")
        except DemoError as error:
            raise CommandError(str(error)) from None
        self._lag = past_seconds
        past_clock = Clock(
            lambda: clock.monotonic() - self._lag,
            lambda: clock.wall() - self._lag,
            clock.suspended_seconds,
        )
        super().__init__(ParserSet(), past_clock)
        self._on_capture = on_capture
        # A node with staged faults has no random faults.
        simulated = simulated_sources(
            groups,
            faults=NO_FAULTS if staged_faults else SOME_FAULTS,
            clock=past_clock,
            staged_faults=staged_faults,
            past_seconds=past_seconds,
        )
        self._simulated = {source.parser.name: source for source in simulated}
        self._count_by_vendor = counts_by_vendor(groups)

    def names(self) -> tuple[str, ...]:
        """Return the names of the simulated sources and of the host's source."""
        return (*self._simulated, host.PARSER.name)

    def sources(self, settings: Settings, only: Iterable[str] = ()) -> list[Source]:
        """Return the sources in `only`, or all enabled sources."""
        owners = (SCHEDULER,) if settings.attribution.enabled and not only else ()
        step_files = (steps.SOURCE,) if settings.steps.enabled and not only else ()
        return super().sources(settings, (*(only or self.names()), *owners, *step_files))

    def source(self, name: str, settings: Settings) -> Source:
        """Create the source with this name."""
        parser: Parser = host.PARSER
        reader: Reader = HostReader()
        readers = [simulated.reader for simulated in self._simulated.values()]
        if name == SCHEDULER:
            parser, reader = owners_parser(), owners_reader(readers, self._clock)
        elif name == steps.SOURCE:
            parser, reader = steps.PARSER, steps_reader(readers, self._clock)
        elif name != parser.name:
            parser, reader = self._simulated[name].parser, self._simulated[name].reader
        readers_by_poll = {poll.name: reader for poll in parser.polls}
        return Source(parser, readers_by_poll, settings.source(name), empty_pci_view, self._clock, self._on_capture)

    def start_filling(self, store: Store, history: History, sources: Sequence[Source] = ()) -> None:
        """Fill the store and the history with a simulated past, until the node's clock shows the current time."""
        simulated = [source for source in sources if source.name != host.PARSER.name]
        for source in simulated:
            store.add_source(SourceFacts.from_parser(source.parser), source.parser.metrics)
        polls = [(source, poll) for source in simulated for poll in source.parser.polls]
        card_count = sum(self._count_by_vendor.values())
        slots_per_poll = min(max(_MIN_SLOTS_PER_POLL, card_count // _CARDS_PER_SLOT), _MAX_SLOTS_PER_POLL)
        for slots_left in range(int(self._lag / SLOT_SECONDS), 0, -1):
            self._lag = SLOT_SECONDS * slots_left
            for source, poll in polls:
                if slots_left == 1 or (
                    slots_left % slots_per_poll == 0 and (poll.lists_devices or not source.parser.vendor)
                ):
                    outcome = source.run_poll(poll, Targets())
                    interval = SLOT_SECONDS * slots_per_poll
                    store.put(source.name, poll, outcome.capture, outcome.report, outcome.result, interval)
            history.end_slots(store.snapshot)
        self._lag = 0.0

    def pci_counts(self) -> dict[str, int]:
        """Return the number of simulated cards by vendor, including lost cards."""
        return self._count_by_vendor
