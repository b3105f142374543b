"""The events of a Chrome trace, typed, in blocks.

A block is cut behind an event by its look, `},{` or `}]`. Whether the cut was right is seen by decoding it; where no cut decodes,
`stray.py` goes through the block event by event.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec

from telemetry_profile.contract import NotReadError
from telemetry_profile.facts.printed_times import US, nanoseconds

BLOCK_BYTES = 4 * 2**20
_SCALES = (1000, 100, 10, 1)  # nanoseconds, by the digits behind the point of microseconds
_SAFE_DIGITS = 20  # as many as Unix time in nanoseconds has, and less than what int() refuses
_PIECE_BYTES = 2**17
_NOTHING = msgspec.Raw(b"")
_SPACE = b" \t\r\n"
_CUT = re.compile(rb"\}(?=\s*(,\s*\{\s*[\"}]|\]))")
_CUT_WINDOW = 64 * 2**10
_MOST_TRIES = 3
_READ_ERRORS = (OSError, EOFError, zlib.error, NotReadError)


class Event(msgspec.Struct, gc=False):
    """One event; what is seldom asked for stays as it is printed."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING
    inner: msgspec.Raw = msgspec.field(name="args", default=_NOTHING)

    def begin_ns(self) -> int | None:
        """When it began: microseconds, as a number or in quotes, without losing a digit."""
        return _from_microseconds(self.ts)

    def length_ns(self) -> int | None:
        """How long it took."""
        return _from_microseconds(self.dur)

    def args(self) -> Mapping[str, Any]:
        """The arguments; empty where there are none, or where they are no object."""
        try:
            found = msgspec.json.decode(self.inner)
        except (
            msgspec.DecodeError,
            UnicodeDecodeError,
            RecursionError,
        ):  # none, or nonsense: an event without arguments
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(slots=True)
class Damage:
    """What could not be read of a trace: so many events, or all from some place on."""

    events: int = 0
    is_cut: bool = False


class Window:
    """The bytes of a stream that are read and not yet used. A stream that breaks off ends, and is noted as cut."""

    def __init__(self, stream: BinaryIO, damage: Damage, block_bytes: int = BLOCK_BYTES) -> None:
        self._stream = stream
        self._block_bytes = block_bytes
        self._damage = damage
        self.data = b""
        self.has_ended = False

    def grow(self) -> bool:
        """Read one more block; whether there was one."""
        pieces = [] if self.has_ended else list(self._pieces())
        self.data = b"".join((self.data, *pieces))
        return bool(pieces)

    def _pieces(self) -> Iterator[bytes]:
        """As much as comes at once, again and again: what came before an error is not lost."""
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
        """Drop what was used."""
        self.data = self.data[count:]

    def first(self, also: bytes = b"") -> bytes:
        """The next byte that is no blank and none of `also`; b"" at the end."""
        while True:
            self.data = self.data.lstrip(_SPACE + also)
            if self.data or not self.grow():
                return self.data[:1]


_DECODER = msgspec.json.Decoder(list[Event])


@dataclass(frozen=True, slots=True)
class Block:
    """Events, how many bytes they took, and whether the list of events ends behind them."""

    events: list[Event]
    used: int
    is_last: bool


def next_block(window: Window) -> Block | None:
    """The events up to the last cut in what is read that decodes; None where none does."""
    data = window.data
    for number, cut in enumerate(_cuts(data)):
        if number == _MOST_TRIES:
            return None
        try:
            events = _DECODER.decode(b"[%b]" % data[: cut.end()])
        except (msgspec.ValidationError, UnicodeDecodeError):  # an odd event, wherever the cut is
            return None
        except (msgspec.DecodeError, RecursionError):  # the cut was inside an event: the one before may do
            continue
        return Block(events, cut.end(), cut[1] == b"]")
    return None


def _cuts(data: bytes) -> Iterator[re.Match[bytes]]:
    """Where events may end, the last first."""
    since = max(0, len(data) - _CUT_WINDOW)
    yield from reversed(list(_CUT.finditer(data, since)))
    yield from reversed(list(_CUT.finditer(data, 0, since)))


def _from_microseconds(raw: msgspec.Raw) -> int | None:
    """Nanoseconds. Profilers print up to three digits behind the point, nearly always: this way takes a third of the time."""
    printed = str(memoryview(raw), "ascii", "replace").strip('"')
    before, _, behind = printed.partition(".")
    digits = before + behind
    if len(behind) < len(_SCALES) and len(digits) < _SAFE_DIGITS and digits.isdigit():
        return int(digits) * _SCALES[len(behind)]
    return nanoseconds(printed, US)
