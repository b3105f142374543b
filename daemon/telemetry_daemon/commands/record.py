"""`telemetry record`: everything that the readers got, with identities masked, for a bug report or a replay."""

from __future__ import annotations

import argparse
import platform
import secrets
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.commands import durations, endings, options
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.node import RealNode
from telemetry_daemon.plugins.loading import Loaded, load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.recording.local_names import names_here
from telemetry_daemon.recording.mask import Mask
from telemetry_daemon.recording.record import Recorder, RecordError
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal import exits, log
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import LONGEST_WAIT_SECONDS, Clock
from telemetry_parsers.model import Capture, Report

_Masked = Callable[[Capture, Report | None], Capture]

_STANDARD_OUTPUT = Path("-")


def configure(parser: argparse.ArgumentParser) -> None:
    """Where to, for how long, and whether masked."""
    parser.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="FILE",
        help="where to write it, in place of an earlier recording; - is standard output (default: standard output)",
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
        "--unmasked", action="store_true", help="keep serial numbers, UUIDs, addresses, names and passwords as they are"
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Poll as the daemon does and write each capture as a line."""
    endings.end_tools_first()
    log.setup("error", "text")
    settings = options.settings(arguments)
    with load(find(settings.parsers.paths)) as loaded:
        options.check_names(arguments, settings, loaded.polls)
        try:
            to_output = arguments.output in (None, _STANDARD_OUTPUT)
            recorder = Recorder(sys.stdout) if to_output else Recorder.to_file(arguments.output)
        except RecordError as error:
            raise CommandError(str(error)) from None
        masked = _with_hostname if arguments.unmasked else Mask(secrets.token_bytes(32), names_here()).capture
        with recorder:
            _record(loaded, settings, recorder, masked, arguments.duration)
    return exits.OK


def _record(loaded: Loaded, settings: Settings, recorder: Recorder, masked: _Masked, seconds: float) -> None:
    """Poll for that many seconds. Raises CommandError if the recording cannot be written any more."""
    failure: list[RecordError] = []
    ended = threading.Event()

    def keep(capture: Capture, report: Report | None) -> None:
        try:
            recorder.add(masked(capture, report))
        except RecordError as error:
            failure.append(error)
            ended.set()

    clock = Clock()
    poller = Poller(Store("", clock), clock)
    try:
        poller.start(RealNode(loaded, clock, keep).sources(settings))
        until = clock.monotonic() + seconds
        while not ended.is_set() and (left := until - clock.monotonic()) > 0:
            ended.wait(min(left, LONGEST_WAIT_SECONDS))
    finally:
        poller.stop()
    if failure:
        raise CommandError(str(failure[0]), status=exits.UNAVAILABLE)


def _with_hostname(capture: Capture, _report: Report | None) -> Capture:
    return replace(capture, hostname=platform.node())
