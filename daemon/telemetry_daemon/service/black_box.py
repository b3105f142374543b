"""The daemon's record of its sources' captures: the flight recorder, and live captures for commands on this node."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.guarded.packing import GZIP, zlib
from telemetry_daemon.recordings.alarms import Alarm, AlarmDetector, Bursts, Rank
from telemetry_daemon.recordings.flight_recorder import FlightRecorder, Writer
from telemetry_daemon.recordings.last_minutes import CaptureFeed, Line, RecentCaptures
from telemetry_daemon.remote import control_requests
from telemetry_daemon.remote.control_socket import Stream
from telemetry_daemon.state import flights
from telemetry_daemon.state.flights import Flight
from telemetry_daemon.times import Clock
from telemetry_parsers.dataclass import dataclass, replace

log = logging.getLogger(__name__)

# A command that reads its captures too slowly loses some, and receives the number of lost captures.
_MOST_WAITING_BYTES = 16 << 20
_LOOK_SECONDS = 0.05
# The time to finish a due file when the recorder is switched off: a reload does not wait longer.
_LAST_FILE_SECONDS = 6.0


class Round(Protocol):
    """Starts a round of all polls, and returns a function that reports whether it has ended."""

    def __call__(self, *, ask: bool) -> Callable[[], bool]:
        """If `ask`, run all polls now; else the round counts from the start of polling."""


@dataclass(frozen=True, slots=True)
class _Running:
    """The flight recorder while it is switched on."""

    ring: RecentCaptures
    recorder: FlightRecorder


class BlackBox:
    """Records the node's captures if configured, and while a command records. During maintenance, alarms are minor."""

    def __init__(
        self, tap: CaptureFeed, clock: Clock, begin_round: Round, in_maintenance: Callable[[], bool] = lambda: False
    ) -> None:
        self._tap = tap
        self._clock = clock
        self._begin_round = begin_round
        self._in_maintenance = in_maintenance
        self._running: _Running | None = None
        self._state_directory = ""
        self._flights: tuple[Flight, ...] = ()
        self.watch = AlarmDetector(self._alarm, clock.monotonic)
        self.verbs = {"captures": Stream(control_requests.Captures, self._send)}

    def configure(self, settings: Settings) -> None:
        """Switch the flight recorder on or off."""
        self._state_directory = settings.state.directory
        if not settings.flight_recorder.enabled:
            self.end(_LAST_FILE_SECONDS)
        elif self._running is None:
            self.look()
            ring = RecentCaptures()
            writer = Writer(settings.state.directory, settings.parsers.paths)
            bursts = Bursts(self._clock.monotonic, self._times())
            self._running = _Running(ring, FlightRecorder(ring, bursts, partial(self._write, writer), self._clock))
            self._tap.add_listener(ring.add, lambda: None)

    def end(self, seconds: float) -> None:
        """Stop recording, with this many seconds to finish writing."""
        running, self._running = self._running, None
        if running is not None:
            self._tap.remove_listener(running.ring.add)
            running.recorder.end(seconds)

    def flights(self) -> tuple[Flight, ...]:
        """Return the files as of the last look, newest first: a page does not wait for a disk."""
        return self._flights

    def look(self) -> None:
        """Look at the existing files."""
        if not self._state_directory:
            return
        try:
            self._flights = flights.kept(self._state_directory)
        except OSError as error:
            self._flights = ()
            log.debug("the flight recorder's files cannot be listed", extra={"error": error})

    def _write(self, writer: Writer, name: str, packed: Iterable[bytes], seconds: float) -> str:
        trouble = writer.write(name, packed, seconds)
        self.look()
        return trouble

    def _times(self) -> Iterator[float]:
        """Yield the monotonic times of the files, so that a repeatedly restarted daemon does not exceed the limit."""
        now, wall = self._clock.monotonic(), self._clock.wall()
        # After the clock was set back the age of a file is unknown: the file counts as new.
        return (now - max(0.0, wall - flight.wall_time) for flight in self._flights)

    def _alarm(self, alarm: Alarm) -> None:
        running = self._running
        if running is not None:
            running.recorder.on_alarm(replace(alarm, rank=Rank.MINOR) if self._in_maintenance() else alarm)

    async def _send(
        self, request: control_requests.Captures, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        received = _Received(asyncio.get_running_loop())
        before = partial(self._before, minutes=request.minutes_before)
        try:
            for packed in self._tap.add_listener(received.add, before) if request.live else before():
                writer.write(zlib.decompress(packed, GZIP))
                await writer.drain()
            if request.live:
                has_ended = self._begin_round(ask=self._running is None)
                await _until_either_ends(received, has_ended, reader, writer)
        finally:
            self._tap.remove_listener(received.add)

    def _before(self, *, minutes: bool) -> Iterator[bytes]:
        running = self._running
        if running is None:
            return iter(())
        return running.ring.packed() if minutes else running.ring.newest()


class _Received:
    """The lines that wait to be sent; lost lines are counted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting_bytes = 0
        self._lost = 0

    def add(self, line: Line) -> None:
        """Add a line, from any thread."""
        self._loop.call_soon_threadsafe(self._put, line.text)

    async def next(self) -> bytes:
        """Return the next line, preceded by the number of lines lost before it."""
        text = await self._waiting.get()
        self._waiting_bytes -= len(text)
        lost, self._lost = self._lost, 0
        return f'{{"schema":"{control_requests.LOST_SCHEMA}","captures":{lost}}}\n'.encode() + text if lost else text

    @property
    def is_empty(self) -> bool:
        """Return whether no line waits."""
        return self._waiting.empty()

    def end_round(self) -> None:
        """Send the time at which the round ended, after the lines so far."""
        ended = {"schema": control_requests.LOST_SCHEMA, "captures": 0, "round_ended": self._loop.time()}
        self._loop.call_soon(self._put, json.dumps(ended).encode() + b"\n")

    def _put(self, text: bytes) -> None:
        if self._waiting_bytes + len(text) > _MOST_WAITING_BYTES:
            self._lost += 1
            return
        self._waiting_bytes += len(text)
        self._waiting.put_nowait(text)


async def _until_either_ends(
    received: _Received, has_round_ended: Callable[[], bool], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send received lines until the client hangs up or sending fails, then the lines received until then."""

    async def send() -> None:
        while True:
            writer.write(await received.next())
            await writer.drain()

    async def end_round() -> None:
        while not has_round_ended():  # noqa: ASYNC110  # no event of this loop: polls end on threads of their own
            await asyncio.sleep(_LOOK_SECONDS)
        received.end_round()

    sending, hung_up = asyncio.create_task(send()), asyncio.create_task(reader.read(1))
    ending_round = asyncio.create_task(end_round())
    try:
        await asyncio.wait((sending, hung_up), return_when=asyncio.FIRST_COMPLETED)
    finally:
        tasks = (sending, hung_up, ending_round)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    while not received.is_empty:
        writer.write(await received.next())
        await writer.drain()
