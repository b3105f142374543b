"""Stand-ins for identities: each has the shape of its value, is always the same for it, and cannot be reversed."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable
from itertools import count

_PREFIX = re.compile(r"0[xX]|[A-Z]{2,4}-(?=[0-9a-fA-F]{8})")
_HEX = re.compile(r"[0-9a-f]+\Z")
_DIGITS = "123456789"
_HEX_LETTERS = "abcdef"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# As many of the commonest ideographs, of the same width.
_IDEOGRAPHS = range(0x4E00, 0x4E00 + 256)
# After so many attempts two short values may get the same stand-in.
_MOST_ATTEMPTS = 64

_StandIn = Callable[[str, str, int], str]


class Disguise:
    """Gives each value a stand-in that depends on a key that nobody keeps."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._stand_ins: dict[str, str] = {}
        self._taken: set[str] = set()

    @property
    def values(self) -> int:
        """How many values have got a stand-in so far."""
        return len(self._stand_ins)

    def of_id(self, value: str) -> str:
        """The stand-in for an identity or name; the same if only case, dashes, dots, colons or prefix differ."""
        match = _PREFIX.match(value)
        prefix = match[0] if match else ""
        body = value[len(prefix) :]
        core = "".join(sign.lower() if sign.isascii() else sign for sign in body if sign.isalnum())
        fresh = iter(self._kept(core, _nibble if _HEX.match(core) else _letter))
        return prefix + "".join(_in_case_of(old, next(fresh)) if old.isalnum() else old for old in body)

    def of_whole_number(self, value: str) -> str:
        """The stand-in for an identity in decimal digits, which other sources print in hexadecimal ones."""
        return str(int(self._kept(f"{int(value):x}", _nibble), 16))

    def of_address(self, value: str) -> str:
        """The stand-in for an IP address: another address of the same form."""
        if isinstance(ipaddress.ip_address(value), ipaddress.IPv6Address) and "." not in value:
            return self._kept(value.lower(), _nibble)
        return self._kept(value.lower(), _octet_digit)

    def _kept(self, value: str, stand_in: _StandIn) -> str:
        if value not in self._stand_ins:
            self._stand_ins[value] = self._unlike_others(value, stand_in)
        return self._stand_ins[value]

    def _unlike_others(self, value: str, stand_in: _StandIn) -> str:
        for attempt in count():
            stand_in_value = _replaced(value, stand_in, self._stream(value, attempt))
            # It must not be another value or its stand-in: a uuid of nearly all zeros has only nine digits to choose from.
            if attempt == _MOST_ATTEMPTS or (
                stand_in_value not in self._taken and stand_in_value not in self._stand_ins and stand_in_value != value
            ):
                break
        self._taken.add(stand_in_value)
        return stand_in_value

    def _stream(self, value: str, attempt: int) -> bytes:
        blocks = (
            hashlib.blake2b(f"{attempt} {block} {value}".encode(), key=self._key).digest()
            for block in range(len(value) // 64 + 1)
        )
        return b"".join(blocks)


def _replaced(value: str, stand_in: _StandIn, stream: bytes) -> str:
    return "".join(stand_in(value[:place], old, stream[place]) for place, old in enumerate(value))


def _nibble(_before: str, old: str, choice: int) -> str:
    if old in _DIGITS:
        return _DIGITS[choice % len(_DIGITS)]
    return _HEX_LETTERS[choice % len(_HEX_LETTERS)] if old in _HEX_LETTERS else old


def _letter(_before: str, old: str, choice: int) -> str:
    if old in _DIGITS:
        return _DIGITS[choice % len(_DIGITS)]
    if not old.isalpha():
        return old
    return _LETTERS[choice % len(_LETTERS)] if old.isascii() else chr(_IDEOGRAPHS[choice])


def _octet_digit(before: str, old: str, choice: int) -> str:
    """A digit of an octet. The first digit of three becomes a 1, so that no octet is above 199."""
    if old not in _DIGITS:
        return _nibble(before, old, choice)
    starts = not before or before.endswith((".", ":"))
    return "1" if starts and old in "12" else _DIGITS[choice % len(_DIGITS)]


def _in_case_of(old: str, new: str) -> str:
    return new.upper() if old.isupper() else new
