"""Answers of workers in plain form, without the types of the model in `worker_wire.py`, by which the daemon reads them.

A worker that calls a library or reads files does not import the model and dataclasses, which would cost it 4 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from telemetry_parsers.codec.plain import encode_line

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# A longer answer is replaced by a fault. A worker that sends one nevertheless is killed.
LIMIT_BYTES = 8 << 20


def output(name: str, *, text: str = "", stderr: str = "", status: int | None = None, data: Plain = None) -> Plain:
    """Return an `Output` of one file or one call."""
    return {"name": name, "target": "", "text": text, "stderr": stderr, "status": status, "data": data}


def failure(state: str, reason: str | None, text: str) -> Plain:
    """Return a `Failure`: why nothing was read."""
    return {"state": state, "reason": reason, "text": text}


def readout(outputs: Sequence[Plain] = (), failed: Plain = None) -> Plain:
    """Return a `Readout`: what was read, or why nothing was."""
    return {"outputs": outputs, "failure": failed}


def fault(reason: str, text: str) -> Plain:
    """Return a `Fault`: why there is no result."""
    return {"reason": reason, "text": text}


def answer_line(number: int, cpu_seconds: float, error: Plain, result: Plain) -> bytes:
    """Return an `Answer` as a line within the limit. Raise CodecError for data without a plain form."""
    line = _line(number, cpu_seconds, error, result)
    if len(line) <= LIMIT_BYTES:
        return line
    text = f"an answer of {len(line)} bytes, the limit is {LIMIT_BYTES}"
    return _line(number, cpu_seconds, fault("too_much_output", text), None)


def _line(number: int, cpu_seconds: float, error: Plain, result: Plain) -> bytes:
    answer = {"id": number, "cpu_seconds": cpu_seconds, "error": error, "result": result}
    return encode_line(answer).encode("ascii") + b"\n"
