"""Makes the calls on one handle. Unsupported calls are not repeated, denied calls rarely, and a lost GPU is not called."""

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
    is_answered,
)
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.calls import UUID, Call
from telemetry_daemon.readers.nvml.fields import MOST_AT_ONCE, Field, plain_value
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# Permissions rarely change, and a denied call costs as much as an answer.
ASK_AGAIN_SECONDS = 600.0
# This many unspecific errors at the beginning of a poll mean that the GPU is lost.
_MOST_VAGUE = 3


class Asker:
    """The calls on one GPU or MIG instance, from one initialisation to the next."""

    def __init__(self, nvml: Nvml, handle: Any, clock: Callable[[], float]) -> None:
        self.handle = handle
        self._nvml = nvml
        self._clock = clock
        self._off: dict[str, tuple[int, float]] = {}
        self._answered: set[str] = set()
        self._heard = False
        self._vague = 0

    def begin(self) -> None:
        """Begin a poll: if all calls fail from here on, the GPU may be lost."""
        self._heard, self._vague = False, 0

    def answers(self, calls: Iterable[Call]) -> dict[str, Plain]:
        """Return the answer of each call by key; an answer may be {"error": number}."""
        return dict(map(self.answer, calls))

    def answer(self, call: Call) -> tuple[str, Plain]:
        """Return the answer of a call or of its fallback, with the key of the call that answered."""
        given = self._ask(call)
        if call.fallback is not None and self._is_not_there(call.key, error_in(given)):
            return self.answer(call.fallback)
        return call.key, given

    def value(self, call: Call) -> Plain:
        """Return the value of a call, or None for an error."""
        _, answer = self.answer(call)
        return answer if is_answered(answer) else None

    def confirm(self, uuid: Plain) -> None:
        """Raise SessionOverError if the handle now has another UUID."""
        if self.value(UUID) not in (None, uuid) and uuid is not None:
            raise SessionOverError(codes.ANOTHER_DEVICE)

    def fields(self, batch: Sequence[Field]) -> dict[str, Plain]:
        """Return the answer of each field by name, with as few calls as possible."""
        found: dict[str, Plain] = {}
        wanted: list[Field] = []
        for field in batch:
            off = self.off(field.name)
            if off is None:
                wanted.append(field)
            else:
                found[field.name] = error_answer(off)
        for start in range(0, len(wanted), MOST_AT_ONCE):
            found.update(self._batch(wanted[start : start + MOST_AT_ONCE]))
        return found

    def custom(self, key: str, ask: Callable[[], Any]) -> Plain:
        """Return the result of `ask`, a custom call. Its error is remembered under the key."""
        off = self.off(key)
        if off is not None:
            return error_answer(off)
        given = ask()
        if isinstance(given, Refused):
            self.judge(key, given.code)
            return error_answer(given.code)
        return given

    def off(self, key: str) -> int | None:
        """Return the error for which a call is not made at present, or None."""
        if key not in self._off:
            return None
        code, until = self._off[key]
        return code if self._clock() < until else None

    def judge(self, key: str, code: int, switches_off: frozenset[int] = codes.SWITCHES_OFF) -> None:
        """Remember the consequence of an error. Raise DeviceLostError or SessionOverError if no further call makes sense."""
        if code in codes.LOSES_GPU:
            raise DeviceLostError(code)
        if code in codes.ENDS_SESSION:
            raise SessionOverError(code)
        self._switch_off(key, code, switches_off)

    def _hear(self, key: str) -> None:
        self._heard = True
        self._answered.add(key)

    def _hear_nothing(self, code: int) -> None:
        """Count calls that failed with an unspecific error. A GPU is lost only if all its calls fail."""
        self._vague = self._vague + 1 if code in codes.VAGUE else 0
        if self._vague >= _MOST_VAGUE and not self._heard:
            raise DeviceLostError(code)

    def _is_not_there(self, key: str, code: int | None) -> bool:
        """Return whether to try the older form of a call: only if no newer form has answered, because meanings may differ."""
        return code in codes.SWITCHES_OFF or (code in codes.FALLS_BACK and key not in self._answered)

    def _ask(self, call: Call) -> Plain:
        off = self.off(call.key)
        if off is not None:
            return error_answer(off)
        given = self._nvml.call(call.function, self.handle, *call.arguments, plain=call.plain)
        if isinstance(given, Refused):
            self.judge(call.key, given.code, call.switches_off)
            self._hear_nothing(given.code)
            return error_answer(given.code)
        self._hear(call.key)
        return given

    def _batch(self, fields: Sequence[Field]) -> dict[str, Plain]:
        off = self.off("FieldValues")
        if off is not None:
            return {field.name: error_answer(off) for field in fields}
        found = self._values(fields)
        if isinstance(found, Refused) and found.code == codes.INVALID_ARGUMENT:
            found = self._one_by_one(fields)
        if isinstance(found, Refused):
            self.judge("FieldValues", found.code)
            self._hear_nothing(found.code)
            return {field.name: error_answer(found.code) for field in fields}
        self._hear("FieldValues")
        for name, value in found.items():
            self._switch_off(name, error_in(value), codes.FIELD_SWITCHES_OFF)
        return found

    def _values(self, fields: Sequence[Field]) -> dict[str, Plain] | Refused:
        ids = [(field.number, field.scope) for field in fields]
        given = self._nvml.field_values(self.handle, ids)
        if isinstance(given, Refused):
            return given
        return {field.name: plain_value(item, field) for field, item in zip(fields, given, strict=True)}

    def _one_by_one(self, fields: Sequence[Field]) -> dict[str, Plain] | Refused:
        """Read each field separately, once: a driver may refuse the whole batch because of one unknown field."""
        found: dict[str, Plain] = {}
        for field in fields:
            value = self._values((field,))
            found.update({field.name: error_answer(value.code)} if isinstance(value, Refused) else value)
        if any(map(is_answered, found.values())):
            return found
        self._off["FieldValues"] = (codes.INVALID_ARGUMENT, self._clock() + ASK_AGAIN_SECONDS)
        return Refused(codes.INVALID_ARGUMENT)

    def _switch_off(self, key: str, code: int | None, switches_off: frozenset[int]) -> None:
        if code in switches_off and code is not None:
            self._off[key] = (code, math.inf)
        elif code == codes.NO_PERMISSION:
            self._off[key] = (code, self._clock() + ASK_AGAIN_SECONDS)
