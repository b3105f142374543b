"""What `telemetry snapshot` reads itself: of this machine, or of simulated cards."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from telemetry_daemon.commands import endings, options
from telemetry_daemon.commands.answer import Answer
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import Loaded, load
from telemetry_daemon.polling.node import Node, RealNode
from telemetry_daemon.polling.oneshot import OneShot, Substitute, keep
from telemetry_daemon.polling.source import Answer as Polled
from telemetry_daemon.polling.source import Source
from telemetry_daemon.readers import toollock
from telemetry_daemon.remote.documents import DocumentError, snapshot_of
from telemetry_daemon.state.health import judge
from telemetry_daemon.state.peaks import known_peaks
from telemetry_daemon.state.ranks import ranked
from telemetry_daemon.terminal import log, waiting
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Absent, Device, MergedDevice, Reading, Report, Snapshot, Tier

# The CPU's load is counted between two readings.
_HOST_GAP_SECONDS = 0.2
_USUAL_SECONDS = 20.0


class Tools:
    """The sources, read whenever asked; to be closed, which ends them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._settings = Settings()
        self._shot: OneShot | None = None
        self._node: Node | None = None
        self._open = ExitStack()

    def close(self) -> None:
        """End whatever still runs."""
        self._open.close()

    def read(self) -> Answer:
        """One snapshot of all."""
        shot, node = self._opened()
        tiers: Sequence[Tier] = ("inventory", "fast") if self._arguments.all is None else ("inventory", "fast", "slow")
        snapshot = shot.read(tiers, self._arguments.timeout or _USUAL_SECONDS)
        return Answer(ranked(snapshot, self._settings.ranks), metrics=node.metrics())

    def _opened(self) -> tuple[OneShot, Node]:
        if self._shot is None or self._node is None:
            endings.end_tools_first()
            log.setup("error", "text")
            self._node = self._of_arguments()
            substitute = _from_daemon(self._settings) if isinstance(self._node, RealNode) else keep
            sources = self._node.sources(self._settings, self._arguments.source)
            self._shot = OneShot(
                os.uname().nodename,
                sources,
                Clock(),
                substitute,
                waiting.tell,
                known_peaks(self._settings),
            )
            self._open.callback(self._shot.close)
            self._shot.prime("host", _HOST_GAP_SECONDS)
        return self._shot, self._node

    def _of_arguments(self) -> Node:
        clock, arguments = Clock(), self._arguments
        if arguments.demo is not None:
            from telemetry_daemon.simulate.node import DemoNode

            return self._checked(DemoNode(arguments.demo, clock))
        self._settings = options.settings(arguments)
        from telemetry_daemon.plugins.sources import find

        loaded: Loaded = self._open.enter_context(load(find(self._settings.parsers.paths)))
        node = self._checked(RealNode(loaded, clock))
        options.check_names(arguments, self._settings, loaded.polls)
        return node

    def _checked(self, node: Node) -> Node:
        from telemetry_daemon.commands.lookup import check_source

        for name in self._arguments.source:
            check_source(name, node.names())
        return node


def _from_daemon(settings: Settings) -> Substitute:
    """Takes the running daemon's readings of a tool that it keeps busy."""

    def substitute(source: Source, answer: Polled) -> Polled:
        if not toollock.is_busy(answer.capture.failure):
            return answer
        from telemetry_daemon.remote import control_socket as control

        try:
            document = control.ask(control.path_in(settings.state.runtime_directory), "snapshot")
            report = _report_of(snapshot_of(document), source.name)
        except (control.ControlError, DocumentError) as error:
            logging.getLogger(__name__).info("a busy tool", extra={"source": source.name, "error": error})
            return answer
        if report is None:
            return answer
        capture = replace(answer.capture, failure=None)
        return Polled(capture, report, judge(capture, report, 0))

    return substitute


def _report_of(snapshot: Snapshot, source: str) -> Report | None:
    """Return what the daemon read from one source: its devices and the readings that came from it; None if it read nothing itself."""
    is_read = any(status.source == source and status.state == "ok" for status in snapshot.sources)
    if snapshot.recorded is not None or not is_read:
        return None
    devices: list[Device] = []
    readings: list[Reading] = []
    for merged in snapshot.devices:
        of_source = [
            Reading(len(devices), reading.metric, reading.value, reading.label)
            for reading in merged.readings
            if reading.source == source and not isinstance(reading.value, Absent)
        ]
        if merged.up and of_source:
            devices.append(_device(merged))
            readings += of_source
    return Report(devices=tuple(devices), readings=tuple(readings))


def _device(merged: MergedDevice) -> Device:
    return Device(
        vendor=merged.vendor,
        index=merged.index,
        model=merged.model,
        uuid=merged.uuid,
        bus_id=merged.bus_id,
        partition=merged.partition,
        serial=merged.serial,
        driver=merged.driver,
        simulated=merged.simulated,
    )
