"""`telemetry top`: the live view in a terminal."""

from __future__ import annotations

import argparse
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.commands import options
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.terminal import log, streams
from telemetry_daemon.terminal.exits import CommandError

if TYPE_CHECKING:  # imported on demand, so that the first screen appears soon
    from telemetry_daemon.remote.http_client import Address, Credentials
    from telemetry_daemon.top.feed import Feed

EXAMPLES = {
    "telemetry top": "Watch this node, and show its last half hour.",
    "telemetry top gpu-17 gpu-18": "Watch two nodes.",
    "telemetry top --demo 8xnvidia": "Watch simulated cards.",
    "telemetry top --replay node.jsonl.gz --at end-30s": "Watch the end of a recording.",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument(
        "nodes",
        nargs="*",
        metavar="NODE",
        help="a node with a daemon: HOST, HOST:PORT, [IPV6]:PORT or a URL (default: this machine)",
    )
    parser.add_argument(
        "--node", dest="nodes_by_flag", action="append", default=[], metavar="NODE", help="the same as NODE alone"
    )
    parser.add_argument(
        "--nodes", dest="file", type=Path, metavar="FILE", help="file with a node on each line, and # comments"
    )
    options.add_origins(parser, "show", f"{options.LIVE_DEMO_HELP}, and shows processes", "--demo", "--replay")
    options.add_faults(parser)
    options.add_at(parser)
    options.add_playback(parser)
    options.add_credentials(parser)
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show the cards until the user quits."""
    from telemetry_daemon.top.screen import run as show

    options.check_origin_flags(arguments)
    feed = _choose_feed(arguments)
    with log.deferred("error"):  # otherwise log lines would be written across the screen
        show(feed, os.environ)
    return 0


def _choose_feed(arguments: argparse.Namespace) -> Feed:
    nodes = [*arguments.nodes, *arguments.nodes_by_flag]
    if arguments.demo is not None or arguments.replay is not None:
        if nodes or arguments.file is not None:
            raise CommandError("--demo and --replay cannot be combined with nodes; leave out the nodes or the flag")
        return _polling_feed(arguments, options.load_settings(arguments), "")
    from telemetry_daemon.commands import daemons

    addresses = daemons.addresses(nodes, arguments.file)
    credentials = daemons.read_credentials(arguments)
    if len(addresses) > 1:
        from telemetry_daemon.top.many import ManyNodesFeed

        return ManyNodesFeed(addresses, credentials)
    if addresses:
        return _create_follower(f"the daemon at {addresses[0].name}", addresses[0].name, addresses[0], credentials)
    address = daemons.find_daemon_at_socket(arguments)
    return _local_feed(arguments, credentials) if address is None else _local_follower(address, credentials)


def _local_feed(arguments: argparse.Namespace, credentials: Credentials) -> Feed:
    from telemetry_daemon.commands import daemons

    settings = options.load_settings(arguments)
    title = "no daemon on this node; polled by this program"
    try:
        address = daemons.find_local_daemon(settings, credentials)
    except options.DaemonRefusedError:
        address, title = None, "polled by this program, because the daemon does not answer this user"
    return _polling_feed(arguments, settings, title) if address is None else _local_follower(address, credentials)


def _local_follower(address: Address, credentials: Credentials) -> Feed:
    return _with_command_lines(_create_follower("the daemon of this node", socket.gethostname(), address, credentials))


def _create_follower(title: str, name: str, address: Address, credentials: Credentials) -> Feed:
    from telemetry_daemon.top.follow import Follower

    return Follower(title, name, address, credentials)


def _with_command_lines(feed: Feed) -> Feed:
    from telemetry_daemon.top.commands import FeedWithProcesses, ProcessReader

    return FeedWithProcesses(feed, ProcessReader())


def _polling_feed(arguments: argparse.Namespace, settings: Settings, title: str) -> Feed:
    from telemetry_daemon.service.unused_imports import WITHOUT_ASYNCIO, replace_unused_imports
    from telemetry_daemon.times import Clock

    with replace_unused_imports(WITHOUT_ASYNCIO):  # saves a quarter of the CPU time until the first frame
        from telemetry_daemon.top.polled_node import PolledNode

    clock, hostname = Clock(), socket.gethostname()
    if arguments.demo is not None:
        from telemetry_daemon.simulate.node import PAST_SECONDS, DemoNode

        settings = replace(settings, attribution=replace(settings.attribution, enabled=True))
        demo_node = DemoNode(arguments.demo, clock, faults=arguments.fault, past_seconds=PAST_SECONDS)
        return PolledNode("a simulation", hostname, demo_node, settings, clock)
    from telemetry_daemon.plugins.loading import ParserSet, load_parsers
    from telemetry_daemon.plugins.sources import find_parsers

    parser_set: ParserSet = load_parsers(find_parsers(settings.parsers.paths))
    if arguments.replay is not None:
        from telemetry_daemon.recordings.replay_node import ReplayNode

        playback = options.playback_options(arguments, keeps_times=True)
        replay_node = ReplayNode(arguments.replay, parser_set, clock, playback, arguments.at)
        for warning in replay_node.warnings():
            streams.say(warning)
        name = replay_node.survey.hostname or arguments.replay.name
        return PolledNode(f"the recording {arguments.replay}", name, replay_node, settings, clock, replay_node.press)
    from telemetry_daemon.polling.node_sources import RealNode

    options.check_sections(arguments, settings, parser_set.polls)
    return _with_command_lines(PolledNode(title, hostname, RealNode(parser_set, clock), settings, clock))
