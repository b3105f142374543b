"""Reads tools, simulated cards or a recording, for commands that run without a daemon."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry_daemon.commands import options
from telemetry_daemon.commands.rendering import Result
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import load_parsers
from telemetry_daemon.polling.node_sources import Node, RealNode, reports_owners
from telemetry_daemon.polling.oneshot import OneShot, Substitute, keep_outcome
from telemetry_daemon.polling.source import PollOutcome, Source
from telemetry_daemon.readers import tool_lock
from telemetry_daemon.state.health import result_of
from telemetry_daemon.state.peaks import configured_peaks
from telemetry_daemon.state.ranks import add_ranks
from telemetry_daemon.terminal import exits, log, streams
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Absent, Device, MergedDevice, Reading, Report, Snapshot, Tier

if TYPE_CHECKING:  # imported at run time only for recordings
    from telemetry_daemon.recordings.replay_node import ReplayNode
    from telemetry_daemon.state.store import Store

# The CPU load is computed from two readings that are this far apart.
_CPU_LOAD_INTERVAL_SECONDS = 0.2
_DEFAULT_TIMEOUT_SECONDS = 20.0

ReadSnapshot = Callable[[], Result]


@contextmanager
def open_tools(arguments: argparse.Namespace) -> Iterator[ReadSnapshot]:
    """Yield a function that reads the requested sources, which are closed at the end of the `with` block."""
    exits.raise_on_signals()
    log.setup("error", "text")
    with ExitStack() as exit_stack:
        settings, node = _open_node(arguments, exit_stack)
        substitute = _make_daemon_substitute(settings) if isinstance(node, RealNode) else keep_outcome
        sources = node.sources(settings, arguments.source)
        oneshot = OneShot(
            os.uname().nodename, sources, Clock(), substitute, streams.show_waiting, configured_peaks(settings)
        )
        exit_stack.callback(oneshot.close)
        oneshot.prime("host", _CPU_LOAD_INTERVAL_SECONDS)
        tiers: Sequence[Tier] = ("inventory", "fast") if arguments.all is None else ("inventory", "fast", "slow")
        timeout = arguments.timeout or _DEFAULT_TIMEOUT_SECONDS
        yield lambda: Result(add_ranks(oneshot.read(tiers, timeout), settings.ranks), plugin_metrics=node.metrics())


def _open_node(arguments: argparse.Namespace, exit_stack: ExitStack) -> tuple[Settings, Node]:
    if arguments.demo is not None:
        from telemetry_daemon.simulate.node import DemoNode

        demo_node = DemoNode(arguments.demo, Clock())
        options.check_sources(arguments.source, demo_node.names())
        return Settings(), demo_node
    from telemetry_daemon.plugins.sources import find_parsers

    settings = options.load_settings(arguments)
    parser_set = exit_stack.enter_context(load_parsers(find_parsers(settings.parsers.paths)))
    node = RealNode(parser_set, Clock())
    options.check_sources(arguments.source, node.names())
    options.check_sections(arguments, settings, parser_set.polls)
    return settings, node


def _make_daemon_substitute(settings: Settings) -> Substitute:
    """Return a function that replaces the result of a busy tool with the daemon's readings of this source."""

    def substitute(source: Source, outcome: PollOutcome) -> PollOutcome:
        if not tool_lock.is_busy(outcome.capture.failure):
            return outcome
        from telemetry_daemon.remote import control_socket as control
        from telemetry_daemon.remote.foreign_documents import DocumentError, to_snapshot

        try:
            document = control.send_request(control.socket_path(settings.state.runtime_directory), "snapshot")
            report = _source_report(to_snapshot(document), source.name)
        except (control.ControlError, DocumentError) as error:
            logging.getLogger(__name__).info(
                "the tool is in use by another process", extra={"source": source.name, "error": error}
            )
            return outcome
        if report is None:
            return outcome
        capture = replace(outcome.capture, failure=None)
        return PollOutcome(capture, report, result_of(capture, report, 0))

    return substitute


def _source_report(snapshot: Snapshot, source: str) -> Report | None:
    """Return a source's readings as a report, or None if the source is not ok or a recording is played."""
    was_read = any(status.source == source and status.state == "ok" for status in snapshot.sources)
    if snapshot.recorded is not None or not was_read:
        return None
    devices: list[Device] = []
    readings: list[Reading] = []
    for merged_device in snapshot.devices:
        source_readings = [
            Reading(len(devices), reading.metric, reading.value, reading.label)
            for reading in merged_device.readings
            if reading.source == source and not isinstance(reading.value, Absent)
        ]
        if merged_device.up and source_readings:
            devices.append(_to_device(merged_device))
            readings += source_readings
    return Report(devices=tuple(devices), readings=tuple(readings))


def _to_device(merged_device: MergedDevice) -> Device:
    return Device(
        vendor=merged_device.vendor,
        index=merged_device.index,
        model=merged_device.model,
        uuid=merged_device.uuid,
        bus_id=merged_device.bus_id,
        partition=merged_device.partition,
        serial=merged_device.serial,
        driver=merged_device.driver,
        simulated=merged_device.simulated,
    )


@contextmanager
def open_recording(arguments: argparse.Namespace) -> Iterator[ReadSnapshot]:
    """Yield a function that returns the recording's readings at `--at`. With `--watch`, the recording plays on."""
    from telemetry_daemon.plugins.sources import find_parsers
    from telemetry_daemon.recordings.playback import PlaybackOptions
    from telemetry_daemon.recordings.replay_node import ReplayNode
    from telemetry_daemon.recordings.survey import parse_time

    log.setup("error", "text")
    settings = options.load_settings(arguments)
    start_time = arguments.at or (parse_time("end") if arguments.watch is None else None)
    with (
        load_parsers(find_parsers(settings.parsers.paths)) as parser_set,
        closing(ReplayNode(arguments.replay, parser_set, Clock(), PlaybackOptions(loops=False), start_time)) as node,
    ):
        options.check_sources(arguments.source, node.names())
        for warning in node.warnings():
            streams.say(warning)
        store = _play_into_store(node, arguments, settings)
        yield lambda: Result(add_ranks(store.snapshot(), settings.ranks), plugin_metrics=node.metrics())


def _play_into_store(node: ReplayNode, arguments: argparse.Namespace, settings: Settings) -> Store:
    from telemetry_daemon.state.accumulate import Accumulator
    from telemetry_daemon.state.attribution import Attribution
    from telemetry_daemon.state.events import Events
    from telemetry_daemon.state.history import History
    from telemetry_daemon.state.store import Store

    history = History(node.clock)
    owners = Attribution(node.clock) if any(reports_owners(parser) for parser in node.parsers()) else None
    store = Store("", node.clock, (), Accumulator(Events(), history), node.replay_info, owners)
    store.facts.set_peaks(configured_peaks(settings))
    if arguments.watch is None:
        node.fill(store, history, arguments.source)
    else:
        node.start_filling(store, history)
    return store
