"""Reads Moore Threads cards through the library MTML."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from telemetry_daemon.readers.binding import FailedCall, SessionEndedError
from telemetry_daemon.readers.mtml import library
from telemetry_daemon.readers.mtml.card import TIERS, CardSlot
from telemetry_daemon.readers.mtml.library import Mtml
from telemetry_parsers.library import CallError, ReaderRefusal
from telemetry_parsers.typing_names import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# The pause between attempts. Initialisations leak memory, and opening a lost card may block.
_PAUSE_SECONDS = 30.0
_MAX_CARDS = 256


class MtmlReader:
    """Reads the cards with the calls `fast`, `slow` and `inventory`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mtml = Mtml()
        self._slots: list[CardSlot] = []
        self._node: dict[str, Plain] = {}
        self._is_initialised = False
        self._last_error_code = 0
        self._retry_at = 0.0

    def open(self) -> None:
        """Initialise the library and find the cards. Raises ReaderRefusal on failure."""
        if self._last_error_code and self._clock() < self._retry_at:
            raise library.refusal(self._last_error_code)
        try:
            self._initialise()
        except SessionEndedError as error:
            self.close()
            raise self._postpone(error.code) from None

    def read(self, calls: Sequence[str]) -> Mapping[str, Plain | CallError]:
        """Return the results of the tiers in `calls`, by default of all tiers."""
        return {tier: self._read_tier(tier) for tier in calls or TIERS}

    def close(self) -> None:
        """Release the cards and the library."""
        for slot in self._slots:
            slot.close()
        self._slots = []
        if self._is_initialised:
            self._mtml.call("mtmlLibraryShutDown")
            self._is_initialised = False

    def _read_tier(self, tier: str) -> Plain | CallError:
        if tier not in TIERS:
            return CallError(library.FUNCTION_NOT_FOUND, f"the tiers are {' '.join(TIERS)}")
        try:
            self._update_card_count()
            if tier == "slow" and any(slot.was_replaced() for slot in self._slots):
                self._find_cards()
            cards = [slot.read(tier) for slot in self._slots]
        except SessionEndedError as error:
            raise self._postpone(error.code) from None
        return {"node": dict(self._node), "cards": cards}

    def _initialise(self) -> None:
        self._mtml.load()
        self._mtml.require_call("mtmlLibraryInit")
        self._is_initialised = True
        self._node = {"driver": self._driver_version(), "library": self._value("mtmlLibraryGetVersion")}
        self._update_card_count()

    def _update_card_count(self) -> None:
        count = min(int(self._mtml.require_call("mtmlLibraryCountDevice")), _MAX_CARDS)
        self._node["count"] = count
        if count != len(self._slots):
            self._find_cards()

    def _find_cards(self) -> None:
        for slot in self._slots:
            slot.close()
        self._slots = [CardSlot(self._mtml, index, self._clock, _PAUSE_SECONDS) for index in range(self._node["count"])]

    def _driver_version(self) -> Plain:
        system = self._mtml.call("mtmlLibraryInitSystem")
        if isinstance(system, FailedCall):
            return None
        try:
            return self._value("mtmlSystemGetDriverVersion", system)
        finally:
            self._mtml.call("mtmlLibraryFreeSystem", system)

    def _value(self, function: str, *arguments: object) -> Plain:
        result = self._mtml.call(function, *arguments)
        return None if isinstance(result, FailedCall) else result

    def _postpone(self, code: int) -> ReaderRefusal:
        """Postpone the next initialisation. Return the exception to raise until then."""
        self._last_error_code, self._retry_at = code, self._clock() + _PAUSE_SECONDS
        return library.refusal(code)


READER = MtmlReader()
