"""The node of `--replay`, which plays a recording through the installed parsers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import ParserSet
from telemetry_daemon.polling.node_sources import Node
from telemetry_daemon.polling.source import Source
from telemetry_daemon.recordings.parsed_captures import StoreFeed, abbreviated_names, parsers_by_source
from telemetry_daemon.recordings.playback import PlaybackControls, PlaybackOptions
from telemetry_daemon.recordings.playback_clock import FASTEST, SLOWEST, parse_speed
from telemetry_daemon.recordings.recording_file import RecordingError, RecordingFile
from telemetry_daemon.recordings.survey import RecordingTime, Survey, parse_time
from telemetry_daemon.terminal import streams
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_exporters.text import clean
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Plain

if TYPE_CHECKING:  # imported at run time only when needed
    from telemetry_daemon.remote import control_requests
    from telemetry_daemon.remote.control_socket import Handler
    from telemetry_daemon.state.history import History
    from telemetry_daemon.state.store import Store

log = logging.getLogger(__name__)
# The actions of `telemetry replay`, except for seeking.
_ACTIONS: Mapping[str, Callable[[PlaybackControls, str], None]] = {
    "pause": lambda controls, _: controls.pause(),
    "play": lambda controls, _: controls.resume(),
    "speed": lambda controls, value: controls.set_speed(parse_speed(value)),
    "status": lambda _controls, _value: None,
}


class ReplayNode(Node):
    """A node that replays the sources of a recording."""

    def __init__(
        self, path: Path, loaded: ParserSet, clock: Clock, options: PlaybackOptions, start: RecordingTime | None = None
    ) -> None:
        super().__init__(loaded, clock)
        file = RecordingFile(path)
        streams.show_progress(f"reading {clean(path.name)}")  # reading a day of a busy node takes half a minute
        try:
            self.survey = Survey.from_captures(file)
        except RecordingError as error:
            raise CommandError(str(error)) from None
        finally:
            streams.show_progress("")
        self.damage = tuple(f"{path}: {text}" for text in file.damage.lines())
        self._parsers = parsers_by_source(self.survey, loaded)
        position = start.position(self.survey) if start is not None else options.position
        self.controls = PlaybackControls(file, self.survey, replace(options, position=position))
        self.replay_info = self.controls.replay_info

    @property
    def clock(self) -> Clock:
        """Return the clock of the recording."""
        return self.controls.clock

    def names(self) -> tuple[str, ...]:
        """Return the names of the recorded sources."""
        return tuple(self._parsers)

    def parsers(self) -> tuple[Parser, ...]:
        """Return the parsers of the recorded sources."""
        return tuple(self._parsers.values())

    def warnings(self) -> tuple[str, ...]:
        """Return a warning for each part of the recording that is not played."""
        unparsed_names = abbreviated_names(sorted(self.survey.examples.keys() - self._parsers.keys()))
        text = f"no installed parser reads the recorded {unparsed_names}: install its plugin"
        return (*self.damage, text) if unparsed_names else self.damage

    def source(self, name: str, settings: Settings) -> Source:  # noqa: ARG002  # same signature as in Node
        """Raise CommandError, because a replay polls no source."""
        raise CommandError(f"'{name}' is a recorded source, which is not polled")

    def sources(self, settings: Settings, only: object = ()) -> list[Source]:  # noqa: ARG002  # same signature as in Node
        """Return no sources, because a replay polls no source."""
        return []

    def start_filling(self, store: Store, history: History, sources: Sequence[Source] = ()) -> None:  # noqa: ARG002  # a replay has no sources
        """Start to play the recording into the store."""
        for warning in self.warnings():
            log.warning("a part of the recording is not played", extra={"detail": warning})
        self.controls.start(store, self._create_feed(store, self._parsers), history)

    def fill(self, store: Store, history: History, only: Collection[str] = ()) -> None:
        """Fill the store with the state of the sources in `only`, or of all. Raise CommandError if it is unusable."""
        parsers = {name: parser for name, parser in self._parsers.items() if not only or name in only}
        try:
            self.controls.fill(store, self._create_feed(store, parsers), history)
        except RecordingError as error:
            raise CommandError(str(error)) from None

    def _create_feed(self, store: Store, parsers: Mapping[str, Parser]) -> StoreFeed:
        return StoreFeed(store, self.clock, parsers, self.survey.intervals())

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of requests from `telemetry replay`, by kind of request."""
        from telemetry_daemon.remote import control_requests
        from telemetry_daemon.remote.control_socket import Handler  # imports asyncio, which only the daemon needs

        return {"replay": Handler(control_requests.ReplayRequest, self._handle_request)}

    def _handle_request(self, request: control_requests.ReplayRequest) -> Mapping[str, Plain]:
        controls = self.controls
        try:
            if request.action == "seek":
                controls.seek(parse_time(request.value).position(self.survey))
            elif request.action in _ACTIONS:
                _ACTIONS[request.action](controls, request.value)
            else:
                raise CommandError(f"'{clean(request.action)}' is unknown; write seek, {', '.join(_ACTIONS)}")
        except (CommandError, ValueError) as error:
            return {"error": str(error)}
        position = controls.position
        return {  # the fields of control_requests.ReplayState
            "place": position,
            "length": self.survey.length,
            "shown": controls.wall_time(position),
            "how": controls.state_text(),
        }

    def press(self, key: str) -> bool:
        """Perform a key's action, and return whether the key has an action."""
        action = _KEY_ACTIONS.get(key)
        if action is not None:
            action(self.controls)
        return action is not None

    def close(self) -> None:
        """End the playback."""
        self.controls.close()
        super().close()


def _seek_by(offset_seconds: float) -> Callable[[PlaybackControls], None]:
    return lambda controls: controls.seek(controls.position + offset_seconds)


def _change_speed(factor: float) -> Callable[[PlaybackControls], None]:
    return lambda controls: controls.set_speed(min(FASTEST, max(SLOWEST, controls.speed * factor)))


# The help view of `telemetry top` lists these keys.
_KEY_ACTIONS: Mapping[str, Callable[[PlaybackControls], None]] = {
    " ": PlaybackControls.toggle,
    "p": PlaybackControls.toggle,
    ",": _seek_by(-10.0),
    ".": _seek_by(10.0),
    "{": _seek_by(-60.0),
    "}": _seek_by(60.0),
    "-": _change_speed(0.5),
    "+": _change_speed(2.0),
}
