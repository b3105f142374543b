"""`telemetry record`: records all captures of the sources, and masks identities in them."""

from __future__ import annotations

import argparse
import contextlib
import math
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.commands import options
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.masking.mask import Mask, local_names
from telemetry_daemon.plugins.loading import ParserSet, load_parsers
from telemetry_daemon.plugins.sources import find_parsers
from telemetry_daemon.polling import poll_intervals
from telemetry_daemon.polling.node_sources import RealNode
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.recordings.parsed_captures import CaptureParser
from telemetry_daemon.recordings.recorder import CaptureSink, DaemonCaptures, FirstResultGate, Recorder, RecordError
from telemetry_daemon.remote.control_socket import ControlError
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal import exits, log, streams
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import MAX_WAIT_SECONDS, Clock
from telemetry_exporters import human
from telemetry_parsers.model import Capture, Report

EXAMPLES = {
    "telemetry record -o node.jsonl.gz --for 60s": "Record a minute for a bug report.",
    "telemetry record -o node.jsonl.gz --before --for 10s": "Include the last two minutes, which the daemon has recorded.",
}

_RecordFunction = Callable[[ParserSet, Settings, argparse.Namespace, FirstResultGate, "_Progress"], None]

_STANDARD_OUTPUT = Path("-")
_PROGRESS_SECONDS = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="FILE",
        help="the file to write or replace, compressed if the name ends in .gz (default: -, which is standard output)",
    )
    parser.add_argument(
        "--for",
        dest="duration",
        type=options.parse_seconds_up_to_a_day,
        default=30.0,
        metavar="TIME",
        help="how long to record once every source has been polled, such as 60s or 5m (default: 30s)",
    )
    parser.add_argument("--before", action="store_true", help="include the last two minutes of the flight recorder")
    parser.add_argument(
        "--from",
        dest="origin",
        choices=("daemon", "tools"),
        help="read from the daemon or the tools (default: the daemon if it has the same settings, otherwise the tools)",
    )
    parser.add_argument(
        "--unmasked", action="store_true", help="do not replace serial numbers, UUIDs, addresses, names and passwords"
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write each capture as a line, and return the exit status."""
    exits.raise_on_signals()
    log.setup("error", "text")
    settings = options.load_settings(arguments)
    with load_parsers(find_parsers(settings.parsers.paths)) as parser_set:
        options.check_sections(arguments, settings, parser_set.polls)
        origin, record = _choose_origin(arguments)
        mask = None if arguments.unmasked else Mask(secrets.token_bytes(32), local_names())
        recorder = _open_recorder(arguments.output)
        try:
            with _showing_progress(recorder, mask, arguments, origin) as progress, recorder:
                gate = FirstResultGate(_make_masking_callback(recorder, mask, progress.show), CaptureParser(parser_set))
                record(parser_set, settings, arguments, gate, progress)
                _raise_if_nothing_recorded(gate)
        except RecordError as error:
            raise CommandError(str(error), status=exits.UNAVAILABLE) from None
    return exits.OK


def _open_recorder(output: Path | None) -> Recorder:
    if output is None or output == _STANDARD_OUTPUT:
        return Recorder(sys.stdout)
    try:
        return Recorder.to_file(output)
    except RecordError as error:
        raise CommandError(str(error)) from None


def _raise_if_nothing_recorded(gate: FirstResultGate) -> None:
    if gate.is_open:
        return
    if gate.failures:
        lines = (f"nothing was recorded: {source}: {text}" for source, text in gate.failures.items())
        raise CommandError(*lines, status=exits.PROBLEMS)
    text = "nothing was recorded: no tool, library or driver of an accelerator was found"
    raise CommandError(f"{text}; `telemetry doctor --all` shows the search paths", status=exits.NOTHING_FOUND)


def _make_masking_callback(recorder: Recorder, mask: Mask | None, show_progress: Callable[[], None]) -> CaptureSink:
    def record(capture: Capture, report: Report | None) -> None:
        masked_capture = (
            replace(capture, hostname=socket.gethostname()) if mask is None else mask.masked_capture(capture, report)
        )
        recorder.add(masked_capture)
        show_progress()

    return record


def _choose_origin(arguments: argparse.Namespace) -> tuple[str, _RecordFunction]:
    """Return the name of the origin (the daemon or the tools), and the function that records it."""
    from telemetry_daemon.commands.daemons import local_daemon_has_same_settings

    if arguments.origin == "daemon" or (arguments.origin is None and local_daemon_has_same_settings(arguments)):
        return "the daemon", _record_daemon
    if arguments.before:
        text = "--before needs a daemon with the same settings; use --from daemon to accept different settings"
        raise CommandError(f"{text}, or leave --before out")
    return "the tools", _record_tools


def _record_daemon(
    parser_set: ParserSet, settings: Settings, arguments: argparse.Namespace, gate: FirstResultGate, progress: _Progress
) -> None:
    capture_parser = CaptureParser(parser_set)
    start_time = time.monotonic()
    daemon = DaemonCaptures(
        settings.state.runtime_directory,
        arguments.duration,
        minutes_before=arguments.before,
        max_round_seconds=poll_intervals.max_round_seconds(
            (loaded_parser.parser, settings.source(loaded_parser.parser.name)) for loaded_parser in parser_set.parsers
        ),
        continues_after_round=lambda: progress.start_counting_time(gate),
    )
    capture_count = earlier_count = 0
    try:
        for capture in daemon.captures():
            gate(capture, capture_parser.parse(capture))
            capture_count += 1
            earlier_count += capture.monotonic_time < start_time
    except ControlError as error:
        raise CommandError(f"{error}; use --from tools to record without it", status=exits.UNAVAILABLE) from None
    if not capture_count:
        text = "the daemon polled no source during this time; if the daemon plays a recording, copy that file instead"
        raise CommandError(text, status=exits.UNAVAILABLE)
    if gate.is_open:
        _report_gaps(daemon, arguments, earlier_count)


def _report_gaps(daemon: DaemonCaptures, arguments: argparse.Namespace, earlier_count: int) -> None:
    if arguments.before and earlier_count:
        streams.say(f"{earlier_count} captures were recorded before the start of this command")
    elif arguments.before:
        reason = "the daemon's flight recorder is off (flight_recorder.enabled is false, or cards are simulated)"
        streams.say(f"no earlier captures: {reason}")
    if daemon.lost_count:
        streams.say(f"{daemon.lost_count} captures are missing, because this command was too slow")
    if (remaining_seconds := min(daemon.until - time.monotonic(), arguments.duration)) > MAX_WAIT_SECONDS:
        streams.say(f"the daemon stopped {human.seconds(round(remaining_seconds))} before the end of the recording")


def _record_tools(
    parser_set: ParserSet, settings: Settings, arguments: argparse.Namespace, gate: FirstResultGate, progress: _Progress
) -> None:
    failures: list[RecordError] = []
    has_failed = threading.Event()

    def record_or_stop(capture: Capture, report: Report | None) -> None:
        try:
            gate(capture, report)
        except RecordError as error:
            failures.append(error)
            has_failed.set()

    def wait(end_time: float, is_over: Callable[[], bool]) -> None:
        while not is_over() and (remaining_seconds := end_time - clock.monotonic()) > 0 and not has_failed.is_set():
            has_failed.wait(min(remaining_seconds, MAX_WAIT_SECONDS))

    clock = Clock()
    poller = Poller(Store("", clock), clock)
    try:
        poller.start(RealNode(parser_set, clock, record_or_stop).sources(settings))
        wait(math.inf, poller.begin_round(poll_now=False))
        if progress.start_counting_time(gate):
            wait(clock.monotonic() + arguments.duration, lambda: False)
    finally:
        poller.stop()
    if failures:
        raise failures[0]


class _Progress:
    def __init__(self, recorder: Recorder, duration_seconds: float) -> None:
        self._recorder = recorder
        self._duration_text = human.seconds(duration_seconds)
        self._first_round_end = math.inf
        self._next_time = self.start = time.monotonic()

    def start_counting_time(self, gate: FirstResultGate) -> bool:
        """Start to count the recorded time. Return whether any accelerator source has worked or failed."""
        self._first_round_end = time.monotonic()
        return gate.is_open or bool(gate.failures)

    def show(self) -> None:
        """Print the progress, at most twice a second."""
        if (now := time.monotonic()) >= self._next_time:
            self._next_time = now + _PROGRESS_SECONDS
            elapsed_text = human.seconds(round(max(0.0, now - self._first_round_end)))
            streams.show_progress(
                f"recording: {elapsed_text} of {self._duration_text}, {self._recorder.capture_count} captures"
            )


@contextlib.contextmanager
def _showing_progress(
    recorder: Recorder, mask: Mask | None, arguments: argparse.Namespace, origin: str
) -> Iterator[_Progress]:
    """Show the progress during the `with` block, and print a summary at its end."""
    progress = _Progress(recorder, arguments.duration)
    shows_summary = True
    try:
        yield progress
    except (RecordError, CommandError):  # if nothing was captured, only the error is shown
        shows_summary = recorder.has_captures
        raise
    finally:
        streams.show_progress("")
        elapsed_text = human.seconds(round(time.monotonic() - progress.start))
        if shows_summary:
            streams.say(_summary(recorder, mask, arguments.output, f"from {origin} in {elapsed_text}"))


def _summary(recorder: Recorder, mask: Mask | None, output: Path | None, origin_and_time: str) -> str:
    if not recorder.has_captures:
        return f"recorded nothing {origin_and_time}"
    size = recorder.size_bytes
    target = "" if size is None else f" to {output} ({human.byte_size(size)})"
    remark = (
        "nothing is masked: the recording contains data that identifies this node"
        if mask is None
        else f"{mask.value_count} identifying values were masked; check the recording before you send it"
    )
    return f"recorded {recorder.capture_count} captures of {recorder.source_count} sources {origin_and_time}{target}: {remark}"
