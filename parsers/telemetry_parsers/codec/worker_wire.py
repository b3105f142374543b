"""The messages between the daemon and a worker. Each message is a line of JSON."""

from __future__ import annotations

from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Failure, Output, Plain, Reason, Request


@dataclass(frozen=True, slots=True)
class Describe:
    """A request to describe the parser `module:attribute` or `/file.py:attribute`."""

    parser: str


@dataclass(frozen=True, slots=True)
class Parse:
    """A request to parse a capture. The parser is named as in `Describe`."""

    parser: str
    capture: Capture


@dataclass(frozen=True, slots=True)
class Read:
    """A request to call a library reader, or to read system files below the folder `root`."""

    request: Request
    reader: str
    root: str


Ask = Describe | Parse | Read


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The outputs of a reader, or its failure."""

    outputs: tuple[Output, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A request with an id and a time limit in seconds."""

    id: int
    seconds: float
    ask: Ask


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why an answer has no result."""

    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A result or a fault, with the worker's total CPU time in seconds."""

    id: int
    cpu_seconds: float
    error: Fault | None
    result: object


def question_line(question: Question) -> bytes:
    """Encode the question as a line of JSON. Raise CodecError for data that is not JSON."""
    return encode_line(to_plain(Question, question)).encode("ascii") + b"\n"


def decode_checked_result(result: Plain) -> ReadResult:
    """Check and decode the result of a plugin's reader. Raise CodecError for invalid data."""
    return from_plain(ReadResult, result)


def decode_trusted_result(result: Plain) -> ReadResult:
    """Decode the result of a built-in reader, whose values are trusted."""
    try:
        failure = result["failure"]
        outputs = tuple(Output(**output) for output in result["outputs"])
        return ReadResult(outputs, None if failure is None else Failure(**failure))
    except (KeyError, TypeError) as error:  # the worker may run another version of this code
        raise CodecError("", f"the reader's result is invalid: {error}") from None


def answer_in(line: bytes) -> Answer:
    """Decode a worker's line of JSON. Raise CodecError for an invalid answer."""
    return from_plain(Answer, decode_line(line))
