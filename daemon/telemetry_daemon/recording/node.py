"""The node of `--replay`: every recorded source, answered from the recording and read by its own parser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.node import Node, no_bus, no_capture
from telemetry_daemon.plugins.loading import Loaded
from telemetry_daemon.polling.source import Source
from telemetry_daemon.recording.replay import RecordingError, Replay, read_recording
from telemetry_daemon.simulate.source import simulated_parser
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import Parser, SourceParser


class ReplayNode(Node):
    """The sources of a recording that some installed parser reads."""

    def __init__(self, path: Path, loaded: Loaded, clock: Clock) -> None:
        super().__init__(loaded, clock)
        installed: dict[str, Parser] = {item.parser.name: item.parser for item in loaded.parsers}
        try:
            self._replay = Replay.of_file(path, clock)
            simulated = {capture.source: simulated_parser(capture) for capture in read_recording(path)}
        except RecordingError as error:
            raise CommandError(str(error)) from None
        self.recorded = self._replay.recorded
        self._parsers = {name: self._recorded_part(name, simulated, installed) for name in self._replay.sources}

    def _recorded_part(
        self, name: str, simulated: Mapping[str, Parser | None], installed: Mapping[str, Parser]
    ) -> Parser:
        """The source's parser with the polls that were recorded."""
        parser = simulated.get(name) or installed.get(name)
        if parser is None:
            raise CommandError(f"no parser for the recorded source '{name}'; install its plugin")
        recorded = self._replay.polls(name)
        polls = tuple(poll for poll in parser.polls if poll.name in recorded)
        return SourceParser(name, parser.vendor, parser.gives, polls, parser.parse, parser.metrics)

    def names(self) -> tuple[str, ...]:
        """The names of the recorded sources."""
        return tuple(self._parsers)

    def source(self, name: str, settings: Settings) -> Source:
        """The source made anew; it goes on at the recording's current place."""
        parser = self._parsers[name]
        reader = self._replay.reader(name)
        readers = {poll.name: reader for poll in parser.polls}
        return Source(parser, readers, settings.source(name), no_bus, self._clock, no_capture)
