"""Stand-ins for identities: each has the shape of its value, is constant for that value, and cannot be reversed."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable

_PREFIX = re.compile(r"0[xX]|[A-Z]{2,4}-(?=[0-9a-fA-F]{8})")
# Tools print a number with or without leading zeros.
_HEX = re.compile(r"0*(?P<digits>[0-9a-f]+)\Z")
_OCTET = re.compile(r"[0-9]{1,3}")
# The least and the greatest number with this many digits.
_OCTETS = {1: (0, 9), 2: (10, 99), 3: (100, 255)}
_DIGITS = "123456789"
_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_HEX_LETTERS = "abcdef"
# Without the letters that are missing from Crockford's base 32, as in Slurm's IDs.
_LETTERS = "abcdefghjkmnpqrstvwxyz"
# The same number of common ideographs of the same width.
_IDEOGRAPHS = range(0x4E00, 0x4E00 + 256)
# After this many attempts two short values may get the same stand-in.
_MOST_ATTEMPTS = 64

_StandIn = Callable[[str, int], str]


class Disguise:
    """Returns a stand-in for each value, derived from a key that is not kept."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._stand_ins: dict[str, str] = {}
        self._taken: set[str] = set()

    @property
    def values(self) -> int:
        """Return how many values have a stand-in so far."""
        return len(self._stand_ins)

    def of_id(self, value: str) -> str:
        """Return the stand-in for an identity or name; the same if only case, dashes, dots, colons or prefix differ."""
        match = _PREFIX.match(value)
        prefix = match[0] if match else ""
        body = value[len(prefix) :]
        core = "".join(sign.lower() if sign.isascii() else sign for sign in body if sign.isalnum())
        number = _HEX.match(core)
        zeros = 0 if number is None else number.start("digits")
        fresh = iter("0" * zeros + self._kept(core[zeros:], _letter if number is None else _nibble))
        return prefix + "".join(_in_case_of(old, next(fresh)) if old.isalnum() else old for old in body)

    def of_whole_number(self, value: str) -> str:
        """Return the stand-in for an identity in decimal digits, which other sources print in hexadecimal."""
        return str(int(self._kept(f"{int(value):x}", _nibble), 16))

    def of_address(self, value: str) -> str:
        """Return the stand-in for an IP address: another address of the same form."""
        if isinstance(ipaddress.ip_address(without_zeros(value)), ipaddress.IPv6Address) and "." not in value:
            return self._kept(value.lower(), _nibble)
        return self._kept_of(value.lower(), _disguised_address)

    def _kept(self, value: str, stand_in: _StandIn) -> str:
        return self._kept_of(value, lambda value, stream: "".join(map(stand_in, value, stream)))

    def _kept_of(self, value: str, replaced: Callable[[str, bytes], str]) -> str:
        if value not in self._stand_ins:
            self._stand_ins[value] = self._unlike_others(value, replaced)
            self._taken.add(self._stand_ins[value])
        return self._stand_ins[value]

    def _unlike_others(self, value: str, replaced: Callable[[str, bytes], str]) -> str:
        """Return a stand-in that differs from all values and stand-ins so far, if possible: a UUID of nearly all zeros has only nine digits to choose from."""
        others = []
        for attempt in range(_MOST_ATTEMPTS):
            stand_in = replaced(value, self._stream(value, attempt))
            if stand_in != value:
                if stand_in not in self._taken and stand_in not in self._stand_ins:
                    return stand_in
                others.append(stand_in)
        return next(iter(others), value)  # a value of zeros is unchanged

    def _stream(self, value: str, attempt: int) -> bytes:
        seed = hashlib.blake2b(value.encode(), key=self._key).hexdigest()  # once: a value may be a megabyte
        blocks = (
            hashlib.blake2b(f"{attempt} {block} {seed}".encode(), key=self._key).digest()
            for block in range(len(value) // 64 + 1)
        )
        return b"".join(blocks)


def without_zeros(address: str) -> str:
    """Return an IPv4 address as Python reads it: `10.7.0.1` for `010.007.000.001`."""
    return _LEADING_ZEROS.sub("", address) if ":" not in address else address


def _nibble(old: str, choice: int) -> str:
    if old in _DIGITS:
        return _DIGITS[choice % len(_DIGITS)]
    return _HEX_LETTERS[choice % len(_HEX_LETTERS)] if old in _HEX_LETTERS else old


def _letter(old: str, choice: int) -> str:
    if old in _DIGITS:
        return _DIGITS[choice % len(_DIGITS)]
    if not old.isascii() and old.isdecimal():  # digits of another script, such as full-width digits
        return chr(ord(old) - int(old) + 1 + choice % len(_DIGITS))
    if not old.isalpha():
        return old
    return _LETTERS[choice % len(_LETTERS)] if old.isascii() else chr(_IDEOGRAPHS[choice])


def _disguised_address(value: str, stream: bytes) -> str:
    """Return an address with each number replaced by a number of as many digits, and each hexadecimal part, too."""
    head, colon, quad = value.rpartition(":")
    choices = iter(stream)

    def octet(match: re.Match[str]) -> str:
        least, greatest = _OCTETS[len(match[0])]
        return str(least + next(choices) % (greatest - least + 1))

    return "".join(map(_nibble, head, reversed(stream))) + colon + _OCTET.sub(octet, quad)


def _in_case_of(old: str, new: str) -> str:
    return new.upper() if old.isupper() else new
