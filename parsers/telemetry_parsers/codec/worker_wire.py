"""What goes between the daemon and a worker: a question as one line of JSON, and its answer as another.

docs/architecture.md, "What a worker is asked", shows both. How a worker writes an answer stands in `worker_answer.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line
from telemetry_parsers.model import Capture, Failure, Output, Plain, Reason, Request


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
    return encode_line(to_plain(Question, question)).encode("ascii") + b"\n"


def checked_readout(result: Plain) -> Readout:
    """What somebody else's code read, by the result of an answer; a CodecError names what is wrong with it."""
    return from_plain(Readout, result)


def own_readout(result: Plain) -> Readout:
    """What our own code read, in a worker that has no other: a line of JSON holds plain data only, which is not walked again."""
    try:
        failure = result["failure"]
        outputs = tuple(Output(**output) for output in result["outputs"])
        return Readout(outputs, None if failure is None else Failure(**failure))
    except (KeyError, TypeError) as error:  # of another version of ours
        raise CodecError("", f"no readout: {error}") from None


def answer_in(line: bytes) -> Answer:
    """The answer of a line."""
    return from_plain(Answer, decode_line(line))
