"""Where `top` gets its readings from: a thread of its own for each, and the newest that is known for the screen."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from telemetry_exporters.terminal.frames.model import NodeState, View
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Snapshot
from telemetry_parsers.past import Past

# After so many seconds without news, what is shown is marked as old.
LONGEST_SILENCE_SECONDS = 15.0
# For an answer; a longer wait is shown while it lasts.
PATIENCE_SECONDS = 4.0
MOMENT_SECONDS = 0.8
NOT_UNDERSTOOD = "what it tells cannot be understood"


@dataclass(frozen=True, slots=True)
class Focus:
    """What the screen shows: of which node, and of which card if it is only one; empty for the first. `processes`: some are in sight."""

    view: View = View.CARDS
    node: str = ""
    card: str = ""
    processes: bool = False


class Feed(Protocol):
    """Readings of one or several nodes; `start` and `close` return at once, whatever hangs."""

    # Where the readings come from.
    title: str

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to read; `wake` is called from any thread when there is something new."""
        ...

    def nodes(self) -> tuple[NodeState, ...]:
        """What is known now."""
        ...

    def look_at(self, focus: Focus) -> None:
        """What is looked at, which is wanted first; returns at once."""
        ...

    def press(self, key: str, /) -> bool:  # noqa: ARG002  # what a daemon reports goes on
        """Take a key if it is for what feeds, and say whether it was: a recording stands still, or goes elsewhere."""
        return False

    def close(self) -> None:
        """Stop reading."""
        ...


class Known:
    """What some threads find out of a node, for another one that shows it."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._state = NodeState(name)
        self._clock = clock
        self._heard: float | None = None
        self._asked: float | None = None

    def put(self, snapshot: Snapshot) -> None:
        """This was read just now."""
        with self._lock:
            self._heard = self._clock()
            self._state = replace(self._state, trouble="", snapshot=snapshot)

    def put_past(self, past: Past | None) -> None:
        """The half hour until now."""
        with self._lock:
            self._state = replace(self._state, past=past)

    def fail(self, trouble: str) -> None:
        """Nothing could be read; what was read before grows older."""
        with self._lock:
            self._state = replace(self._state, trouble=trouble)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """While an answer is waited for."""
        self._asked = self._clock()
        try:
            yield
        finally:
            self._asked = None

    def state(self) -> NodeState:
        """What is known now, with its age."""
        now, asked = self._clock(), self._asked
        with self._lock:
            state = self._state
            age = None if self._heard is None else now - self._heard
        trouble = state.trouble
        if not trouble and asked is not None and now - asked > MOMENT_SECONDS:
            trouble = f"no answer for {now - asked:.0f} s"
        if not trouble and age is None:
            trouble = "no answer yet"
        return replace(state, trouble=trouble, age_seconds=age)
