"""Calls the library for one device. Unsupported calls are not repeated, and denied calls are repeated rarely."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import (
    DeviceLostError,
    Refused,
    SessionOverError,
    error_answer,
    error_in,
    is_value,
)
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.calls import UUID, Call
from telemetry_daemon.readers.nvml.fields import MAX_AT_ONCE, Field, plain_value
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# The interval at which denied calls are repeated: permissions rarely change.
DENIED_AGAIN_SECONDS = 600.0
# The number of unspecific errors at the beginning of a poll after which the GPU is considered lost.
_MAX_UNSPECIFIC = 3


class Asker:
    """Calls the library for one GPU or MIG instance, and remembers which calls fail."""

    def __init__(self, nvml: Nvml, handle: Any, clock: Callable[[], float]) -> None:
        self.handle = handle
        self._nvml = nvml
        self._clock = clock
        self._disabled: dict[str, tuple[int, float]] = {}
        self._answered: set[str] = set()
        self._has_answered = False
        self._unspecific_errors = 0

    def begin(self) -> None:
        """Begin a poll, and reset the count of errors."""
        self._has_answered, self._unspecific_errors = False, 0

    def answers(self, calls: Iterable[Call]) -> dict[str, Plain]:
        """Make the calls, and return the results by key. The result of a failed call is {"error": number}."""
        return dict(map(self.answer, calls))

    def answer(self, call: Call) -> tuple[str, Plain]:
        """Return the key and the result of a call, or of its fallback if the call is not supported."""
        result = self._call(call)
        if call.fallback is not None and self._needs_fallback(call.key, error_in(result)):
            return self.answer(call.fallback)
        return call.key, result

    def value(self, call: Call) -> Plain:
        """Return the value of a call, or None if it failed."""
        _, answer = self.answer(call)
        return answer if is_value(answer) else None

    def confirm(self, uuid: Plain) -> None:
        """Raise SessionOverError if the handle now refers to a device with another UUID."""
        if self.value(UUID) not in (None, uuid) and uuid is not None:
            raise SessionOverError(codes.ANOTHER_DEVICE)

    def fields(self, batch: Sequence[Field]) -> dict[str, Plain]:
        """Read the fields with as few calls as possible, and return their values or errors by name."""
        answers: dict[str, Plain] = {}
        enabled: list[Field] = []
        for field in batch:
            code = self.error_if_disabled(field.name)
            if code is None:
                enabled.append(field)
            else:
                answers[field.name] = error_answer(code)
        for start in range(0, len(enabled), MAX_AT_ONCE):
            answers.update(self._batch(enabled[start : start + MAX_AT_ONCE]))
        return answers

    def custom(self, key: str, function: Callable[[], Any]) -> Plain:
        """Return the result of a function that calls the library. Its errors are remembered under the key."""
        code = self.error_if_disabled(key)
        if code is not None:
            return error_answer(code)
        result = function()
        if isinstance(result, Refused):
            self.judge(key, result.code)
            return error_answer(result.code)
        return result

    def error_if_disabled(self, key: str) -> int | None:
        """Return the error that currently keeps a call disabled, or None if the call may be made."""
        if key not in self._disabled:
            return None
        code, until = self._disabled[key]
        return code if self._clock() < until else None

    def judge(self, key: str, code: int, switches_off: frozenset[int] = codes.SWITCHES_OFF) -> None:
        """Disable a call if its error requires that. Raises DeviceLostError or SessionOverError for errors of the device or library."""
        if code in codes.LOSES_GPU:
            raise DeviceLostError(code)
        if code in codes.ENDS_SESSION:
            raise SessionOverError(code)
        self._disable(key, code, switches_off)

    def _note_answer(self, key: str) -> None:
        self._has_answered = True
        self._answered.add(key)

    def _note_error(self, code: int) -> None:
        """Count calls that failed with an unspecific error. A GPU is lost only if all its calls fail."""
        self._unspecific_errors = self._unspecific_errors + 1 if code in codes.UNSPECIFIC else 0
        if self._unspecific_errors >= _MAX_UNSPECIFIC and not self._has_answered:
            raise DeviceLostError(code)

    def _needs_fallback(self, key: str, code: int | None) -> bool:
        """Return whether to use the older form of a call. Never after the newer form has worked: their meanings may differ."""
        return code in codes.SWITCHES_OFF or (code in codes.FALLS_BACK and key not in self._answered)

    def _call(self, call: Call) -> Plain:
        code = self.error_if_disabled(call.key)
        if code is not None:
            return error_answer(code)
        result = self._nvml.call(call.function, self.handle, *call.arguments, plain=call.plain)
        if isinstance(result, Refused):
            self.judge(call.key, result.code, call.switches_off)
            self._note_error(result.code)
            return error_answer(result.code)
        self._note_answer(call.key)
        return result

    def _batch(self, fields: Sequence[Field]) -> dict[str, Plain]:
        code = self.error_if_disabled("FieldValues")
        if code is not None:
            return {field.name: error_answer(code) for field in fields}
        answers = self._values(fields)
        if isinstance(answers, Refused) and answers.code == codes.INVALID_ARGUMENT:
            answers = self._fields_separately(fields)
        if isinstance(answers, Refused):
            self.judge("FieldValues", answers.code)
            self._note_error(answers.code)
            return {field.name: error_answer(answers.code) for field in fields}
        self._note_answer("FieldValues")
        for name, value in answers.items():
            self._disable(name, error_in(value), codes.FIELD_SWITCHES_OFF)
        return answers

    def _values(self, fields: Sequence[Field]) -> dict[str, Plain] | Refused:
        ids = [(field.number, field.scope) for field in fields]
        result = self._nvml.field_values(self.handle, ids)
        if isinstance(result, Refused):
            return result
        return {field.name: plain_value(item, field) for field, item in zip(fields, result, strict=True)}

    def _fields_separately(self, fields: Sequence[Field]) -> dict[str, Plain] | Refused:
        """Read each field with a separate call, because one unknown field may make the whole batch fail."""
        answers: dict[str, Plain] = {}
        for field in fields:
            value = self._values((field,))
            answers.update({field.name: error_answer(value.code)} if isinstance(value, Refused) else value)
        if any(map(is_value, answers.values())):
            return answers
        self._disabled["FieldValues"] = (codes.INVALID_ARGUMENT, self._clock() + DENIED_AGAIN_SECONDS)
        return Refused(codes.INVALID_ARGUMENT)

    def _disable(self, key: str, code: int | None, switches_off: frozenset[int]) -> None:
        if code in switches_off and code is not None:
            self._disabled[key] = (code, math.inf)
        elif code == codes.NO_PERMISSION:
            self._disabled[key] = (code, self._clock() + DENIED_AGAIN_SECONDS)
