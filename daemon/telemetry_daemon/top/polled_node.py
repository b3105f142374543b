"""The feed of a real, simulated or recorded node that `top` polls in its own process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.polling.node_sources import Node
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.polling.source import Source
from telemetry_daemon.readers.pci import read_machine_state
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.attribution import Attribution
from telemetry_daemon.state.events import Events
from telemetry_daemon.state.history import History
from telemetry_daemon.state.peaks import configured_peaks
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_daemon.top.feed import Focus
from telemetry_exporters.terminal.frames.model import NodeState
from telemetry_parsers.past import SLOT_SECONDS, Past

_CLOSE_SECONDS = 2.5
# The interval of frames while the history is filled. A shorter interval would slow the filling down.
_FRAME_SECONDS = 0.25


class PolledNode:
    """A feed that polls a node's sources in this process."""

    def __init__(
        self,
        title: str,
        hostname: str,
        node: Node,
        settings: Settings,
        clock: Clock,
        press: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.title = title
        self.press = press
        self._node = node
        self._settings = settings
        self._clock = node.clock
        self._history = History(node.clock)
        accumulator = Accumulator(Events(read_machine_state()), self._history)
        owners = Attribution(node.clock) if settings.attribution.enabled else None
        self._store = Store(hostname, node.clock, (), accumulator, node.replay_info, owners)
        self._store.facts.set_peaks(configured_peaks(settings))
        self._poller = Poller(self._store, clock)
        self._state = NodeState(hostname)
        self._past: Past | None = None
        self._past_valid_until = 0.0
        self._starting_thread: threading.Thread | None = None
        self._is_ready, self._next_wake_time = False, 0.0

    def start(self, wake: Callable[[], None]) -> None:
        """Start polling in another thread."""
        self._store.set_change_callback(partial(self._wake_screen, wake))
        self._starting_thread = threading.Thread(
            target=self._start_polling, args=(self._node.sources(self._settings),), name="start", daemon=True
        )
        self._starting_thread.start()

    def nodes(self) -> tuple[NodeState, ...]:
        """Return the state of the only node."""
        snapshot, now = self._store.snapshot(), time.monotonic()
        if now >= self._past_valid_until:
            self._past, self._past_valid_until = self._history.past(), now + 1.0
        ready, reason = self._store.readiness()
        age = max(0.0, self._clock.monotonic() - snapshot.monotonic_time)
        trouble = "" if ready or snapshot.devices else reason
        self._state = NodeState(self._state.name, snapshot, self._past, trouble, age, cache=self._state.cache)
        return (self._state,)

    def set_focus(self, focus: Focus) -> None:
        """Ignore the focus, because everything is polled."""

    def close(self) -> None:
        """Stop polling within a time limit."""
        thread = threading.Thread(target=self._close_all, name="end", daemon=True)
        thread.start()
        thread.join(_CLOSE_SECONDS)

    def _wake_screen(self, wake: Callable[[], None]) -> None:
        now = time.monotonic()
        if self._is_ready or now >= self._next_wake_time:
            self._next_wake_time = now + _FRAME_SECONDS
            wake()

    def _start_polling(self, sources: Sequence[Source]) -> None:
        self._node.start_filling(self._store, self._history, sources)
        self._is_ready = True
        self._poller.start(sources)
        self._poller.run_every("history", SLOT_SECONDS, lambda: self._history.end_slots(self._store.snapshot))

    def _close_all(self) -> None:
        if self._starting_thread is not None:
            self._starting_thread.join()
        self._poller.stop()
        self._node.close()
