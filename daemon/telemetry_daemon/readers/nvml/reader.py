"""Reads NVIDIA GPUs through the library NVML."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from telemetry_daemon.readers.binding import SessionEndedError
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.events import EventInbox
from telemetry_daemon.readers.nvml.gpu import TIERS
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_daemon.readers.nvml.session import Session
from telemetry_parsers.library import CallError, ReaderRefusal
from telemetry_parsers.typing_names import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain, Reason, State

# With this flag, the initialisation succeeds on a node without GPUs.
_INIT_NO_GPUS = 1
# An initialisation takes half a second of CPU time on a node with eight GPUs.
_FIRST_PAUSE_SECONDS = 5.0
_MAX_PAUSE_SECONDS = 60.0
# A session that failed after working for this long is replaced at once.
_MIN_WORKING_SECONDS = 60.0
# Only a new session finds new MIG instances, or a node's first GPU. A younger session is not replaced.
_MIN_AGE_IF_OUTDATED_SECONDS = 5.0
_MIN_AGE_IF_EMPTY_SECONDS = 30.0
# These errors rarely disappear soon. A typical cause is a denied device node.
_PERSISTENT_ERRORS = frozenset({codes.NO_PERMISSION, codes.OPERATING_SYSTEM, codes.UNKNOWN})


class NvmlReader:
    """Reads the GPUs with calls such as `fast` and `counters`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._nvml = Nvml()
        self._session: Session | None = None
        self._inbox = EventInbox()
        self._session_started_at = 0.0
        self._is_initialised = False
        self._is_thread_blocked = False
        self._pause_seconds = 0.0
        self._retry_at = 0.0
        self._last_refusal: tuple[State, Reason | None, str] | None = None

    def open(self) -> None:
        """Initialise the library and find the GPUs. Raises ReaderRefusal on failure."""
        if self._is_thread_blocked:
            text = "a thread is blocked in the library; the worker must be restarted"
            raise ReaderRefusal("failed", "driver_gone", text)
        if self._last_refusal is not None and self._clock() < self._retry_at:
            raise ReaderRefusal(*self._last_refusal)
        try:
            self._begin_session()
        except SessionEndedError as error:
            self.close()
            raise self._postpone(error.code, codes.refusal(error.code, codes.REFUSALS_AT_INIT)) from None

    def read(self, calls: Sequence[str]) -> Mapping[str, Plain | CallError]:
        """Return the results of the tiers in `calls`, by default of all tiers."""
        return {tier: self._read_tier(tier) for tier in calls or TIERS}

    def close(self) -> None:
        """Release the GPUs and the library."""
        session, self._session = self._session, None
        if session is not None and not session.close():
            self._is_thread_blocked = True  # nvmlShutdown would crash the thread
            return
        if self._is_initialised:
            self._nvml.call("nvmlShutdown")
            self._is_initialised = False

    def _read_tier(self, tier: str) -> Plain | CallError:
        if tier not in TIERS:
            return CallError(codes.FUNCTION_NOT_FOUND, f"the tiers are {' '.join(TIERS)}")
        if self._needs_new_session():
            self.close()
            self.open()
        try:
            return self._require_session().read(tier)
        except SessionEndedError as error:
            self._replace_session(error.code)
        try:
            return self._require_session().read(tier)
        except SessionEndedError as error:
            self.close()
            raise self._postpone(error.code, codes.refusal(error.code)) from None

    def _begin_session(self) -> None:
        self._nvml.load()
        self._nvml.require_call("nvmlInitWithFlags", _INIT_NO_GPUS)
        self._is_initialised = True
        self._session_started_at = self._clock()
        self._session = Session(self._nvml, self._clock, self._inbox)
        self._session.find_gpus()

    def _require_session(self) -> Session:
        if self._session is None:
            raise RuntimeError("read before open")
        return self._session

    def _needs_new_session(self) -> bool:
        session, age = self._require_session(), self._clock() - self._session_started_at
        return (session.is_outdated and age >= _MIN_AGE_IF_OUTDATED_SECONDS) or (
            session.has_no_gpus and age >= _MIN_AGE_IF_EMPTY_SECONDS
        )

    def _replace_session(self, code: int) -> None:
        age = self._clock() - self._session_started_at
        self.close()
        if age >= _MIN_WORKING_SECONDS:
            self._pause_seconds = 0.0
            self._last_refusal = None
        else:
            self._postpone(code, codes.refusal(code))
        self.open()

    def _postpone(self, code: int, refusal: ReaderRefusal) -> ReaderRefusal:
        """Postpone the next initialisation. Return the exception to raise until then."""
        self._pause_seconds = min(2 * self._pause_seconds or _FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
        if code in _PERSISTENT_ERRORS:
            self._pause_seconds = _MAX_PAUSE_SECONDS
        self._retry_at = self._clock() + self._pause_seconds
        self._last_refusal = (refusal.state, refusal.reason, refusal.text)
        return refusal


READER = NvmlReader()
