"""Blocks of typed events of a Chrome trace: cut at `},{` or `}]` and decoded; if no cut decodes, `walk` reads the block value by value."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec
from typing_extensions import Self

from telemetry_profile.facts.printed_numbers import US, nanoseconds
from telemetry_profile.format_contract import NotReadError

BLOCK_BYTES = 4 * 2**20
_SCALES = (1000, 100, 10, 1)  # nanoseconds, by the number of decimals of microseconds
_SAFE_DIGITS = 20  # enough for Unix time in nanoseconds, and fewer than int() refuses
_PIECE_BYTES = 2**17
_NOTHING = msgspec.Raw(b"")
_SPACE = b" \t\r\n"
_CUT = re.compile(rb"\}(?=\s*(,\s*\{\s*[\"}]|\]))")
_CUT_WINDOW = 64 * 2**10
_MOST_TRIES = 3
_READ_ERRORS = (OSError, EOFError, zlib.error, NotReadError)
NEAR_THE_END = 16  # a cut number, literal or escape causes an error no farther from the end

_NEXT_EVENT = re.compile(r"\}\s*,\s*(?=\{\s*\")")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_CORRELATION = re.compile(rb'"correlation"\s*:\s*"?(\d{1,18})[",}\s]')
_BETWEEN = re.compile(r"[\s,]*")


class Event(msgspec.Struct, gc=False):
    """An event; fields that are seldom needed stay encoded."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING
    inner: msgspec.Raw = msgspec.field(name="args", default=_NOTHING)

    def begin_ns(self) -> int | None:
        """Return the begin, from microseconds as a number or in quotes, without losing a digit."""
        return _from_microseconds(self.ts)

    def length_ns(self) -> int | None:
        """Return the length."""
        return _from_microseconds(self.dur)

    def args(self) -> Mapping[str, Any]:
        """Return the arguments, empty if they are not an object."""
        try:
            found = msgspec.json.decode(self.inner)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}  # missing or invalid arguments count as none
        return found if isinstance(found, dict) else {}

    def correlation(self) -> int | None:
        """Return the number that a launch and the launched work have in common, without decoding the other arguments."""
        found = _CORRELATION.search(self.inner)
        return int(found[1]) if found else None


@dataclass(slots=True)
class Damage:
    """The unreadable parts of a trace: a number of events, or everything after a cut."""

    events: int = 0
    is_cut: bool = False


class Window:
    """The bytes of a stream that are read and not yet used; an error of the stream is its end, and a cut."""

    def __init__(self, stream: BinaryIO, damage: Damage, block_bytes: int = BLOCK_BYTES) -> None:
        self._stream = stream
        self._block_bytes = block_bytes
        self._damage = damage
        self.data = b""
        self.has_ended = False

    def grow(self) -> bool:
        """Read another block; return whether there was one."""
        pieces = [] if self.has_ended else list(self._pieces())
        self.data = b"".join((self.data, *pieces))
        return bool(pieces)

    def _pieces(self) -> Iterator[bytes]:
        """Yield small pieces, so that the data before an error is not lost."""
        read, size = getattr(self._stream, "read1", self._stream.read), 0
        while size < self._block_bytes:
            try:
                piece = read(min(_PIECE_BYTES, self._block_bytes))
            except _READ_ERRORS:
                piece, self._damage.is_cut = b"", True
            if not piece:
                self.has_ended = True
                return
            size += len(piece)
            yield piece

    def use(self, count: int) -> None:
        """Drop used bytes."""
        self.data = self.data[count:]

    def first(self, also: bytes = b"") -> bytes:
        """Return the next byte that is neither a blank nor in `also`; b"" at the end."""
        while True:
            self.data = self.data.lstrip(_SPACE + also)
            if self.data or not self.grow():
                return self.data[:1]


_DECODER = msgspec.json.Decoder(list[Event])


@dataclass(frozen=True, slots=True)
class Block:
    """Events, the number of their bytes, and whether the list of events ends after them."""

    events: list[Event]
    used: int
    is_last: bool


