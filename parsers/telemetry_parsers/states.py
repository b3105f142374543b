"""The states of polls and sources that mean success, failure, or neither."""

from __future__ import annotations

from telemetry_parsers.model import Health, State

# States after a successful last attempt.
SUCCESSFUL: frozenset[State] = frozenset({"ok", "no_devices", "suspended", "released"})
# States without an attempt.
NEITHER_UP_NOR_DOWN: frozenset[State] = frozenset({"missing", "not_mine", "disabled", "not_supported"})
# States after a failed last attempt.
UNSUCCESSFUL: frozenset[State] = frozenset({"failed", "stuck"})
# A source is in one of these states only if all its polls are.
OF_ALL_POLLS: frozenset[State] = frozenset({"disabled", "not_supported"})
# The prefix of the message if a library's worker could not be started.
NOT_STARTED = "the worker could not be started"
# The prefix of the message if a tool was not started because another process runs it.
BUSY = "another process runs it"


def is_up(health: Health, now: float) -> bool:
    """Return whether the last attempt of a poll succeeded and its result is still valid at the monotonic time `now`."""
    return health.state in SUCCESSFUL and now < health.expires
