"""`telemetry record`: writes everything that is read, with stand-ins for identities."""

from __future__ import annotations

import argparse
import contextlib
import math
import platform
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.commands import options
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.masking.mask import Mask, names_here
from telemetry_daemon.plugins.loading import Loaded, load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.polling import poll_intervals
from telemetry_daemon.polling.node_sources import RealNode
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.recordings.parsed_captures import Reports
from telemetry_daemon.recordings.recorder import FromDaemon, FromFirstAnswer, Keep, Recorder, RecordError
from telemetry_daemon.remote.control_socket import ControlError
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal import exits, log, streams
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import LONGEST_WAIT_SECONDS, Clock
from telemetry_exporters import human
from telemetry_parsers.model import Capture, Report

EXAMPLES = {
    "telemetry record -o node.jsonl.gz --for 60s": "Record a minute for a bug report.",
    "telemetry record -o node.jsonl.gz --before --for 10s": "Record the two minutes before as well, which the daemon has.",
}

_Record = Callable[[Loaded, Settings, argparse.Namespace, FromFirstAnswer, "_Progress"], None]

_STANDARD_OUTPUT = Path("-")
_PROGRESS_SECONDS = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
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
        type=options.up_to_a_day,
        default=30.0,
        metavar="TIME",
        help="how long to record once each source has answered, such as 60s or 5m (default: 30s)",
    )
    parser.add_argument(
        "--before", action="store_true", help="begin with the two minutes that the daemon's flight recorder has"
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
    """Write each capture as a line. Return 2 if all sources failed, 3 without sources."""
    exits.raise_on_signals()
    log.setup("error", "text")
    settings = options.settings(arguments)
    with load(find(settings.parsers.paths)) as loaded:
        options.check_names(arguments, settings, loaded.polls)
        whom, record = _way(arguments)
        mask = None if arguments.unmasked else Mask(secrets.token_bytes(32), names_here())
        recorder = _recorder(arguments.output)
        try:
            with _told(recorder, mask, arguments, whom) as progress, recorder:
                keep = FromFirstAnswer(_kept(recorder, mask, progress.tell), Reports(loaded))
                record(loaded, settings, arguments, keep, progress)
                _check(keep)
        except RecordError as error:
            raise CommandError(str(error), status=exits.UNAVAILABLE) from None
    return exits.OK


def _recorder(output: Path | None) -> Recorder:
    if output is None or output == _STANDARD_OUTPUT:
        return Recorder(sys.stdout)
    try:
        return Recorder.to_file(output)
    except RecordError as error:
        raise CommandError(str(error)) from None


def _check(keep: FromFirstAnswer) -> None:
    if keep.has_begun:
        return
    if keep.failures:
        lines = (f"nothing is recorded: {source}: {text}" for source, text in keep.failures.items())
        raise CommandError(*lines, status=exits.PROBLEMS)
    text = "nothing is recorded: no tool, library or driver of an accelerator was found"
    raise CommandError(f"{text}; `telemetry doctor` says where it was looked for", status=exits.NOTHING_FOUND)


def _kept(recorder: Recorder, mask: Mask | None, tell: Callable[[], None]) -> Keep:
    def keep(capture: Capture, report: Report | None) -> None:
        masked = replace(capture, hostname=platform.node()) if mask is None else mask.capture(capture, report)
        recorder.add(masked)
        tell()

    return keep


def _way(arguments: argparse.Namespace) -> tuple[str, _Record]:
    """Return the origin of the captures and the function that records them. Raises CommandError before an earlier recording is replaced."""
    from telemetry_daemon.commands.daemons import daemon_reads_the_same

    if arguments.origin == "daemon" or (arguments.origin is None and daemon_reads_the_same(arguments)):
        return "the daemon", _record_daemon
    if arguments.before:
        text = "--before needs a running daemon that reads the same, which keeps the minutes before; ask another one with --from daemon"
        raise CommandError(f"{text}, or leave --before out")
    return "the tools", _record_tools


def _record_daemon(
    loaded: Loaded, settings: Settings, arguments: argparse.Namespace, keep: FromFirstAnswer, progress: _Progress
) -> None:
    reports = Reports(loaded)
    begun = time.monotonic()
    daemon = FromDaemon(
        settings.state.runtime_directory,
        arguments.duration,
        minutes_before=arguments.before,
        longest_round=poll_intervals.round_seconds(
            (item.parser, settings.source(item.parser.name)) for item in loaded.parsers
        ),
        goes_on=lambda: progress.goes_on(keep),
    )
    taken = earlier = 0
    try:
        for capture in daemon.captures():
            keep(capture, reports.of(capture))
            taken += 1
            earlier += capture.monotonic_time < begun
    except ControlError as error:
        raise CommandError(f"{error}; or record without it: --from tools", status=exits.UNAVAILABLE) from None
    if not taken:
        text = "the daemon read nothing in that time; a daemon that plays a recording polls nothing: copy the recording"
        raise CommandError(text, status=exits.UNAVAILABLE)
    if keep.has_begun:
        _say_what_is_missing(daemon, arguments, earlier)


def _say_what_is_missing(daemon: FromDaemon, arguments: argparse.Namespace, earlier: int) -> None:
    if arguments.before and earlier:
        streams.say(f"{earlier} of the captures are of the minutes before")
    elif arguments.before:
        why = "the daemon's flight recorder is off (flight_recorder.enabled, and with simulated cards)"
        streams.say(f"nothing of before is kept: {why}")
    if daemon.lost:
        streams.say(f"{daemon.lost} captures are missing: this command could not take them in time")
    if (left := min(daemon.until - time.monotonic(), arguments.duration)) > LONGEST_WAIT_SECONDS:
        streams.say(f"the daemon ended {human.seconds(round(left))} before the end of the recording")


def _record_tools(
    loaded: Loaded, settings: Settings, arguments: argparse.Namespace, keep: FromFirstAnswer, progress: _Progress
) -> None:
    failure: list[RecordError] = []
    ended = threading.Event()

    def keep_or_end(capture: Capture, report: Report | None) -> None:
        try:
            keep(capture, report)
        except RecordError as error:
            failure.append(error)
            ended.set()

    def wait(until: float, is_over: Callable[[], bool]) -> None:
        while not is_over() and (left := until - clock.monotonic()) > 0 and not ended.is_set():
            ended.wait(min(left, LONGEST_WAIT_SECONDS))

    clock = Clock()
    poller = Poller(Store("", clock), clock)
    try:
        poller.start(RealNode(loaded, clock, keep_or_end).sources(settings))
        wait(math.inf, poller.round_check(poll_now=False))
        if progress.goes_on(keep):
            wait(clock.monotonic() + arguments.duration, lambda: False)
    finally:
        poller.stop()
    if failure:
        raise failure[0]


class _Progress:
    """Prints the progress on a terminal's standard error: until each source has completed once, then until the end."""

    def __init__(self, recorder: Recorder, seconds: float) -> None:
        self._recorder = recorder
        self._whole = human.seconds(seconds)
        self._round_ended = math.inf
        self._next_time = self.begun = time.monotonic()

    def goes_on(self, keep: FromFirstAnswer) -> bool:
        """Return whether to continue, once each source has completed."""
        self._round_ended = time.monotonic()
        return keep.has_begun or bool(keep.failures)

    def tell(self) -> None:
        """Print the progress, at most twice a second."""
        if (now := time.monotonic()) >= self._next_time:
            self._next_time = now + _PROGRESS_SECONDS
            done = human.seconds(round(max(0.0, now - self._round_ended)))
            streams.show_progress(f"recording: {done} of {self._whole}, {self._recorder.captures} captures")


@contextlib.contextmanager
def _told(recorder: Recorder, mask: Mask | None, arguments: argparse.Namespace, whom: str) -> Iterator[_Progress]:
    """Report the progress, and finally what was recorded, however the block ends."""
    progress = _Progress(recorder, arguments.duration)
    is_told = True
    try:
        yield progress
    except (RecordError, CommandError):  # the error says why there is no recording
        is_told = recorder.has_any
        raise
    finally:
        streams.show_progress("")
        seconds = human.seconds(round(time.monotonic() - progress.begun))
        if is_told:
            streams.say(_summary(recorder, mask, arguments.output, f"from {whom} in {seconds}"))


def _summary(recorder: Recorder, mask: Mask | None, output: Path | None, how: str) -> str:
    if not recorder.has_any:
        return f"recorded nothing {how}"
    size = recorder.size_bytes
    to_file = "" if size is None else f" to {output} ({human.byte_size(size)})"
    masked = (
        "nothing is masked: it contains identities of this node"
        if mask is None
        else f"{mask.values} identities have stand-ins; look through it before you send it"
    )
    return f"recorded {recorder.captures} captures of {recorder.sources} sources {how}{to_file}: {masked}"
