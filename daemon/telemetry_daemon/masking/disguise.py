"""Derives stand-ins for identities. A stand-in has the same form, and cannot be reversed."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable

_PREFIX = re.compile(r"0[xX]|[A-Z]{2,4}-(?=[0-9a-fA-F]{8})")
# Leading zeros are not part of the value, because only some tools print them.
_HEX = re.compile(r"0*(?P<digits>[0-9a-f]+)\Z")
_OCTET = re.compile(r"[0-9]{1,3}")
# Maps a number of digits to the smallest and largest octet with that many digits.
_OCTET_RANGES = {1: (0, 9), 2: (10, 99), 3: (100, 255)}
_NONZERO_DIGITS = "123456789"
_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_HEX_LETTERS = "abcdef"
# Slurm's IDs use Crockford's base 32, which has only these letters.
_LETTERS = "abcdefghjkmnpqrstvwxyz"
# Common ideographs of equal width, one for each value of a byte.
_IDEOGRAPHS = range(0x4E00, 0x4E00 + 256)
# After this many attempts to find an unused stand-in, a used one is accepted.
_MAX_ATTEMPTS = 64

_Replacement = Callable[[str, int], str]


class StandIns:
    """Derives a stand-in for each value from a secret key. The same value always gets the same stand-in."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._stand_ins: dict[str, str] = {}
        self._used_stand_ins: set[str] = set()

    @property
    def value_count(self) -> int:
        """Return the number of values with a stand-in."""
        return len(self._stand_ins)

    def for_id(self, value: str) -> str:
        """Return the stand-in for an identity or name. Case and punctuation do not matter."""
        match = _PREFIX.match(value)
        prefix = match[0] if match else ""
        body = value[len(prefix) :]
        core = "".join(char.lower() if char.isascii() else char for char in body if char.isalnum())
        hex_match = _HEX.match(core)
        zeros = 0 if hex_match is None else hex_match.start("digits")
        stand_in = self._replace_each(core[zeros:], _replace_character if hex_match is None else _replace_hex_digit)
        replacements = iter("0" * zeros + stand_in)
        return prefix + "".join(_copy_case(old, next(replacements)) if old.isalnum() else old for old in body)

    def for_whole_number(self, value: str) -> str:
        """Return the stand-in for a decimal number. The same number in hexadecimal form gets a stand-in of equal value."""
        return str(int(self._replace_each(f"{int(value):x}", _replace_hex_digit), 16))

    def for_address(self, value: str) -> str:
        """Return the stand-in for an IP address, in the same form."""
        if isinstance(ipaddress.ip_address(without_leading_zeros(value)), ipaddress.IPv6Address) and "." not in value:
            return self._replace_each(value.lower(), _replace_hex_digit)
        return self._stand_in(value.lower(), _disguised_address)

    def _replace_each(self, value: str, replace: _Replacement) -> str:
        return self._stand_in(value, lambda value, hash_bytes: "".join(map(replace, value, hash_bytes)))

    def _stand_in(self, value: str, derive: Callable[[str, bytes], str]) -> str:
        if value not in self._stand_ins:
            self._stand_ins[value] = self._unused_stand_in(value, derive)
            self._used_stand_ins.add(self._stand_ins[value])
        return self._stand_ins[value]

    def _unused_stand_in(self, value: str, derive: Callable[[str, bytes], str]) -> str:
        """Return a stand-in that is not in use, if there is one."""
        rejected = []
        for attempt in range(_MAX_ATTEMPTS):
            stand_in = derive(value, self._hash_bytes(value, attempt))
            if stand_in != value:
                if stand_in not in self._used_stand_ins and stand_in not in self._stand_ins:
                    return stand_in
                rejected.append(stand_in)
        return next(iter(rejected), value)  # all stand-ins are in use, or the value has only zeros

    def _hash_bytes(self, value: str, attempt: int) -> bytes:
        value_digest = hashlib.blake2b(value.encode(), key=self._key).hexdigest()  # the value may be a megabyte long
        blocks = (
            hashlib.blake2b(f"{attempt} {block} {value_digest}".encode(), key=self._key).digest()
            for block in range(len(value) // 64 + 1)
        )
        return b"".join(blocks)


def without_leading_zeros(address: str) -> str:
    """Return an IPv4 address without leading zeros, such as `10.7.0.1`."""
    return _LEADING_ZEROS.sub("", address) if ":" not in address else address


def _replace_hex_digit(character: str, hash_byte: int) -> str:
    if character in _NONZERO_DIGITS:
        return _NONZERO_DIGITS[hash_byte % len(_NONZERO_DIGITS)]
    return _HEX_LETTERS[hash_byte % len(_HEX_LETTERS)] if character in _HEX_LETTERS else character


def _replace_character(character: str, hash_byte: int) -> str:
    if character in _NONZERO_DIGITS:
        return _NONZERO_DIGITS[hash_byte % len(_NONZERO_DIGITS)]
    if not character.isascii() and character.isdecimal():  # digits of another script
        return chr(ord(character) - int(character) + 1 + hash_byte % len(_NONZERO_DIGITS))
    if not character.isalpha():
        return character
    return _LETTERS[hash_byte % len(_LETTERS)] if character.isascii() else chr(_IDEOGRAPHS[hash_byte])


def _disguised_address(value: str, hash_bytes: bytes) -> str:
    """Return another address of the same form."""
    hex_groups, colon, last_part = value.rpartition(":")  # the last part may be an IPv4 address
    octet_bytes = iter(hash_bytes)

    def replaced_octet(match: re.Match[str]) -> str:
        least, greatest = _OCTET_RANGES[len(match[0])]
        return str(least + next(octet_bytes) % (greatest - least + 1))

    new_digits = map(_replace_hex_digit, hex_groups, reversed(hash_bytes))  # the octets use the first bytes
    return "".join(new_digits) + colon + _OCTET.sub(replaced_octet, last_part)


def _copy_case(old: str, new: str) -> str:
    return new.upper() if old.isupper() else new
