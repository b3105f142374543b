"""What the state of a poll or a source says: that it did what it should, that it failed, or neither."""

from __future__ import annotations

from telemetry_parsers.model import Health, State

# An attempt did what it should.
SUCCESSFUL: frozenset[State] = frozenset({"ok", "no_devices", "suspended", "released"})
# There was nothing to attempt.
NEITHER_UP_NOR_DOWN: frozenset[State] = frozenset({"missing", "not_mine", "disabled", "not_supported"})
# Of a single poll: it says nothing of its source, as long as any other poll does.
OF_ONE_POLL: frozenset[State] = frozenset({"disabled", "not_supported"})
# The words by which a failure tells that the tool runs elsewhere; behind them it says who runs it, and what will happen.
BUSY = "another process runs it"


def is_up(health: Health, now: float) -> bool:
    """Whether the last attempt of a poll succeeded and is fresh; `now` is monotonic seconds."""
    return health.state in SUCCESSFUL and now < health.expires
