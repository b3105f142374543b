"""Records captures in the flight recorder, and sends them to commands."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.guarded.gzip_reader import GZIP, zlib
from telemetry_daemon.recordings.alarms import Alarm, AlarmDetector, FlightFilePolicy, Severity
from telemetry_daemon.recordings.flight_recorder import FlightFileWriter, FlightRecorder
from telemetry_daemon.recordings.last_minutes import CaptureFeed, CaptureLine, RecentCaptures
from telemetry_daemon.remote import control_requests
from telemetry_daemon.remote.control_socket import StreamHandler
from telemetry_daemon.state import flights
from telemetry_daemon.state.flights import FlightFile
from telemetry_daemon.times import Clock
from telemetry_parsers.dataclass import dataclass, replace

log = logging.getLogger(__name__)

# If more bytes than this wait for a slow command, captures are dropped and counted.
_MAX_WAITING_BYTES = 16 << 20
_CHECK_SECONDS = 0.05
# After a reload, files that are being written have this much time to finish.
_LAST_FILE_SECONDS = 6.0


class BeginRound(Protocol):
    """Starts a round, in which each poll runs once."""

    def __call__(self, *, poll_now: bool) -> Callable[[], bool]:
        """Start a round, and return a function that checks whether it has ended."""


@dataclass(frozen=True, slots=True)
class _EnabledRecorder:
    recent_captures: RecentCaptures
    flight_recorder: FlightRecorder


class CaptureService:
    """Records captures if configured, or while a command requests them."""

    def __init__(
        self,
        capture_feed: CaptureFeed,
        clock: Clock,
        begin_round: BeginRound,
        is_in_maintenance: Callable[[], bool] = lambda: False,
    ) -> None:
        self._capture_feed = capture_feed
        self._clock = clock
        self._begin_round = begin_round
        self._is_in_maintenance = is_in_maintenance
        self._recorder: _EnabledRecorder | None = None
        self._state_directory = ""
        self._flights: tuple[FlightFile, ...] = ()
        self.alarm_detector = AlarmDetector(self._on_alarm, clock.monotonic)
        self.handlers = {"captures": StreamHandler(control_requests.CapturesRequest, self._send_captures)}

    def configure(self, settings: Settings) -> None:
        """Enable or disable the flight recorder."""
        self._state_directory = settings.state.directory
        if not settings.flight_recorder.enabled:
            self.end(_LAST_FILE_SECONDS)
        elif self._recorder is None:
            self.update_flights()
            recent_captures = RecentCaptures()
            writer = FlightFileWriter(settings.state.directory, settings.parsers.paths)
            policy = FlightFilePolicy(self._clock.monotonic, self._flight_times())  # includes earlier daemons' files
            self._recorder = _EnabledRecorder(
                recent_captures, FlightRecorder(recent_captures, policy, partial(self._write, writer), self._clock)
            )
            self._capture_feed.add_listener(recent_captures.add, lambda: None)

    def end(self, timeout_seconds: float) -> None:
        """Finish the recorder's files within the timeout, and disable the recorder."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            self._capture_feed.remove_listener(recorder.recent_captures.add)
            recorder.flight_recorder.end(timeout_seconds)

    def flights(self) -> tuple[FlightFile, ...]:
        """Return the recorder's files, newest first, as of the last `update_flights`."""
        return self._flights

    def update_flights(self) -> None:
        """Update the list that `flights` returns."""
        if not self._state_directory:
            return
        try:
            self._flights = flights.list_flights(self._state_directory)
        except OSError as error:
            self._flights = ()
            log.debug("the flight recorder's files cannot be listed", extra={"error": error})

    def _write(self, writer: FlightFileWriter, name: str, packed: Iterable[bytes], timeout_seconds: float) -> str:
        error_text = writer.write(name, packed, timeout_seconds)
        self.update_flights()
        return error_text

    def _flight_times(self) -> Iterator[float]:
        """Yield the monotonic times at which the files were written."""
        now, wall_time = self._clock.monotonic(), self._clock.wall()
        # If the clock was set back, a file from the future counts as new.
        return (now - max(0.0, wall_time - flight.wall_time) for flight in self._flights)

    def _on_alarm(self, alarm: Alarm) -> None:
        recorder = self._recorder
        if recorder is not None:
            limited_alarm = replace(alarm, severity=Severity.MINOR) if self._is_in_maintenance() else alarm
            recorder.flight_recorder.on_alarm(limited_alarm)

    async def _send_captures(
        self, request: control_requests.CapturesRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        queue = _CaptureQueue(asyncio.get_running_loop())
        read_earlier = partial(self._earlier_captures, includes_last_minutes=request.minutes_before)
        try:
            for packed in self._capture_feed.add_listener(queue.add, read_earlier) if request.live else read_earlier():
                writer.write(zlib.decompress(packed, GZIP))
                await writer.drain()
            if request.live:
                has_round_ended = self._begin_round(poll_now=self._recorder is None)
                await _send_until_disconnect(queue, has_round_ended, reader, writer)
        finally:
            self._capture_feed.remove_listener(queue.add)

    def _earlier_captures(self, *, includes_last_minutes: bool) -> Iterator[bytes]:
        recorder = self._recorder
        if recorder is None:
            return iter(())
        return recorder.recent_captures.packed() if includes_last_minutes else recorder.recent_captures.newest()


class _CaptureQueue:
    """A queue of captures to send, which drops captures beyond a limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting_bytes = 0
        self._dropped = 0

    def add(self, line: CaptureLine) -> None:
        """Queue a capture. Thread-safe."""
        self._loop.call_soon_threadsafe(self._enqueue, line.text)

    async def next(self) -> bytes:
        """Return the next line. A line about dropped captures may precede it."""
        text = await self._waiting.get()
        self._waiting_bytes -= len(text)
        dropped, self._dropped = self._dropped, 0
        return (
            f'{{"schema":"{control_requests.LOST_SCHEMA}","captures":{dropped}}}\n'.encode() + text if dropped else text
        )

    @property
    def is_empty(self) -> bool:
        return self._waiting.empty()

    def end_round(self) -> None:
        line = {"schema": control_requests.LOST_SCHEMA, "captures": 0, "round_ended": self._loop.time()}
        self._loop.call_soon(self._enqueue, json.dumps(line).encode() + b"\n")

    def _enqueue(self, text: bytes) -> None:
        if self._waiting_bytes + len(text) > _MAX_WAITING_BYTES:
            self._dropped += 1
            return
        self._waiting_bytes += len(text)
        self._waiting.put_nowait(text)


async def _send_until_disconnect(
    queue: _CaptureQueue,
    has_round_ended: Callable[[], bool],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Send lines until the client asks to stop or sending fails."""

    async def send_lines() -> None:
        while True:
            writer.write(await queue.next())
            await writer.drain()

    async def end_round() -> None:
        while not has_round_ended():  # noqa: ASYNC110  # polls end on other threads
            await asyncio.sleep(_CHECK_SECONDS)  # the loop serves other clients meanwhile
        queue.end_round()

    sending, disconnect = asyncio.create_task(send_lines()), asyncio.create_task(reader.read(1))
    round_end = asyncio.create_task(end_round())
    try:
        await asyncio.wait((sending, disconnect), return_when=asyncio.FIRST_COMPLETED)
    finally:
        tasks = (sending, disconnect, round_end)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    while not queue.is_empty:
        writer.write(await queue.next())
        await writer.drain()
