"""Asks libacme.so.1: plain data out, one entry for each card, the library's own numbers in its own units."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

from telemetry_parsers.library import CallError, ReaderRefusal
from telemetry_parsers.model import Plain, Reason

LIBRARY = "libacme.so.1"
# The error numbers of acme_open() in acme.h, with the state or reason, and the remedy.
REFUSALS: dict[int, tuple[Reason, str]] = {
    1: ("driver_gone", "the Acme driver is not running: systemctl start acme-driver"),
    2: ("no_permission", "/dev/acme0 cannot be opened: add the user to the group acme"),
    3: ("library_mismatch", "libacme and the Acme driver differ in version: reboot"),
}
_TEXT_BYTES = 64


class AcmeReader:
    """Calls: `version`, the library's version; `cards`, its readings of each card."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None

    def open(self) -> None:
        """Load the library and connect to the driver."""
        try:
            library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise ReaderRefusal("missing", None, f"{error}: install acme-driver") from None
        status = library.acme_open()
        if status in REFUSALS:
            reason, text = REFUSALS[status]
            raise ReaderRefusal("failed", reason, text)
        if status:
            raise OSError(status, "acme_open failed")
        self._library = library

    def read(self, calls: Sequence[str]) -> Mapping[str, Plain | CallError]:
        """The answer to each call that is known here."""
        library = self._library
        if library is None:
            raise OSError("read before open")
        functions: Mapping[str, Callable[[ctypes.CDLL], Plain | CallError]] = {"version": _version, "cards": _cards}
        return {call: functions[call](library) for call in calls if call in functions}

    def close(self) -> None:
        """Disconnect, so that the driver can be stopped."""
        if self._library is not None:
            self._library.acme_close()
            self._library = None


def _version(library: ctypes.CDLL) -> Plain:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    library.acme_version(text, _TEXT_BYTES)
    return text.value.decode("ascii", "replace")


def _cards(library: ctypes.CDLL) -> Plain | CallError:
    count = ctypes.c_uint()
    status = library.acme_card_count(ctypes.byref(count))
    if status:
        return CallError(status, "acme_card_count failed")
    return [_card(library, index) for index in range(count.value)]


def _card(library: ctypes.CDLL, index: int) -> Plain:
    uuid = ctypes.create_string_buffer(_TEXT_BYTES)
    status = library.acme_card_uuid(index, uuid, _TEXT_BYTES)
    return {
        "index": index,
        "uuid": {"error": status} if status else uuid.value.decode("ascii", "replace"),
        "power_milliwatts": _number(library.acme_card_power, index),
        "temperature_celsius": _number(library.acme_card_temperature, index),
        "coolant_flow_percent": _number(library.acme_card_coolant_flow, index),
    }


def _number(function: Callable[..., int], index: int) -> Plain:
    """The number, or the error for which there is none; never 0 or -1 in its place."""
    value = ctypes.c_int()
    status = function(index, ctypes.byref(value))
    return {"error": status} if status else value.value


READER = AcmeReader()
