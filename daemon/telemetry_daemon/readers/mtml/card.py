"""Makes the calls on a card or on one of its MPC instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from telemetry_daemon.readers.binding import DeviceLostError, FailedCall, SessionEndedError, error_code
from telemetry_daemon.readers.mtml import calls, library
from telemetry_daemon.readers.mtml.calls import Call
from telemetry_daemon.readers.mtml.library import Mtml
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

_MAX_FANS = 16
_MAX_LINKS = 64
_MAX_INSTANCES = 64
_MPC_PARENT = 1
_TIERS: dict[str, tuple[Call, ...]] = {"fast": calls.FAST, "slow": calls.SLOW, "inventory": calls.INVENTORY}
TIERS = tuple(_TIERS)


class Card:
    """A card with its open handles."""

    def __init__(self, mtml: Mtml, index: int, handle: Any) -> None:
        self._mtml = mtml
        self._handles: dict[str, Any] = {"": handle}
        self._disabled: dict[str, int] = {}
        name, uuid, serial, bus_id = (self._value(call) for call in calls.IDENTITY)
        self.identity: dict[str, Plain] = {
            "index": index,
            "name": name,
            "uuid": uuid,
            "serial": serial,
            "bus_id": bus_id,
        }
        self._fan_count = self._read_count(calls.FAN_COUNT, _MAX_FANS)
        self._link_count = self._read_count(calls.LINK_COUNT, _MAX_LINKS)
        self._instances = list(self._open_mpc_instances())

    def read(self, tier: str) -> dict[str, Plain]:
        """Return the results of a tier. Raises DeviceLostError if the card no longer responds."""
        results = {call.key: self._make_call(call) for call in self._tier_calls(tier)}
        codes = {error_code(result) for result in results.values()}
        lost_codes = library.CARD_LOST_ERRORS.intersection(code for code in codes if code is not None)
        if lost_codes and None not in codes:
            raise DeviceLostError(min(lost_codes))
        return {**self.identity, "calls": results, "instances": [card.read(tier) for card in self._instances]}

    def was_replaced(self) -> bool:
        """Return whether the UUID at the card's index, or at the index of one of its instances, has changed."""
        return self._value(calls.UUID) not in (None, self.identity["uuid"]) or any(
            card.was_replaced() for card in self._instances
        )

    def close(self) -> None:
        """Free the handles of the card and its instances."""
        for card in self._instances:
            card.free_parts()
        self.free_parts()
        self._mtml.call("mtmlLibraryFreeDevice", self._handles[""])

    def free_parts(self) -> None:
        """Free the handles of the card's parts."""
        for part, (_, free) in calls.PARTS.items():
            handle = self._handles.pop(part, None)
            if handle is not None:
                self._mtml.call(free, handle)

    def _tier_calls(self, tier: str) -> Iterable[Call]:
        yield from _TIERS[tier]
        if tier == "slow":
            yield from map(calls.fan_speed, range(self._fan_count))
            yield from map(calls.link_state, range(self._link_count))

    def _make_call(self, call: Call) -> Plain:
        code = self._disabled.get(call.key)
        if code is not None:
            return {"error": code}
        handle = self._get_or_create_handle(call.part)
        result = handle
        if not isinstance(handle, FailedCall):
            result = self._mtml.call(call.function, handle, *call.arguments, convert=call.convert)
        if not isinstance(result, FailedCall):
            return result
        if result.code in library.SESSION_ENDING_ERRORS:
            raise SessionEndedError(result.code)
        if result.code in library.DISABLING_ERRORS:
            self._disabled[call.key] = result.code
        return {"error": result.code}

    def _get_or_create_handle(self, part: str) -> Any:
        if part not in self._handles:
            handle = self._mtml.call(calls.PARTS[part][0], self._handles[""])
            if isinstance(handle, FailedCall):
                return handle
            self._handles[part] = handle
        return self._handles[part]

    def _value(self, call: Call) -> Plain:
        result = self._make_call(call)
        return None if error_code(result) is not None else result

    def _read_count(self, call: Call, max_count: int) -> int:
        value = self._value(call)
        return min(value, max_count) if isinstance(value, int) else 0

    def _open_mpc_instances(self) -> Iterable[Card]:
        properties = self._value(calls.PROPERTY)
        if not isinstance(properties, dict) or properties["mpcType"] != _MPC_PARENT:
            return
        for index in range(self._read_count(calls.INSTANCE_COUNT, _MAX_INSTANCES)):
            handle = self._mtml.call("mtmlDeviceGetMpcInstanceByIndex", self._handles[""], index)
            if not isinstance(handle, FailedCall):
                yield Card(self._mtml, index, handle)


class CardSlot:
    """The card at an index of the library. The card may be lost."""

    def __init__(self, mtml: Mtml, index: int, clock: Callable[[], float], retry_seconds: float) -> None:
        self._mtml = mtml
        self._index = index
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._card: Card | None = None
        self._identity: dict[str, Plain] = {"index": index}
        self._lost_code = 0
        self._retry_at = 0.0
        self._find_card()

    def read(self, tier: str) -> dict[str, Plain]:
        """Return a tier's results. If the card is lost, return its identity and the error."""
        if self._card is None and self._clock() >= self._retry_at:
            self._find_card()
        if self._card is not None:
            try:
                return self._card.read(tier)
            except DeviceLostError as error:
                self._mark_as_lost(error.code)
        return {**self._identity, "lost": {"error": self._lost_code}}

    def was_replaced(self) -> bool:
        """Return whether another card now has this index."""
        return self._card is not None and self._card.was_replaced()

    def close(self) -> None:
        """Free the card's handles."""
        if self._card is not None:
            self._card.close()
            self._card = None

    def _find_card(self) -> None:
        handle = self._mtml.call("mtmlLibraryInitDeviceByIndex", self._index)
        if isinstance(handle, FailedCall):
            self._mark_as_lost(handle.code)
            return
        self._card = Card(self._mtml, self._index, handle)
        if any(self._card.identity[key] is not None for key in ("uuid", "bus_id")):
            self._identity = self._card.identity

    def _mark_as_lost(self, code: int) -> None:
        if code in library.SESSION_ENDING_ERRORS:
            raise SessionEndedError(code)
        self.close()
        self._lost_code = code
        self._retry_at = self._clock() + self._retry_seconds
