"""The messages between the daemon and a worker: a question as one line of JSON, and the answer as another.

Examples are in docs/architecture.md, "What the daemon and its workers exchange". `worker_answer.py` writes the answers.
"""

from __future__ import annotations

from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Failure, Output, Plain, Reason, Request


@dataclass(frozen=True, slots=True)
class Describe:
    """Describe the parser at this target (`module:attribute` or `/file.py:attribute`). The result is a DescribedParser."""

    parser: str


@dataclass(frozen=True, slots=True)
class Parse:
    """Parse a capture with the parser at this target. The result is a Report."""

    parser: str
    capture: Capture


@dataclass(frozen=True, slots=True)
class Read:
    """Call the library reader at this target, or read the files below `root`. The result is a Readout."""

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
    """A request with a time limit in seconds."""

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
    """The result of the question with this id in plain form, or the fault; `cpu_seconds` is the worker's total CPU time."""

    id: int
    cpu_seconds: float
    error: Fault | None
    result: object


def question_line(question: Question) -> bytes:
    """Return the question as a line. Raise CodecError for data without a plain form."""
    return encode_line(to_plain(Question, question)).encode("ascii") + b"\n"


def checked_readout(result: Plain) -> Readout:
    """Return the readout of a plugin from an answer's result. Raise CodecError for invalid data."""
    return from_plain(Readout, result)


def own_readout(result: Plain) -> Readout:
    """Return the readout of a built-in reader. A line of JSON contains plain data only, so that it is not checked again."""
    try:
        failure = result["failure"]
        outputs = tuple(Output(**output) for output in result["outputs"])
        return Readout(outputs, None if failure is None else Failure(**failure))
    except (KeyError, TypeError) as error:  # the worker may be of another version
        raise CodecError("", f"no readout: {error}") from None


def answer_in(line: bytes) -> Answer:
    """Return the answer in a line."""
    return from_plain(Answer, decode_line(line))
