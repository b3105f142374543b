"""Which states of a poll or source mean success, and which are neither success nor failure."""

from __future__ import annotations

from telemetry_parsers.model import Health, State

# An attempt succeeded.
SUCCESSFUL: frozenset[State] = frozenset({"ok", "no_devices", "suspended", "released"})
# There was nothing to attempt.
NEITHER_UP_NOR_DOWN: frozenset[State] = frozenset({"missing", "not_mine", "disabled", "not_supported"})
# An attempt failed.
UNSUCCESSFUL: frozenset[State] = frozenset({"failed", "stuck"})
# States of a single poll. They do not apply to its source while another poll has any other state.
OF_ONE_POLL: frozenset[State] = frozenset({"disabled", "not_supported"})
# A failure with these words, followed by the reason, means that the worker of a library did not start.
NOT_STARTED = "the worker could not be started"
# A failure with these words, followed by the process and the consequence, means that another process runs the tool.
BUSY = "another process runs it"


def is_up(health: Health, now: float) -> bool:
    """Return whether the last attempt of a poll succeeded and is fresh; `now` is monotonic seconds."""
    return health.state in SUCCESSFUL and now < health.expires
