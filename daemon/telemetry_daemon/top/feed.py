"""Feeds, which provide the readings that `top` shows. Each feed reads in its own threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from telemetry_exporters.terminal.frames.model import NodeState, View
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Snapshot
from telemetry_parsers.past import Past

REQUEST_TIMEOUT_SECONDS = 4.0
# If a response takes longer, the screen shows that the node does not answer.
UNREPORTED_DELAY_SECONDS = 0.8
INVALID_RESPONSE = "the response is not valid"


@dataclass(frozen=True, slots=True)
class Focus:
    """The visible view, and its node and card. An empty name stands for the first node or card."""

    view: View = View.CARDS
    node: str = ""
    card: str = ""
    shows_processes: bool = False


class Feed(Protocol):
    """The readings of one or more nodes. `start` and `close` return at once."""

    # The title line shows where the readings come from.
    title: str

    def start(self, wake: Callable[[], None]) -> None:
        """Start reading. `wake` is called from any thread after a change."""
        ...

    def nodes(self) -> tuple[NodeState, ...]:
        """Return the current state of each node."""
        ...

    def set_focus(self, focus: Focus) -> None:
        """Update the visible readings more often than the others. Return at once."""
        ...

    def press(self, key: str, /) -> bool:  # noqa: ARG002  # only a recording has keys
        """Handle a key, and return whether the feed used it."""
        return False

    def close(self) -> None:
        """Stop reading."""
        ...


class LatestState:
    """The newest state of a node, shared by the reading threads and the screen."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._state = NodeState(name)
        self._clock = clock
        self._received_at: float | None = None
        self._requested_at: float | None = None

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Store a new snapshot."""
        with self._lock:
            self._received_at = self._clock()
            self._state = replace(self._state, trouble="", snapshot=snapshot)

    def put_past(self, past: Past | None) -> None:
        """Store the history of the last half hour."""
        with self._lock:
            self._state = replace(self._state, past=past)

    def put_trouble(self, trouble: str) -> None:
        """Store the reason why reading failed. The last snapshot is kept."""
        with self._lock:
            self._state = replace(self._state, trouble=trouble)

    @contextlib.contextmanager
    def showing_delay(self) -> Iterator[None]:
        """Report in `state` that the node does not answer if the `with` block takes too long."""
        self._requested_at = self._clock()
        try:
            yield
        finally:
            self._requested_at = None

    def state(self) -> NodeState:
        """Return the newest state, with its age and with the reason why it is not newer."""
        now, requested_at = self._clock(), self._requested_at
        with self._lock:
            state = self._state
            age = None if self._received_at is None else now - self._received_at
        trouble = state.trouble
        if not trouble and requested_at is not None and now - requested_at > UNREPORTED_DELAY_SECONDS:
            trouble = f"no answer for {now - requested_at:.0f} s"
        if not trouble and age is None:
            trouble = "no answer yet"
        return replace(state, trouble=trouble, age_seconds=age)
