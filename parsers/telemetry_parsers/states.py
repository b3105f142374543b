"""The states of polls and sources that mean success, failure, or neither."""

from __future__ import annotations

from telemetry_parsers.model import Health, State

SUCCESSFUL: frozenset[State] = frozenset({"ok", "no_devices", "suspended", "released"})
NEITHER_UP_NOR_DOWN: frozenset[State] = frozenset({"missing", "not_mine", "disabled", "not_supported"})
UNSUCCESSFUL: frozenset[State] = frozenset({"failed", "stuck"})
# A source is in one of these states only if all its polls are in that state.
OF_ALL_POLLS: frozenset[State] = frozenset({"disabled", "not_supported"})
# A failure's message begins with this text if a library's worker could not be started.
NOT_STARTED = "the worker could not be started"
# A failure's message begins with this text if another process is running the tool.
BUSY = "another process runs it"


def is_up(health: Health, now: float) -> bool:
    """Return whether a poll succeeded and its result is valid at the monotonic time `now`."""
    return health.state in SUCCESSFUL and now < health.expires
