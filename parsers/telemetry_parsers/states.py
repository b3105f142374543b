"""Which states of a poll or source mean success, and which are neither success nor failure."""

from __future__ import annotations

from telemetry_parsers.model import Health, State

# An attempt did what it should.
SUCCESSFUL: frozenset[State] = frozenset({"ok", "no_devices", "suspended", "released"})
# There was nothing to attempt.
NEITHER_UP_NOR_DOWN: frozenset[State] = frozenset({"missing", "not_mine", "disabled", "not_supported"})
# An attempt did not do what it should.
UNSUCCESSFUL: frozenset[State] = frozenset({"failed", "stuck"})
# States of a single poll, which say nothing of its source while another poll has any other state.
OF_ONE_POLL: frozenset[State] = frozenset({"disabled", "not_supported"})
# These words in a failure say that what runs a library has not begun; after them stands why.
NOT_STARTED = "the worker could not be started"
# These words in a failure say that the tool runs elsewhere; after them stands who runs it and what will happen.
BUSY = "another process runs it"


def is_up(health: Health, now: float) -> bool:
    """Whether the last attempt of a poll succeeded and is fresh; `now` is monotonic seconds."""
    return health.state in SUCCESSFUL and now < health.expires