def next_block(window: Window) -> Block | None:
    """Return the events up to the last cut that decodes; None if none of the last cuts does."""
    data = window.data
    for number, cut in enumerate(_cuts(data)):
        if number == _MOST_TRIES:
            return None
        try:
            events = _DECODER.decode(b"[%b]" % data[: cut.end()])
        except (msgspec.ValidationError, UnicodeDecodeError):  # an invalid event: no other cut helps
            return None
        except (msgspec.DecodeError, RecursionError):  # the cut was inside an event: try the previous cut
            continue
        return Block(events, cut.end(), cut[1] == b"]")
    return None


def _cuts(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the positions where events may end, the last first."""
    since = max(0, len(data) - _CUT_WINDOW)
    yield from reversed(list(_CUT.finditer(data, since)))
    yield from reversed(list(_CUT.finditer(data, 0, since)))


def _from_microseconds(raw: msgspec.Raw) -> int | None:
    """Return nanoseconds; for up to three decimals, which are usual, this takes a third of the time of `nanoseconds`."""
    printed = str(memoryview(raw), "ascii", "replace").strip('"')
    before, _, behind = printed.partition(".")
    digits = before + behind
    if len(behind) < len(_SCALES) and len(digits) < _SAFE_DIGITS and digits.isdigit():
        return int(digits) * _SCALES[len(behind)]
    return nanoseconds(printed, US)


class IncompleteError(ValueError):
    """The text ends inside a value."""


class MalformedError(ValueError):
    """The text is not JSON."""


class UnreadableError(MalformedError):
    """The text is JSON that Python does not read: a number of thousands of digits, or deeply nested lists."""


@dataclass(slots=True)
class Walk:
    """Events that were read separately; `used` counts characters, and `is_last` means that the list of events ended."""

    events: list[Event]
    used: int = 0
    lost: int = 0
    is_last: bool = False


def walk(text: str) -> Walk:
    """Return the readable events of a text that begins with an event, and the number of malformed events."""
    found = Walk([])
    while True:
        found.used = _after(_BETWEEN, text, found.used)
        if found.used == len(text):
            return found
        if text[found.used] == "]":
            found.used, found.is_last = found.used + 1, True
            return found
        try:
            value, found.used = _value_or_none(text, found.used)
        except IncompleteError:  # the next block has the rest of the value
            return found
        _keep(found, value)


def _value_or_none(text: str, start: int) -> tuple[Any, int]:
    """Return the value at this position, None for an unreadable value, and the position after it. Raise IncompleteError."""
    try:
        return value_at(text, start)
    except UnreadableError:
        return None, _end_of_value(text, start)
    except MalformedError:
        return None, next_event(text, start)


def _end_of_value(text: str, start: int) -> int:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text, start):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if depth == 0:
            return match.end()
    raise IncompleteError


def next_event(text: str, start: int) -> int:
    """Return the likely begin of the next event after a broken event; the end of the text if there is none."""
    seen = _NEXT_EVENT.search(text, start)
    return seen.end() if seen else len(text)


def _after(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _keep(found: Walk, value: object) -> None:
    if isinstance(value, dict):
        found.events.append(_event(value))
    else:
        found.lost += 1


def _event(value: dict[str, Any]) -> Event:
    return Event(
        _printed(value.get("ph")),
        _printed(value.get("cat")),
        _printed(value.get("name")),
        _lane(value.get("pid", 0)),
        _lane(value.get("tid", 0)),
        _raw(value.get("ts")),
        _raw(value.get("dur")),
        _raw(value.get("args")),
    )


def _printed(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _lane(value: object) -> int | str:
    return value if isinstance(value, int | str) else str(value)


def _raw(value: object) -> msgspec.Raw:
    printed = value.text if isinstance(value, _Printed) else json.dumps(value)
    return msgspec.Raw(printed.encode("ascii"))


class _Printed(float):
    """A number that remembers its digits."""

    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number


_STRAY_DECODER = json.JSONDecoder(parse_float=_Printed, parse_constant=lambda _name: None)


def value_at(text: str, start: int) -> tuple[Any, int]:
    """Return the value at this position, and its end."""
    try:
        return _STRAY_DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) - NEAR_THE_END or error.msg.startswith("Unterminated string"):
            raise IncompleteError from None
        raise MalformedError from None
    except (ValueError, RecursionError):
        raise UnreadableError from None
