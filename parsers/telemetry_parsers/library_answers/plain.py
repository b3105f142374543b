"""Plain data from a library, taken apart without trust in its shape."""

from __future__ import annotations

from telemetry_parsers.model import Absent, Plain, Value
from telemetry_parsers.sentinels import ALL_BITS

# Above any number that a library gives.
_LARGEST = 2**64


def error_in(answer: Plain) -> int | None:
    """The number of the error that an answer is; None for a value, -1 for an error that nobody knows."""
    if not isinstance(answer, dict) or "error" not in answer:
        return None
    code = answer["error"]
    return code if type(code) is int and abs(code) < _LARGEST else -1


def part_of(answer: Plain, part: str | int | None) -> Plain:
    """A member of an object or an item of a list; the answer itself where no part is asked for."""
    if part is None:
        return answer
    if isinstance(answer, dict) and isinstance(part, str):
        return answer.get(part)
    if isinstance(answer, list) and isinstance(part, int):
        return answer[part] if part < len(answer) else None
    return None if answer is None else "not understood"


def number(answer: Plain) -> Value:
    """A number as a library gives it: no truth value, no text, no sentinel."""
    if answer is None:
        return Absent.NOT_REPORTED
    if type(answer) not in (int, float) or not abs(answer) < _LARGEST:  # NaN is not
        return Absent.NOT_UNDERSTOOD
    return Absent.IMPLAUSIBLE if answer in ALL_BITS else float(answer)


def text(answer: Plain) -> str | None:
    """A text that is not blank."""
    return answer.strip() or None if isinstance(answer, str) and len(answer) < 1000 else None


def whole(answer: Plain, below: int = 2**31) -> int | None:
    """A whole number from 0 on, None for anything else; all bits set are none."""
    return answer if type(answer) is int and 0 <= answer < below and answer not in ALL_BITS else None


def items(answer: Plain) -> list[Plain]:
    """A list; an empty one for anything else."""
    return answer if isinstance(answer, list) else []


def objects(answer: Plain) -> list[dict[str, Plain]]:
    """The objects in a list; none for anything else."""
    return [item for item in items(answer) if isinstance(item, dict)]


def mapping(answer: Plain) -> dict[str, Plain]:
    """An object; an empty one for anything else."""
    return answer if isinstance(answer, dict) else {}
