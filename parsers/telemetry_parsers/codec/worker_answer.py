"""Creates workers' answers as plain data.

Workers that call a library or read files do not import the types in `worker_wire.py`, which would use 4 MiB of memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from telemetry_parsers.codec.plain import encode_line
from telemetry_parsers.typing_names import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

LIMIT_BYTES = 8 << 20  # the maximum size of an answer


def output(name: str, *, text: str = "", stderr: str = "", status: int | None = None, data: Plain = None) -> Plain:
    """Return an `Output` as plain data: the output of one file or one call."""
    return {"name": name, "target": "", "text": text, "stderr": stderr, "status": status, "data": data}


def failure(state: str, reason: str | None, text: str) -> Plain:
    """Return a `Failure` as plain data: the reason why a reader has no output."""
    return {"state": state, "reason": reason, "text": text}


def read_result(outputs: Sequence[Plain] = (), failed: Plain = None) -> Plain:
    """Return a `ReadResult` as plain data."""
    return {"outputs": outputs, "failure": failed}


def fault(reason: str, text: str) -> Plain:
    """Return a `Fault` as plain data: the reason why an answer has no result."""
    return {"reason": reason, "text": text}


def answer_line(question_id: int, cpu_seconds: float, error: Plain, result: Plain) -> bytes:
    """Encode an `Answer` as a line. Replace the result with a fault if the line exceeds LIMIT_BYTES."""
    line = _encode_answer(question_id, cpu_seconds, error, result)
    if len(line) <= LIMIT_BYTES:
        return line
    text = f"the answer has {len(line)} bytes, but the limit is {LIMIT_BYTES}"
    return _encode_answer(question_id, cpu_seconds, fault("too_much_output", text), None)


def _encode_answer(question_id: int, cpu_seconds: float, error: Plain, result: Plain) -> bytes:
    answer = {"id": question_id, "cpu_seconds": cpu_seconds, "error": error, "result": result}
    return encode_line(answer).encode("ascii") + b"\n"
