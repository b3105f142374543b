"""`telemetry record`: keep everything that is read, with stand-ins for what identifies the node."""

from __future__ import annotations

import argparse
import contextlib
import platform
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.commands import durations, endings, options
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.control.socket import ControlError
from telemetry_daemon.masking.local_names import names_here
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.node import RealNode
from telemetry_daemon.plugins.loading import Loaded, load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.recording.from_daemon import FromDaemon
from telemetry_daemon.recording.record import Recorder, RecordError
from telemetry_daemon.replay.reports import Reports
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal import exits, log, waiting
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import LONGEST_WAIT_SECONDS, Clock
from telemetry_exporters import human
from telemetry_parsers.model import Capture, Report

# Takes a capture, and its parser's report.
_Keep = Callable[[Capture, Report | None], None]
_Record = Callable[[Loaded, Settings, argparse.Namespace, _Keep], None]

_STANDARD_OUTPUT = Path("-")
_PROGRESS_SECONDS = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    """Where to, for how long, whom to ask, and whether masked."""
    parser.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="FILE",
        help=(
            "where to write it, in place of an earlier recording; packed with gzip if its name ends in .gz; "
            "- is standard output (default: standard output)"
        ),
    )
    parser.add_argument(
        "--for",
        dest="duration",
        type=durations.up_to_a_day,
        default=30.0,
        metavar="TIME",
        help="how long to record, such as 60s or 5m (default: 30s)",
    )
    parser.add_argument(
        "--before",
        action="store_true",
        help="begin with the two minutes that the daemon's flight recorder has",
    )
    parser.add_argument(
        "--from",
        dest="origin",
        choices=("daemon", "tools"),
        help="whom to ask (default: the running daemon if it reads the same, so that nothing is polled twice, else the tools)",
    )
    parser.add_argument(
        "--unmasked", action="store_true", help="keep serial numbers, UUIDs, addresses, names and passwords as they are"
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write each capture as a line, of the daemon or of polls of our own."""
    endings.end_tools_first()
    log.setup("error", "text")
    settings = options.settings(arguments)
    with load(find(settings.parsers.paths)) as loaded:
        options.check_names(arguments, settings, loaded.polls)
        whom, record = _way(arguments)
        mask = None if arguments.unmasked else Mask(secrets.token_bytes(32), names_here())
        recorder = _recorder(arguments.output)
        try:
            with _told(recorder, mask, arguments, whom) as tell, recorder:
                record(loaded, settings, arguments, _kept(recorder, mask, tell))
        except RecordError as error:
            raise CommandError(str(error), status=exits.UNAVAILABLE) from None
    return exits.OK


def _recorder(output: Path | None) -> Recorder:
    """Where to record to. Raises CommandError."""
    if output is None or output == _STANDARD_OUTPUT:
        return Recorder(sys.stdout)
    try:
        return Recorder.to_file(output)
    except RecordError as error:
        raise CommandError(str(error)) from None


def _kept(recorder: Recorder, mask: Mask | None, tell: Callable[[], None]) -> _Keep:
    """Writes a capture as it is to be kept. Raises RecordError."""

    def keep(capture: Capture, report: Report | None) -> None:
        masked = replace(capture, hostname=platform.node()) if mask is None else mask.capture(capture, report)
        recorder.add(masked)
        tell()

    return keep


def _way(arguments: argparse.Namespace) -> tuple[str, _Record]:
    """Whom to record from, and how; an earlier recording is still there when this is refused. Raises CommandError."""
    if arguments.origin == "daemon" or (arguments.origin is None and _daemon_may_tell(arguments)):
        return "the daemon", _record_daemon
    if arguments.before:
        text = "--before needs a running daemon that reads the same, which keeps the minutes before; ask another one with --from daemon"
        raise CommandError(f"{text}, or leave --before out")
    return "the tools", _record_tools


def _daemon_may_tell(arguments: argparse.Namespace) -> bool:
    from telemetry_daemon.commands.answers import daemon_reads_the_same

    return daemon_reads_the_same(arguments)


def _record_daemon(loaded: Loaded, settings: Settings, arguments: argparse.Namespace, keep: _Keep) -> None:
    """Keep what the daemon's sources answer. Raises RecordError and CommandError."""
    reports = Reports(loaded)
    runtime_directory = settings.state.runtime_directory
    daemon = FromDaemon(runtime_directory, arguments.duration, minutes_before=arguments.before)
    begun = time.monotonic()
    taken = earlier = 0
    try:
        for capture in daemon.captures():
            keep(capture, reports.of(capture))
            taken += 1
            earlier += capture.monotonic_time < begun
    except ControlError as error:
        raise CommandError(f"{error}; or record without it: --from tools", status=exits.UNAVAILABLE) from None
    if arguments.before and earlier:
        _say(f"{earlier} of the captures are of the minutes before")
    elif arguments.before:
        why = "the daemon's flight recorder is off (flight_recorder.enabled, and with simulated cards)"
        _say(f"nothing of before is kept: {why}")
    if daemon.lost:
        _say(f"{daemon.lost} captures are missing: this command could not take them in time")
    if not taken:
        text = "the daemon was told nothing in that time; one that plays a recording polls nothing: copy the recording"
        raise CommandError(text, status=exits.UNAVAILABLE)
    if (left := begun + arguments.duration - time.monotonic()) > LONGEST_WAIT_SECONDS:
        _say(f"the daemon ended {human.seconds(round(left))} before the end of the recording")


def _record_tools(loaded: Loaded, settings: Settings, arguments: argparse.Namespace, keep: _Keep) -> None:
    """Poll as the daemon does. Raises RecordError if the recording cannot be written any more."""
    failure: list[RecordError] = []
    ended = threading.Event()

    def keep_or_end(capture: Capture, report: Report | None) -> None:
        try:
            keep(capture, report)
        except RecordError as error:
            failure.append(error)
            ended.set()

    clock = Clock()
    poller = Poller(Store("", clock), clock)
    try:
        poller.start(RealNode(loaded, clock, keep_or_end).sources(settings))
        until = clock.monotonic() + arguments.duration
        while not ended.is_set() and (left := until - clock.monotonic()) > 0:
            ended.wait(min(left, LONGEST_WAIT_SECONDS))
    finally:
        poller.stop()
    if failure:
        raise failure[0]


@contextlib.contextmanager
def _told(
    recorder: Recorder, mask: Mask | None, arguments: argparse.Namespace, whom: str
) -> Iterator[Callable[[], None]]:
    """Says on standard error how far it is, on a terminal, and in the end what was recorded, however it ends."""
    begun = time.monotonic()
    next_time = begun

    def tell() -> None:
        nonlocal next_time
        if (now := time.monotonic()) >= next_time:
            next_time = now + _PROGRESS_SECONDS
            whole = human.seconds(arguments.duration)
            waiting.show(f"recording: {human.seconds(round(now - begun))} of {whole}, {recorder.captures} captures")

    is_told = True
    try:
        yield tell
    except (RecordError, CommandError):  # which says why there is nothing
        is_told = recorder.has_any
        raise
    finally:
        waiting.show("")
        seconds = human.seconds(round(time.monotonic() - begun))
        if is_told:
            _say(_summary(recorder, mask, arguments.output, f"from {whom} in {seconds}"))


def _summary(recorder: Recorder, mask: Mask | None, output: Path | None, how: str) -> str:
    if not recorder.has_any:
        return f"recorded nothing {how}"
    size = recorder.size_bytes
    to_file = "" if size is None else f" to {output} ({human.byte_size(size)})"
    masked = (
        "nothing is masked: it has what identifies this node"
        if mask is None
        else f"{mask.values} identities have stand-ins; look through it before you send it"
    )
    return f"recorded {recorder.captures} captures of {recorder.sources} sources {how}{to_file}: {masked}"


def _say(text: str) -> None:
    sys.stderr.write(f"telemetry: {text}\n")
