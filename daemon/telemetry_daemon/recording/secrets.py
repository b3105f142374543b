"""Finds identities in a text: by the key before them, and by their shape."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from telemetry_parsers import units

Kind = Literal["id", "whole_number", "name", "address"]


@dataclass(frozen=True, slots=True)
class Secret:
    """A part of a text that tells whose machine it is."""

    start: int
    end: int
    kind: Kind


_IDS = (
    r"serial(?:[ _-]?(?:number|num|no))?|uuid|unique[ _]id|(?<![a-z])sn|die[ _]id|bar[ _]?code|asset[ _]tag"
    r"|(?<![a-z])mac(?:[ _-]?addr(?:ess)?)?|(?<![a-z])eid"
)
_NAMES = r"host[ _]?name|node[ _]?name|server[ _]id"
_ADDRESSES = r"(?<![a-z])ip[ _-]?(?:addr(?:ess)?)?|(?<![a-z])[a-z]{3,12}_ip|gateway"
# As a whole: of a file, of a key in JSON.
_KEY = re.compile(rf"(?:(?P<id>{_IDS})|(?P<name>{_NAMES})|(?P<address>{_ADDRESSES}))\Z", re.IGNORECASE)
_KEYED = re.compile(
    rf"(?:(?P<id>{_IDS})|(?P<name>{_NAMES})|(?P<address>{_ADDRESSES}))"
    r"[\"']?[ \t]{0,80}[:=][ \t]{0,40}[\"']?"
    r"(?P<value>[^\"'|,;\s}\]][^\"'|,;\r\n}\]]{0,200}?)(?=[\"'|,;\r\n}\]]|[ \t]{2}|[ \t]{0,2}$)",
    re.IGNORECASE | re.MULTILINE,
)
# `unique_id 1798419765837265167` of KFD's properties: what others print in hexadecimal digits.
_WHOLE_NUMBER = re.compile(r"^unique_id (?P<value>[0-9]{1,20})$", re.MULTILINE)
_UUID = re.compile(
    r"(?<![0-9a-zA-Z])(?:[A-Z]{2,4}-)?"
    r"(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?<=[A-Z]-)[0-9a-fA-F]{12,32})(?![0-9a-zA-Z])"
)
# The same without dashes, as the id of a fabric is told; but not a part of base64.
_BARE_UUID = re.compile(r"(?<![0-9a-zA-Z+/=])[0-9a-fA-F]{32}(?![0-9a-zA-Z+/=])")
_MAC = re.compile(r"(?<![0-9a-zA-Z:.-])[0-9a-fA-F]{2}(?:([:-])[0-9a-fA-F]{2})(?:\1[0-9a-fA-F]{2}){4}(?![0-9a-zA-Z:-])")
_ADDRESS = re.compile(r"(?<![0-9a-zA-Z.:])(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-fA-F:]{3,39})(?![0-9a-zA-Z.:])")
# A version of four numbers looks like an address.
_OF_VERSIONS = re.compile(r"version|driver|firmware|bios|library|release|smi v?\Z", re.IGNORECASE)
_HOME = re.compile(r"/home/(?P<value>[^/\s\"':]{1,64})")


def kind_of_key(key: str) -> Kind | None:
    """What stands under this key of JSON, or in the file of this name; None for what is no secret."""
    match = _KEY.search(key)
    return None if match is None else _kind(match)


def is_telling(value: str, kind: Kind) -> bool:
    """Whether a value tells anything: not `N/A`, `GPU-XX`, zeros, nor what somebody has masked already."""
    if kind == "name":
        return bool(value.strip()) and units.placeholder(value) is None
    if kind == "address":
        return _is_address(value)
    return any(character in "123456789" for character in value)


def secrets(text: str, known: re.Pattern[str] | None) -> tuple[Secret, ...]:
    """The secrets of a text in order, none within another; `known` finds those that are known to be some."""
    found: list[Secret] = []
    covered = bytearray(len(text))
    for find in _FINDERS:
        _keep(find(text), covered, found)
    if known is not None:
        _keep((Secret(match.start(), match.end(), "id") for match in known.finditer(text)), covered, found)
    return tuple(sorted(found, key=lambda secret: secret.start))


def whole_words(words: frozenset[str]) -> re.Pattern[str] | None:
    """Finds these words, where they are no parts of longer ones."""
    if not words:
        return None
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(rf"(?<![0-9a-zA-Z_])(?:{'|'.join(map(re.escape, longest_first))})(?![0-9a-zA-Z_])")


def _keep(candidates: Iterator[Secret], covered: bytearray, found: list[Secret]) -> None:
    for secret in candidates:
        if not any(covered[secret.start : secret.end]):
            found.append(secret)
            covered[secret.start : secret.end] = b"\1" * (secret.end - secret.start)


def _kind(match: re.Match[str]) -> Kind:
    if match["name"]:
        return "name"
    return "address" if match["address"] else "id"


def _keyed(text: str) -> Iterator[Secret]:
    for match in _KEYED.finditer(text):
        kind, value = _kind(match), match["value"]
        if kind == "address" and not _is_address(value):
            continue
        if is_telling(value, kind):
            yield Secret(match.start("value"), match.end("value"), kind)


def _whole_numbers(text: str) -> Iterator[Secret]:
    for match in _WHOLE_NUMBER.finditer(text):
        if is_telling(match["value"], "whole_number"):
            yield Secret(match.start("value"), match.end("value"), "whole_number")


def _uuids(text: str) -> Iterator[Secret]:
    for match in (*_UUID.finditer(text), *_BARE_UUID.finditer(text), *_MAC.finditer(text)):
        if is_telling(match[0], "id"):
            yield Secret(match.start(), match.end(), "id")


def _addresses(text: str) -> Iterator[Secret]:
    for match in _ADDRESS.finditer(text):
        if _is_address(match[0]) and not _OF_VERSIONS.search(_line_before(text, match.start())):
            yield Secret(match.start(), match.end(), "address")


def _homes(text: str) -> Iterator[Secret]:
    for match in _HOME.finditer(text):
        yield Secret(match.start("value"), match.end("value"), "name")


def _line_before(text: str, place: int) -> str:
    start = text.rfind("\n", max(0, place - 200), place)
    return text[max(start, place - 200) + 1 : place]


def _is_address(text: str) -> bool:
    # At least two parts: `::` alone, and `ab:cd` of a bus, are none.
    if text.count(".") != 3 and text.count(":") < 2:
        return False
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:  # that it is none is the answer
        return False


_FINDERS: tuple[Callable[[str], Iterator[Secret]], ...] = (_keyed, _whole_numbers, _uuids, _addresses, _homes)
