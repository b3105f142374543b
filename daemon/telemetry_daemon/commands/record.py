"""`telemetry record`: everything that the readers got, as it was, for a bug report or a replay."""

from __future__ import annotations

import argparse
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
from telemetry_daemon.recording.record import Recorder, RecordError
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Capture


def configure(parser: argparse.ArgumentParser) -> None:
    """Where to, and for how long."""
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="default: standard output")
    parser.add_argument("--for", dest="duration", type=seconds, default=30.0, metavar="S", help="seconds (30)")
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

    def keep(capture: Capture) -> None:
        try:
            recorder.add(capture)
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
