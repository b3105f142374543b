"""What can go wrong, each with a line that names the thing and the remedy."""

from __future__ import annotations


class TelemetryError(Exception):
    """Anything that keeps a reading from being made."""


class NotReachableError(TelemetryError):
    """No daemon answers at the given address, or the tools could not be read."""


class NotUnderstoodError(TelemetryError):
    """The answer is not what this version understands: it is of another program, or of an older or newer daemon."""
