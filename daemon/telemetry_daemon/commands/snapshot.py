"""`telemetry snapshot`: one reading of everything."""

from __future__ import annotations

import argparse
import logging
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from telemetry_daemon.commands import durations, endings, options
from telemetry_daemon.commands.lookup import check_vendor, find_parser
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.control.remote import NoSuchPartError, report_of
from telemetry_daemon.node import RealNode
from telemetry_daemon.oneshot import OneShot, Substitute
from telemetry_daemon.plugins.loading import load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.polling.source import Answer, Source
from telemetry_daemon.ranks.watch import ranked
from telemetry_daemon.readers import toollock
from telemetry_daemon.state.health import judge
from telemetry_daemon.terminal import exits, log
from telemetry_daemon.times import Clock
from telemetry_exporters.text import clean
from telemetry_parsers.model import MergedDevice, Metric, Snapshot, Tier

# The CPU's load is counted between two readings.
_HOST_GAP_SECONDS = 0.2
_CLEAR_SCREEN = "\x1b[H\x1b[2J"
_BAD_STATES = frozenset({"failed", "stuck"})


def configure(parser: argparse.ArgumentParser) -> None:
    """What to read, what of it to show, and how."""
    parser.add_argument("--format", choices=options.FORMATS, default="table", help="output format (default: table)")
    options.add_source(parser, "read")
    parser.add_argument("--vendor", metavar="NAME", help="show only this vendor's devices")
    parser.add_argument("--device", metavar="DEVICE", help="show only devices with this index, `device` label or id")
    parser.add_argument("--all", action="store_true", help="run slow polls too, and show every reading of each device")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=durations.up_to_a_day,
        const=2.0,
        metavar="TIME",
        help="repeat until interrupted, every TIME (default: 2s)",
    )
    parser.add_argument(
        "--timeout",
        type=durations.up_to_a_day,
        default=20.0,
        metavar="TIME",
        help="give up on sources that have not answered after TIME (default: 20s)",
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one document; 2 when a source failed, 3 when there is nothing."""
    endings.end_tools_first()
    log.setup("error", "text")
    settings = options.settings(arguments)
    with load(find(settings.parsers.paths)) as loaded:
        parsers = {item.parser.name: item.parser for item in loaded.parsers}
        for name in arguments.source:
            find_parser(name, parsers)
        if arguments.vendor is not None:
            check_vendor(arguments.vendor, loaded)
        options.check_names(arguments, settings, loaded.polls)
        node = RealNode(loaded, Clock())
        shot = OneShot(platform.node(), node.sources(settings, arguments.source), Clock(), _from_daemon(settings))
        try:
            return _show(shot, arguments, loaded.metrics, settings)
        finally:
            shot.close()


def _show(shot: OneShot, arguments: argparse.Namespace, metrics: Sequence[Metric], settings: Settings) -> int:
    tiers: Sequence[Tier] = ("inventory", "fast", "slow") if arguments.all else ("inventory", "fast")
    shot.prime("host", _HOST_GAP_SECONDS)
    # Imported within the gap.
    from telemetry_daemon.commands import formats
    from telemetry_exporters.table import Detail

    detail = Detail.EVERYTHING if arguments.all else Detail.BRIEF
    while True:
        whole = ranked(shot.read(tiers, arguments.timeout), settings.ranks)
        snapshot = _filtered(whole, arguments)
        clear = _CLEAR_SCREEN if arguments.watch and formats.understands_escapes() else ""
        sys.stdout.write(clear + formats.render(snapshot, arguments.format, metrics, detail))
        sys.stdout.flush()
        if whole.devices and not snapshot.devices:
            sys.stderr.write(f"telemetry: {clean(_unmatched(arguments, whole.devices))}\n")
        if arguments.watch is None:
            return _status(snapshot)
        time.sleep(arguments.watch)


def _from_daemon(settings: Settings) -> Substitute:
    """Takes the running daemon's readings of a tool that it keeps busy."""

    def substitute(source: Source, answer: Answer) -> Answer:
        if not toollock.is_busy(answer.capture.failure):
            return answer
        from telemetry_daemon.control import socket as control

        try:
            document = control.ask(control.path_in(settings.state.runtime_directory), "snapshot")
            report = report_of(document, source.name)
        except (control.ControlError, NoSuchPartError) as error:
            logging.getLogger(__name__).info("a busy tool", extra={"source": source.name, "error": error})
            return answer
        capture = replace(answer.capture, failure=None)
        return Answer(capture, report, judge(capture, report, 0))

    return substitute


def _filtered(snapshot: Snapshot, arguments: argparse.Namespace) -> Snapshot:
    def is_shown(device: MergedDevice) -> bool:
        names = (str(device.index), device.device, device.id)
        return (arguments.vendor in (None, device.vendor)) and (arguments.device is None or arguments.device in names)

    return replace(snapshot, devices=tuple(filter(is_shown, snapshot.devices)))


def _unmatched(arguments: argparse.Namespace, devices: Sequence[MergedDevice]) -> str:
    """Why nothing is shown although there are devices."""
    from telemetry_exporters.overview import device_list

    flags = (("--vendor", arguments.vendor), ("--device", arguments.device))
    flags_in_words = " ".join(f"{flag} {value}" for flag, value in flags if value is not None)
    return f"no device matches {flags_in_words}; there are {device_list(devices)}"


def _status(snapshot: Snapshot) -> int:
    if any(status.state in _BAD_STATES for status in snapshot.sources):
        return exits.PROBLEMS
    return exits.OK if snapshot.devices else exits.NOTHING_FOUND
