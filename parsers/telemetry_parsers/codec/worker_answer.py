"""What a worker answers, in plain form: `worker_wire.py` says the same with the types of the model, and the daemon reads it so.

A worker that asks a library or reads files has no need of the model and of dataclasses: together they would cost it 4 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from telemetry_parsers.codec.plain import encode_line

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# A longer answer is replaced by the fault that it is too long; a worker that sends one all the same is ended.
LIMIT_BYTES = 8 << 20


def output(name: str, *, text: str = "", stderr: str = "", status: int | None = None, data: Plain = None) -> Plain:
    """An `Output`: what one file or one call gave."""
    return {"name": name, "target": "", "text": text, "stderr": stderr, "status": status, "data": data}


def failure(state: str, reason: str | None, text: str) -> Plain:
    """A `Failure`: why nothing was read."""
    return {"state": state, "reason": reason, "text": text}


def readout(outputs: Sequence[Plain] = (), failed: Plain = None) -> Plain:
    """A `Readout`: what was read, or why nothing was."""
    return {"outputs": outputs, "failure": failed}


def fault(reason: str, text: str) -> Plain:
    """A `Fault`: why there is no result."""
    return {"reason": reason, "text": text}


def answer_line(number: int, cpu_seconds: float, error: Plain, result: Plain) -> bytes:
    """An `Answer` as a line, within the limit; a CodecError says what in it has no plain form."""
    line = _line(number, cpu_seconds, error, result)
    if len(line) <= LIMIT_BYTES:
        return line
    text = f"an answer of {len(line)} bytes, the limit is {LIMIT_BYTES}"
    return _line(number, cpu_seconds, fault("too_much_output", text), None)


def _line(number: int, cpu_seconds: float, error: Plain, result: Plain) -> bytes:
    answer = {"id": number, "cpu_seconds": cpu_seconds, "error": error, "result": result}
    return encode_line(answer).encode("ascii") + b"\n"
