"""Decodes the events of a trace in blocks or, if a block is damaged, one by one."""

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
_NS_BY_DECIMALS = (1000, 100, 10, 1)  # index: decimals of a time in µs; item: nanoseconds per unit of its last digit
_SAFE_DIGITS = 20  # enough for Unix time in nanoseconds, and below the limit of int()
_PIECE_BYTES = 2**17
_EMPTY = msgspec.Raw(b"")
_WHITESPACE = b" \t\r\n"
_POSSIBLE_END = re.compile(rb"\}(?=\s*(,\s*\{\s*[\"}]|\]))")
_LAST_PART_BYTES = 64 * 2**10
_MAX_ATTEMPTS = 3
_READ_ERRORS = (OSError, EOFError, zlib.error, NotReadError)
NEAR_THE_END = 16  # if decoding fails this close to the end, the value is truncated

_NEXT_EVENT = re.compile(r"\}\s*,\s*(?=\{\s*\")")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_CORRELATION = re.compile(rb'"correlation"\s*:\s*"?(\d{1,18})[",}\s]')
_SEPARATORS = re.compile(r"[\s,]*")


class Event(msgspec.Struct, gc=False):
    """An event of a trace. Rarely needed fields are decoded only on access."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: msgspec.Raw = _EMPTY
    dur: msgspec.Raw = _EMPTY
    encoded_args: msgspec.Raw = msgspec.field(name="args", default=_EMPTY)

    def begin_ns(self) -> int | None:
        """Return the exact start in nanoseconds, or None if it is not a number."""
        return _microseconds_as_ns(self.ts)

    def length_ns(self) -> int | None:
        """Return the duration in nanoseconds, or None if it is not a number."""
        return _microseconds_as_ns(self.dur)

    def args(self) -> Mapping[str, Any]:
        """Return the arguments, or {} if they are not an object."""
        try:
            arguments = msgspec.json.decode(self.encoded_args)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}  # the arguments are missing or invalid
        return arguments if isinstance(arguments, dict) else {}

    def correlation(self) -> int | None:
        """Return the correlation ID, which links a launch to the launched work, or None if there is none."""
        match = _CORRELATION.search(self.encoded_args)
        return int(match[1]) if match else None


@dataclass(slots=True)
class Damage:
    """The number of unreadable events, and whether the end of the trace is missing."""

    unreadable_events: int = 0
    is_cut: bool = False


class Window:
    """The bytes of a stream that were read but not yet consumed."""

    def __init__(self, stream: BinaryIO, damage: Damage, block_bytes: int = BLOCK_BYTES) -> None:
        self._stream = stream
        self._block_bytes = block_bytes
        self._damage = damage
        self.data = b""
        self.has_ended = False

    def read_more(self) -> bool:
        """Read a block from the stream into the window. Return False at the end of the stream."""
        pieces = [] if self.has_ended else list(self._read_pieces())
        self.data = b"".join((self.data, *pieces))
        return bool(pieces)

    def _read_pieces(self) -> Iterator[bytes]:
        """Yield a block in small pieces, so that the data before a read error is not lost."""
        read_piece, read_bytes = getattr(self._stream, "read1", self._stream.read), 0
        while read_bytes < self._block_bytes:
            try:
                piece = read_piece(min(_PIECE_BYTES, self._block_bytes))
            except _READ_ERRORS:
                piece, self._damage.is_cut = b"", True
            if not piece:
                self.has_ended = True
                return
            read_bytes += len(piece)
            yield piece

    def consume(self, count: int) -> None:
        """Drop this many bytes from the start of the window."""
        self.data = self.data[count:]

    def peek(self, skipped: bytes = b"") -> bytes:
        """Skip whitespace and the given bytes. Return the next byte, which stays in the window, or b"" at the end."""
        while True:
            self.data = self.data.lstrip(_WHITESPACE + skipped)
            if self.data or not self.read_more():
                return self.data[:1]


_DECODER = msgspec.json.Decoder(list[Event])


@dataclass(frozen=True, slots=True)
class Block:
    """Decoded events. `consumed` is their size in bytes."""

    events: list[Event]
    consumed: int
    is_last: bool


def next_block(window: Window) -> Block | None:
    """Decode the complete events at the start of the window. Return None if one is damaged or none is complete."""
    data = window.data
    for attempt, match in enumerate(_possible_ends(data)):
        if attempt == _MAX_ATTEMPTS:
            return None
        try:
            events = _DECODER.decode(b"[%b]" % data[: match.end()])
        except (msgspec.ValidationError, UnicodeDecodeError):  # an event is invalid, so another end would not help
            return None
        except (msgspec.DecodeError, RecursionError):  # no event ends here: try the previous match
            continue
        return Block(events, match.end(), match[1] == b"]")
    return None


def _possible_ends(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield a match for each position where an event may end, from the last to the first."""
    last_part_start = max(0, len(data) - _LAST_PART_BYTES)
    yield from reversed(list(_POSSIBLE_END.finditer(data, last_part_start)))
    yield from reversed(list(_POSSIBLE_END.finditer(data, 0, last_part_start)))


