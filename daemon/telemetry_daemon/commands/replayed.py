"""What `telemetry snapshot` shows of a recording: a moment of it, or all from there on."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from telemetry_daemon.commands import options
from telemetry_daemon.commands.answer import Answer
from telemetry_daemon.commands.lookup import check_source
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.polling.node import tells_owners
from telemetry_daemon.replay.moments import moment
from telemetry_daemon.replay.node import ReplayNode
from telemetry_daemon.replay.player import Playing
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.attribution import Attribution
from telemetry_daemon.state.events import Events
from telemetry_daemon.state.history import History
from telemetry_daemon.state.peaks import known_peaks
from telemetry_daemon.state.ranks import ranked
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal import log
from telemetry_daemon.times import Clock
from telemetry_exporters.text import clean


class Replayed:
    """A recording at a moment, at its end if none is named; or played from there on, where it is watched."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._open = ExitStack()
        self._settings = Settings()
        self._node: ReplayNode | None = None
        self._store: Store | None = None

    def close(self) -> None:
        """Play no more."""
        self._open.close()

    def read(self) -> Answer:
        """What it shows now. Raises CommandError."""
        if self._node is None or self._store is None:
            self._node, self._store = self._opened()
        return Answer(ranked(self._store.snapshot(), self._settings.ranks), metrics=self._node.metrics())

    def _opened(self) -> tuple[ReplayNode, Store]:
        arguments = self._arguments
        log.setup("error", "text")
        self._settings = options.settings(arguments)
        loaded = self._open.enter_context(load(find(self._settings.parsers.paths)))
        is_watched = arguments.watch is not None
        at = arguments.at or (None if is_watched else moment("end"))
        node = ReplayNode(arguments.replay, loaded, Clock(), Playing(loops=False), at)
        self._open.callback(node.close)
        for name in arguments.source:
            check_source(name, node.names())
        for warning in node.warnings():
            sys.stderr.write(f"telemetry: {clean(warning)}\n")
        return node, self._shown(node)

    def _shown(self, node: ReplayNode) -> Store:
        history = History(node.clock)
        owners = Attribution(node.clock) if any(tells_owners(parser) for parser in node.parsers()) else None
        accumulator = Accumulator(Events(), history)
        store = Store("", node.clock, (), accumulator, node.recorded, owners)
        store.set_peaks(known_peaks(self._settings))
        if self._arguments.watch is None:
            node.show(store, history, self._arguments.source)
        else:
            node.play(store, history)
        return store
