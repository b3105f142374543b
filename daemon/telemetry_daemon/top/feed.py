"""Where `top` gets its readings from: a thread of its own for each, and the newest that is known for the screen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from telemetry_exporters.frames.model import NodeState
from telemetry_exporters.past import Past
from telemetry_parsers.model import Snapshot

# After so many seconds without news, what is shown is marked as old.
LONGEST_SILENCE_SECONDS = 15.0
# For an answer.
PATIENCE_SECONDS = 4.0
SHORTEST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 1.0, 15.0


class Feed(Protocol):
    """Readings of one or several nodes; `start` and `close` return at once, whatever hangs."""

    @property
    def title(self) -> str:
        """Where the readings come from."""
        ...

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to read; `wake` is called from any thread when there is something new."""
        ...

    def nodes(self) -> tuple[NodeState, ...]:
        """What is known now."""
        ...

    def look_at(self, node: str) -> None:
        """The node that is looked at: its past is wanted."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class Known:
    """What one thread finds out of a node, for another one that shows it."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._state = NodeState(name, trouble="no answer yet")
        self._clock = clock
        self._heard: float | None = None

    def put(self, snapshot: Snapshot, past: Past | None) -> None:
        """These were read just now."""
        with self._lock:
            self._heard = self._clock()
            self._state = replace(self._state, trouble="", snapshot=snapshot, past=past)

    def fail(self, trouble: str) -> None:
        """Nothing could be read; what was read before grows older."""
        with self._lock:
            self._state = replace(self._state, trouble=trouble)

    def state(self) -> NodeState:
        """What is known now, with its age."""
        with self._lock:
            if self._heard is None:
                return self._state
            silence = self._clock() - self._heard
            trouble = self._state.trouble or ("no news" if silence > LONGEST_SILENCE_SECONDS else "")
            return replace(self._state, trouble=trouble, age_seconds=silence)
