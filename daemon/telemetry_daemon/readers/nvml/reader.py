"""The library reader `nvml`: initialises the library when possible, and again when necessary, never in a loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from telemetry_daemon.readers.binding import SessionOverError
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.events import Inbox
from telemetry_daemon.readers.nvml.gpu import TIERS
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_daemon.readers.nvml.session import Session
from telemetry_parsers.library import CallError, ReaderRefusal

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain, Reason, State

# Do not fail without GPUs: an empty node is a valid answer.
_INIT_NO_GPUS = 1
# An initialisation costs half a second of CPU time on a node with eight GPUs.
_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 60.0
# A session of this age did not fail at its beginning.
_WELL_SECONDS = 60.0
# Only an initialisation finds the first GPU, or a GPU's changed layout.
_RENEWED_AFTER_SECONDS = 5.0
_LOOKED_FOR_AGAIN_SECONDS = 30.0
# Denied device nodes may be permitted later, but not soon.
_SLOW_TO_MEND = frozenset({codes.NO_PERMISSION, codes.OPERATING_SYSTEM, codes.UNKNOWN})


class NvmlReader:
    """Answers the calls `fast`, `counters`, `gpm`, `slow`, `links`, `processes` and `inventory`, which are the tiers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._nvml = Nvml()
        self._session: Session | None = None
        self._inbox = Inbox()
        self._began = 0.0
        self._initialised = False
        self._held = False
        self._pause = 0.0
        self._not_before = 0.0
        self._refused: tuple[State, Reason | None, str] | None = None

    def open(self) -> None:
        """Initialise the library and find the GPUs. Raise ReaderRefusal if that fails or must wait."""
        if self._held:
            text = "a thread does not come back from the library: the process has to be left"
            raise ReaderRefusal("failed", "driver_gone", text)
        if self._refused is not None and self._clock() < self._not_before:
            raise ReaderRefusal(*self._refused)
        try:
            self._begin()
        except SessionOverError as over:
            self.close()
            raise self._put_off(over.code, codes.refusal(over.code, codes.REFUSALS_AT_INIT)) from None

    def read(self, calls: Sequence[str]) -> Mapping[str, Plain | CallError]:
        """Return the answers of these tiers for the node, its GPUs and their events; all tiers if none are named."""
        return {tier: self._tier(tier) for tier in calls or TIERS}

    def close(self) -> None:
        """Release the GPUs and the library."""
        session, self._session = self._session, None
        if session is not None and not session.close():
            self._held = True  # shutting the library down under a waiting thread would crash
            return
        if self._initialised:
            self._nvml.call("nvmlShutdown")
            self._initialised = False

    def _tier(self, tier: str) -> Plain | CallError:
        if tier not in TIERS:
            return CallError(codes.FUNCTION_NOT_FOUND, f"the tiers are {' '.join(TIERS)}")
        if self._is_to_be_renewed():
            self.close()
            self.open()
        try:
            return self._opened().read(tier)
        except SessionOverError as over:
            self._over(over.code)
        try:
            return self._opened().read(tier)
        except SessionOverError as over:
            self.close()
            raise self._put_off(over.code, codes.refusal(over.code)) from None

    def _begin(self) -> None:
        """Begin a session. Raise SessionOverError if the library is missing or unusable."""
        self._nvml.load()
        self._nvml.require_call("nvmlInitWithFlags", _INIT_NO_GPUS)
        self._initialised = True
        self._began = self._clock()
        self._session = Session(self._nvml, self._clock, self._inbox)
        self._session.begin()

    def _opened(self) -> Session:
        if self._session is None:
            raise RuntimeError("read before open")
        return self._session

    def _is_to_be_renewed(self) -> bool:
        session, lived = self._opened(), self._clock() - self._began
        return (session.stale and lived >= _RENEWED_AFTER_SECONDS) or (
            session.empty and lived >= _LOOKED_FOR_AGAIN_SECONDS
        )

    def _over(self, code: int) -> None:
        """End the session. Allow a new one at once after a long session, else after a pause."""
        lived = self._clock() - self._began
        self.close()
        if lived >= _WELL_SECONDS:
            self._pause = 0.0
            self._refused = None
        else:
            self._put_off(code, codes.refusal(code))
        self.open()

    def _put_off(self, code: int, refusal: ReaderRefusal) -> ReaderRefusal:
        """Put off the next initialisation by 5, 10 … 60 s and return the refusal of all polls until then."""
        self._pause = min(2 * self._pause or _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        if code in _SLOW_TO_MEND:
            self._pause = _LONGEST_PAUSE_SECONDS
        self._not_before = self._clock() + self._pause
        self._refused = (refusal.state, refusal.reason, refusal.text)
        return refusal


READER = NvmlReader()
