"""`telemetry record`: everything that the readers got, for a bug report or a replay, without what tells whose it is."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import threading
from pathlib import Path

from telemetry_daemon import exits, log
from telemetry_daemon.commands import options
from telemetry_daemon.commands.snapshot import seconds
from telemetry_daemon.exits import CommandError
from telemetry_daemon.node import RealNode
from telemetry_daemon.plugins.loading import load
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.recording.mask import Mask
from telemetry_daemon.recording.record import Recorder, RecordError
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Capture, Report


def configure(parser: argparse.ArgumentParser) -> None:
    """Where to, for how long, and whether masked."""
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="default: standard output")
    parser.add_argument("--for", dest="duration", type=seconds, default=30.0, metavar="S", help="seconds (30)")
    parser.add_argument(
        "--unmasked", action="store_true", help="keep serial numbers, uuids, addresses and the host's name as they are"
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Poll as the daemon does and write each capture as a line."""
    log.setup("error", "text")
    settings = options.settings(arguments)
    try:
        recorder = Recorder.to_file(arguments.output) if arguments.output else Recorder(sys.stdout)
    except RecordError as error:
        raise CommandError(str(error)) from None
    failure: list[RecordError] = []
    ended = threading.Event()
    masked = _unchanged if arguments.unmasked else Mask(secrets.token_bytes(32), _host_names()).capture

    def keep(capture: Capture, report: Report | None) -> None:
        try:
            recorder.add(masked(capture, report))
        except RecordError as error:
            failure.append(error)
            ended.set()

    with load(settings.plugin_paths) as loaded, recorder:
        clock = Clock()
        node = RealNode(loaded, clock, keep)
        poller = Poller(Store("", clock), clock)
        poller.start(node.sources(settings))
        ended.wait(arguments.duration)
        poller.stop()
    if failure:
        raise CommandError(str(failure[0]), exits.UNAVAILABLE)
    return exits.OK


def _unchanged(capture: Capture, _report: Report | None) -> Capture:
    return capture


def _host_names() -> tuple[str, str]:
    """This machine's name, whole and without its domain."""
    name = os.uname().nodename
    return name, name.partition(".")[0]