def _microseconds_as_ns(raw: msgspec.Raw) -> int | None:
    printed = str(memoryview(raw), "ascii", "replace").strip('"')
    whole, _, decimals = printed.partition(".")
    digits = whole + decimals
    if len(decimals) < len(_NS_BY_DECIMALS) and len(digits) < _SAFE_DIGITS and digits.isdigit():  # usual, and faster
        return int(digits) * _NS_BY_DECIMALS[len(decimals)]
    return nanoseconds(printed, US)


class IncompleteError(ValueError):
    """The text ends inside a value."""


class MalformedError(ValueError):
    """The text is not JSON."""


class UnreadableError(MalformedError):
    """The text is JSON that Python cannot decode, such as deeply nested lists."""


@dataclass(slots=True)
class SingleEvents:
    """Events that were decoded one by one. `consumed` counts characters, and `unreadable` counts skipped events."""

    events: list[Event]
    consumed: int = 0
    unreadable: int = 0
    is_last: bool = False


def decode_singly(text: str) -> SingleEvents:
    """Decode events one by one, up to an incomplete event or the end of the list. `text` must begin with an event."""
    decoded = SingleEvents([])
    while True:
        decoded.consumed = _skip_pattern(_SEPARATORS, text, decoded.consumed)
        if decoded.consumed == len(text):
            return decoded
        if text[decoded.consumed] == "]":
            decoded.consumed, decoded.is_last = decoded.consumed + 1, True
            return decoded
        try:
            value, decoded.consumed = _value_or_none(text, decoded.consumed)
        except IncompleteError:  # the next block has the rest of the value
            return decoded
        _add_event(decoded, value)


def _value_or_none(text: str, start: int) -> tuple[Any, int]:
    """Return (value or None if unreadable, end). Raise IncompleteError if the text ends inside the value."""
    try:
        return value_at(text, start)
    except UnreadableError:
        return None, _value_end(text, start)
    except MalformedError:
        return None, next_event_start(text, start)


def _value_end(text: str, start: int) -> int:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text, start):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if depth == 0:
            return match.end()
    raise IncompleteError


def next_event_start(text: str, start: int) -> int:
    """Return the position where the next event probably starts, or the text's length if there is none."""
    match = _NEXT_EVENT.search(text, start)
    return match.end() if match else len(text)


def _skip_pattern(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _add_event(decoded: SingleEvents, value: object) -> None:
    if isinstance(value, dict):
        decoded.events.append(_to_event(value))
    else:
        decoded.unreadable += 1


def _to_event(value: dict[str, Any]) -> Event:
    return Event(
        _text(value.get("ph")),
        _text(value.get("cat")),
        _text(value.get("name")),
        _process_or_thread(value.get("pid", 0)),
        _process_or_thread(value.get("tid", 0)),
        _encoded(value.get("ts")),
        _encoded(value.get("dur")),
        _encoded(value.get("args")),
    )


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _process_or_thread(value: object) -> int | str:
    return value if isinstance(value, int | str) else str(value)


def _encoded(value: object) -> msgspec.Raw:
    printed = value.text if isinstance(value, _PrintedNumber) else json.dumps(value)
    return msgspec.Raw(printed.encode("ascii"))


class _PrintedNumber(float):
    """A number with the text from which it was parsed."""

    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number


_SINGLE_DECODER = json.JSONDecoder(parse_float=_PrintedNumber, parse_constant=lambda _name: None)


def value_at(text: str, start: int) -> tuple[Any, int]:
    """Return (value, end) for the value at `start`. Raise IncompleteError if it is cut off, else MalformedError."""
    try:
        return _SINGLE_DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) - NEAR_THE_END or error.msg.startswith("Unterminated string"):
            raise IncompleteError from None
        raise MalformedError from None
    except (ValueError, RecursionError):
        raise UnreadableError from None
