"""What goes between the daemon and a worker: a question as one line of JSON, and its answer as another.

docs/architecture.md, "What a worker is asked", shows both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import decode_line, encode_line
from telemetry_parsers.model import Capture, Failure, Output, Reason, Request

# A longer answer is replaced by the fault that it is too long; a worker that sends one all the same is ended.
ANSWER_LIMIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Describe:
    """What is the parser at this target (`module:attribute` or `/file.py:attribute`)? The result is a DescribedParser."""

    parser: str


@dataclass(frozen=True, slots=True)
class Parse:
    """What does the parser at this target make of a capture? The result is a Report."""

    parser: str
    capture: Capture


@dataclass(frozen=True, slots=True)
class Read:
    """What do the library reader at this target, or the files below `root`, say? The result is a Readout."""

    request: Request
    reader: str
    root: str


Ask = Describe | Parse | Read


@dataclass(frozen=True, slots=True)
class Readout:
    """What was read, or why nothing was."""

    outputs: tuple[Output, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to do within so many seconds."""

    id: int
    seconds: float
    ask: Ask


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no result."""

    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the question with this id in plain form, or the fault; `cpu_seconds` is what the worker has used so far."""

    id: int
    cpu_seconds: float
    error: Fault | None
    result: object


def question_line(question: Question) -> bytes:
    """The question as a line; a CodecError says what in it has no plain form."""
    return _line(to_plain(Question, question))


def question_in(line: bytes) -> Question:
    """The question of a line."""
    return from_plain(Question, decode_line(line))


def answer_line(answer: Answer) -> bytes:
    """The answer as a line, within the limit; a CodecError says what in it has no plain form."""
    line = _line(to_plain(Answer, answer))
    if len(line) <= ANSWER_LIMIT_BYTES:
        return line
    text = f"an answer of {len(line)} bytes, the limit is {ANSWER_LIMIT_BYTES}"
    return _line(to_plain(Answer, replace(answer, error=Fault("too_much_output", text), result=None)))


def answer_in(line: bytes) -> Answer:
    """The answer of a line."""
    return from_plain(Answer, decode_line(line))


def _line(plain: object) -> bytes:
    return encode_line(plain).encode("ascii") + b"\n"
